//! Masks secrets: passwords, tokens and request headers.

use serde_json::Value;

/// The text that replaces a secret.
pub const HIDDEN: &str = "…";
/// Parts of the names of secret keys, in lower case and without `-` and `_`.
const WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "cookie",
    "credential",
];
/// The names of keys whose whole subtree is secret: users and request headers.
const ROOMS: [&str; 2] = ["auth", "headers"];
/// An option of a connection string that may hold a session's token.
const PROPERTIES: &str = "authmechanismproperties";

/// Whether the value at `path`, its keys joined by dots, is secret.
pub fn hides(path: &str) -> bool {
    path.split('.').any(is_secret)
}

/// Whether a text of any form, even an unreadable text, may hold a secret. In doubt, the answer is yes.
pub fn may_hold(text: &str) -> bool {
    let between = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'));
    text.contains('@')
        || text.split(between).any(|word| is_secret(word) || word.eq_ignore_ascii_case(PROPERTIES))
}

/// The value at `path` without secrets; addresses lose only their passwords.
#[must_use]
pub fn masked(path: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if hides(path) => Value::from(HIDDEN),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), masked(key, value))).collect(),
        Value::Array(list) => list.iter().map(|value| masked("", value)).collect(),
        Value::String(text) => Value::from(without_password(text)),
        other => other.clone(),
    }
}

/// A text with a connection string or another address, without its user, its password and secret options.
#[must_use]
pub fn without_password(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else { return without_user(text) };
    let (user, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("…@", place));
    let place = match place.split_once('?') {
        Some((place, options)) => {
            format!("{place}?{}", options.split('&').map(option).collect::<Vec<_>>().join("&"))
        }
        None => place.to_owned(),
    };
    format!("{before}://{user}{place}")
}

/// `ann:secret@host` without its user and password.
fn without_user(text: &str) -> String {
    let is_user = |before: &str| before.contains(':') && !before.contains(char::is_whitespace);
    match text.rsplit_once('@') {
        Some((before, place)) if is_user(before) => format!("…@{place}"),
        _ => text.to_owned(),
    }
}

fn option(option: &str) -> String {
    match option.split_once('=') {
        Some((name, _)) if is_secret(name) || name.eq_ignore_ascii_case(PROPERTIES) => {
            format!("{name}={HIDDEN}")
        }
        _ => option.to_owned(),
    }
}

fn is_secret(key: &str) -> bool {
    let key: String = key.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect();
    ROOMS.contains(&key.trim()) || WORDS.iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_passwords_are_removed_from_addresses() {
        for (text, expected) in [
            ("mongodb://localhost:27017", "mongodb://localhost:27017"),
            ("mongodb://ann:secret@h:1/db?w=1", "mongodb://…@h:1/db?w=1"),
            ("mongodb://ann:se@cr?et@h", "mongodb://…@h"),
            (
                "mongodb://h/?tls=true&tlsCertificateKeyFilePassword=secret&w=1",
                "mongodb://h/?tls=true&tlsCertificateKeyFilePassword=…&w=1",
            ),
            (
                "mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:secret",
                "mongodb://h/?authMechanismProperties=…",
            ),
            ("https://h/v1?api_key=secret&size=1", "https://h/v1?api_key=…&size=1"),
            ("ann:secret@h:1", "…@h:1"),
            ("ann@example.org", "ann@example.org"),
            ("at 10:30 @noon", "at 10:30 @noon"),
            ("lean", "lean"),
        ] {
            assert_eq!(without_password(text), expected);
        }
    }

    #[test]
    fn an_unreadable_text_is_secret_if_it_contains_a_secret_key() {
        for (text, expected) in [
            ("{duration: 5s", false),
            ("mongodb://localhost:27017", false),
            ("the authors of it", false),
            ("mongodb://ann:swordfish@h", true),
            ("{auth: {basic: swordfish", true),
            ("HEADERS:\n  x-any: [swordfish", true),
            ("x: {api-key: 'swordfish", true),
            ("h/?authMechanismProperties=swordfish", true),
        ] {
            assert_eq!(may_hold(text), expected, "{text}");
        }
    }

    #[test]
    fn secrets_are_found_by_their_path_and_other_values_are_shown() {
        for (path, value, expected) in [
            ("http.auth", json!({"basic": {"user": "eve", "password": "x"}}), json!("…")),
            ("http.auth.bearer.token", json!("x"), json!("…")),
            ("http", json!({"auth": {"bearer": {"token": "x"}}, "url": "http://u:x@h"}), {
                json!({"auth": "…", "url": "http://…@h"})
            }),
            ("http.headers", json!({"x-any": "x"}), json!("…")),
            (
                "phases",
                json!([{"request": {"headers": {"a": "x"}, "get": "/a"}}]),
                json!([{"request": {"headers": "…", "get": "/a"}}]),
            ),
            ("a.API-Key", json!(7), json!("…")),
            ("a.clientSecret", json!(["x"]), json!("…")),
            ("http.auth", json!(null), json!(null)),
            ("phases.0.stop", json!({"duration": "5s"}), json!({"duration": "5s"})),
            ("servers", json!(["mongodb://a:x@h", "h:2"]), json!(["mongodb://…@h", "h:2"])),
            ("write_concern", json!({"w": 1, "j": true}), json!({"w": 1, "j": true})),
        ] {
            assert_eq!(masked(path, &value), expected, "{path}");
        }
    }
}
