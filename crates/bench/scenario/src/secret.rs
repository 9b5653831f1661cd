//! Hides passwords, tokens and keys in user input.

use plimsoll_measure::secret::{HIDDEN, masked};
pub use plimsoll_measure::secret::{hides, may_hold, without_password};
use serde_json::Value;

/// Splits `path=value` into path and value text. `None` if the text has no `=`, or is an address.
pub fn halves(assignment: &str) -> Option<(&str, &str)> {
    assignment.split_once('=').filter(|(path, _)| !path.contains("://") && !path.contains('@'))
}

/// Hides passwords, tokens, headers and credentials in `path=value`, as `--set` takes it. Text without secrets is unchanged. A
/// value that cannot be parsed is hidden, because it may hold any secret.
pub fn shown(assignment: &str) -> String {
    let Some((path, text)) = halves(assignment) else { return without_password(assignment) };
    let Ok(value) = serde_saphyr::from_str::<Value>(text) else { return format!("{path}={HIDDEN}") };
    match masked(path.trim(), &value) {
        masked if masked == value => assignment.to_owned(),
        Value::String(text) => format!("{path}={text}"),
        masked => format!("{path}={masked}"),
    }
}

/// User input in an error message, hidden if it may hold a secret.
pub fn repeated(text: &str) -> &str {
    if may_hold(text) { HIDDEN } else { text }
}

/// Whether an argument of a command line, or a text in a file, holds a secret.
pub fn is_in(text: &str) -> bool {
    without_password(text) != text || shown(text) != text
}

/// The secret texts and numbers in a tree, and the texts that contain a secret.
pub fn in_tree(tree: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather("", tree, &mut found);
    found
}

fn gather(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| gather(&format!("{path}.{key}"), value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| gather(path, value, found)),
        Value::String(text) if !text.is_empty() && (hides(path) || is_in(text)) => found.push(text.clone()),
        Value::Number(number) if hides(path) => found.push(number.to_string()),
        _ => {}
    }
}

/// The secrets in YAML, and the lines, including comments, in which an address has a password. `None` if the text cannot be
/// parsed and may hold any secret.
pub fn in_yaml(text: &str) -> Option<Vec<String>> {
    let Ok(tree) = serde_saphyr::from_str::<Value>(text) else {
        return (!may_hold(text)).then(Vec::new);
    };
    let lines = text.lines().filter(|line| without_password(line) != **line).map(str::to_owned);
    Some(in_tree(&tree).into_iter().chain(lines).collect())
}

/// Whether a message repeats one of the secrets, plain or quoted.
pub fn are_in(message: &str, secrets: &[String]) -> bool {
    secrets.iter().any(|it| repeats(message, it) || message.contains(&format!("{it:?}")))
}

/// Whether a message contains a secret as a whole word: a short secret may be a part of any word.
fn repeats(message: &str, secret: &str) -> bool {
    message.match_indices(secret).any(|(at, _)| {
        let around = [message[..at].chars().next_back(), message[at + secret.len()..].chars().next()];
        !around.into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_assignment_is_shown_without_its_secrets() {
        for (typed, expected) in [
            ("phases.0.stop.duration=5s", "phases.0.stop.duration=5s"),
            ("write_concern={w: 1,  j: true}", "write_concern={w: 1,  j: true}"),
            ("title=a = b", "title=a = b"),
            ("http.auth={basic: {user: eve, password: swordfish}}", "http.auth=…"),
            ("http.auth.bearer.token=swordfish", "http.auth.bearer.token=…"),
            ("http.headers.x-any=swordfish", "http.headers.x-any=…"),
            ("http={auth: {bearer: {token: swordfish}}, protocol: http2}", {
                r#"http={"auth":"…","protocol":"http2"}"#
            }),
            ("server=mongodb://ann:swordfish@h:1/?w=1", "server=mongodb://…@h:1/?w=1"),
            ("http.auth={basic: {password: swordfish", "http.auth=…"),
            ("ann:swordfish@h", "…@h"),
            ("mongodb://ann:swordfish@h/?w=1", "mongodb://…@h/?w=1"),
            ("ann:swordfish@h/?w=1", "…@h/?w=1"),
        ] {
            assert_eq!(shown(typed), expected);
            assert_eq!(is_in(typed), typed != expected, "{typed}");
        }
    }

    #[test]
    fn secrets_are_found_anywhere_in_a_tree() {
        let tree = json!({
            "title": "t", "server": "mongodb://ann:a@h", "http": {"auth": {"basic": {"user": "eve", "password": ""}}},
            "keys": [{"api_key": 7}], "overrides": ["http.auth.bearer.token=b", "seed=1"], "seed": 1,
        });
        let found = ["eve", "7", "http.auth.bearer.token=b", "mongodb://ann:a@h"];
        let mut secrets = in_tree(&tree);
        secrets.sort_by_key(|it| found.iter().position(|expected| expected == it));
        assert_eq!(secrets, found);
        assert!(are_in("invalid type: string \"mongodb://ann:a@h\", expected a map", &secrets));
        assert!(!are_in("unknown field `server`", &secrets));
        let short = ["x".to_owned()];
        assert!(!are_in("unknown field `a`, expected `b`", &short) && are_in("unknown variant `x`", &short));
        assert!(are_in(r#"string "a\"b""#, &["a\"b".to_owned()]));
    }

    #[test]
    fn a_text_that_cannot_be_parsed_may_hold_a_secret() {
        assert_eq!(in_yaml("a: [1"), Some(Vec::new()));
        assert_eq!(in_yaml("password: [swordfish"), None);
        assert_eq!(in_yaml("a: 1 # mongodb://ann:b@h"), Some(vec!["a: 1 # mongodb://ann:b@h".to_owned()]));
    }
}
