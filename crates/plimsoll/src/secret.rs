//! What was typed, without what nobody else should read in it.

pub use plimsoll_measure::secret::without_password;
use plimsoll_measure::secret::{HIDDEN, masked};
use serde_json::Value;

/// `path=value`, as `--set` takes it, without passwords, tokens and what requests are sent with. What holds no secret stays
/// as it was typed; a value that cannot be read may hold anything, and is hidden.
pub fn shown(assignment: &str) -> String {
    let Some((path, text)) = assignment.split_once('=') else { return without_password(assignment) };
    let Ok(value) = serde_saphyr::from_str::<Value>(text) else { return format!("{path}={HIDDEN}") };
    match masked(path.trim(), &value) {
        masked if masked == value => assignment.to_owned(),
        Value::String(text) => format!("{path}={text}"),
        masked => format!("{path}={masked}"),
    }
}

#[cfg(test)]
mod tests {
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
        ] {
            assert_eq!(shown(typed), expected);
        }
    }
}
