//! Formats parse errors without leaking secrets.

use serde_json::Value;
use serde_saphyr::SnippetMode;

use crate::secret;

/// The message for an error whose text could repeat a secret.
const UNSAID: &str = "invalid, and not shown because it may hold a password or a token: look there for a wrong key, quote or \
                      bracket";

/// The parser's error in `text`, with the surrounding lines labelled as lines of `origin`. If the text holds a secret, these
/// lines are left out, and a message that would repeat the secret is reduced to the place.
pub fn rendered(error: &serde_saphyr::Error, text: &str, origin: &str) -> String {
    let Some(secrets) = secret::in_yaml(text) else { return unsaid(error) };
    let snippets = if secrets.is_empty() { SnippetMode::Auto } else { SnippetMode::Off };
    let options = serde_saphyr::render_options! { source_name: Some(origin), snippets: snippets };
    let said = error.render_with_options(options);
    if secret::are_in(&said, &secrets) { unsaid(error) } else { said }
}

/// The place of the error, without its message.
pub fn unsaid(error: &serde_saphyr::Error) -> String {
    let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
    format!("{}{UNSAID}", place.unwrap_or_default())
}

/// The error in an invalid tree, without secrets.
pub fn of_tree(error: &serde_json::Error, tree: &Value) -> String {
    let said = error.to_string();
    if secret::are_in(&said, &secret::in_tree(tree)) { UNSAID.to_owned() } else { said }
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
        let said = rendered(&serde_saphyr::from_str::<Typed>(text).unwrap_err(), text, "my.yaml");
        assert!(!said.contains("swordfish"), "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
    }

    #[test]
    fn an_error_is_printed_without_the_secrets_around_it() {
        check("servr: 1\n", &["unknown field `servr`", "--> my.yaml:1:"]);
        check("servr: 1\nauth: {basic: swordfish}\n", &["unknown field `servr`", "line 1"]);
        check("# mongodb://ann:swordfish@h\nservr: 1\n", &["unknown field `servr`", "line 2"]);
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
            (json!({"servr": 1, "auth": "swordfish"}), "unknown field `servr`"),
        ] {
            let error = serde_json::from_value::<Typed>(tree.clone()).unwrap_err();
            let said = of_tree(&error, &tree);
            assert!(said.contains(part) && !said.contains("swordfish"), "{said}");
        }
    }
}
