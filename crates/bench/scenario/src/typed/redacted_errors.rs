//! Formats parse errors without leaking secrets.

use plimsoll_yaml::{Fault, Slip};
use serde_json::Value;

use super::alias;
use crate::secret;

/// The message for an error whose text could repeat a secret.
const UNSAID: &str = "invalid, and not shown because it may hold a password or a token: look there for a wrong key, quote or \
                      bracket";

/// The slip in `text`, with its line labelled as a line of `origin`. If the text holds a secret, the line is left out, and a
/// message that would repeat the secret is reduced to the place.
pub fn rendered(slip: &Slip, text: &str, origin: &str) -> String {
    let Some(secrets) = secret::in_yaml(text) else { return unsaid(slip) };
    let hint = other_name(&slip.fault).map(|hint| format!("\n{hint}")).unwrap_or_default();
    let said = if secrets.is_empty() { slip.with_excerpt(text, origin) } else { slip.to_string() };
    if secret::are_in(&said, &secrets) { unsaid(slip) } else { said + &hint }
}

/// The place of the slip, without its message.
pub fn unsaid(slip: &Slip) -> String {
    format!("{}{UNSAID}", slip.prefix())
}

/// The error in an invalid tree, without secrets.
pub fn of_tree(error: &serde_json::Error, tree: &Value) -> String {
    let fault = Fault::of_message(&error.to_string());
    let hint = other_name(&fault).map(|hint| format!("\n{hint}")).unwrap_or_default();
    let said = fault.to_string();
    if secret::are_in(&said, &secret::in_tree(tree)) { UNSAID.to_owned() } else { said + &hint }
}

/// The hint for a duplicate key, which may appear under two names.
fn other_name(fault: &Fault) -> Option<String> {
    let Fault::DuplicateKey(Some(key)) = fault else { return None };
    let theirs = alias::other_name(key)?;
    Some(format!("`{theirs}` is k6's word for `{key}`: keep one of them"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    enum Kind {
        Embedded,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Typed {
        #[serde(rename = "server")]
        _server: Option<Kind>,
        #[serde(rename = "auth")]
        _auth: Option<Value>,
    }

    #[track_caller]
    fn check(text: &str, parts: &[&str]) {
        let said = rendered(&plimsoll_yaml::document::<Typed>(text).unwrap_err(), text, "my.yaml");
        assert!(!said.contains("swordfish"), "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
    }

    #[test]
    fn an_error_is_printed_without_the_secrets_around_it() {
        check("servr: 1\n", &["unknown key `servr`", "--> my.yaml:1:"]);
        check("servr: 1\nauth: {basic: swordfish}\n", &["unknown key `servr`", "line 1"]);
        check("# mongodb://ann:swordfish@h\nservr: 1\n", &["unknown key `servr`", "line 2"]);
    }

    #[test]
    fn a_message_that_would_repeat_a_secret_gives_only_the_place() {
        check("server: mongodb://ann:swordfish@h\n", &["not shown because"]);
        check("auth: {token: 'swordfish\n", &["not shown because"]);
    }

    #[test]
    fn an_error_in_a_tree_is_printed_without_its_secrets() {
        for (tree, part) in [
            (json!({"server": "mongodb://ann:swordfish@h"}), "not shown because"),
            (json!({"servr": 1, "auth": "swordfish"}), "unknown key `servr`"),
        ] {
            let error = serde_json::from_value::<Typed>(tree.clone()).unwrap_err();
            let said = of_tree(&error, &tree);
            assert!(said.contains(part) && !said.contains("swordfish"), "{said}");
        }
    }
}
