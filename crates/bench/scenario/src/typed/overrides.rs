//! Overrides one value of a scenario with `--set path=value`.

use anyhow::{Context, anyhow, bail};
use plimsoll_yaml::Slip;
use serde_json::{Map, Value};

use super::oversize_number::read_untyped;
use super::redacted_errors::{rendered, unsaid};
use crate::secret;

/// Sets the value at a dotted path; numbers index lists.
///
/// # Errors
/// When the path leads through a value that is neither a map nor a list, or the new value cannot be parsed.
pub fn set(scenario: &mut Value, assignment: &str) -> anyhow::Result<()> {
    let (path, value) = assigned(assignment, "phases.0.stop.duration=5s")?;
    put(scenario, path, value).with_context(|| format!("--set {path}"))
}

/// The path and the value of `path=value`. The value is parsed as YAML, so that `5s`, `3`, `true` and `{w: 1}` mean the same as
/// in the file.
///
/// # Errors
/// When the text is not an assignment, or its value cannot be parsed. The error shows the example.
pub fn assigned<'a>(assignment: &'a str, example: &str) -> anyhow::Result<(&'a str, Value)> {
    let Some((path, text)) = secret::halves(assignment) else {
        let repeated = secret::repeated(assignment);
        bail!("--set {repeated}: write path=value, for example --set {example}");
    };
    read_untyped(text).map(|value| (path, value)).map_err(|slip| unreadable(path, text, &slip))
}

/// The error for an invalid value. A value that may hold a secret is not repeated.
fn unreadable(path: &str, text: &str, slip: &Slip) -> anyhow::Error {
    let origin = format!("--set {path}");
    if secret::hides(path) || secret::may_hold(text) {
        return anyhow!("{origin}: read the value: {}", unsaid(slip));
    }
    anyhow!("{origin}: read the value `{text}`: {}", rendered(slip, text, &origin))
}

/// Puts `value` at a dotted path; numbers index lists.
///
/// # Errors
/// When the path leads through a value that is neither a map nor a list.
pub fn put(scenario: &mut Value, path: &str, value: Value) -> anyhow::Result<()> {
    let mut place = scenario;
    for (index, key) in path.split('.').enumerate() {
        place = step(place, key).with_context(|| {
            let before: Vec<_> = path.split('.').take(index).collect();
            format!("`{}` has no `{key}`", before.join("."))
        })?;
    }
    *place = value;
    Ok(())
}

fn step<'a>(place: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(map) => Some(map.entry(key).or_insert(Value::Null)),
        Value::Array(list) => list.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_replaced_or_added_at_its_path() {
        let mut scenario = json!({"phases": [{"stop": {"duration": "1s"}}]});
        for assignment in ["phases.0.stop.duration=5s", "write_concern.w=1", "title=a = b", "existing=drop"] {
            set(&mut scenario, assignment).unwrap();
        }
        let expected = json!({
            "phases": [{"stop": {"duration": "5s"}}], "write_concern": {"w": 1}, "title": "a = b", "existing": "drop"
        });
        assert_eq!(scenario, expected);
    }

    #[test]
    fn an_invalid_override_is_repeated_only_if_it_holds_no_secret() {
        for (assignment, part) in [
            ("stop={duration: 5s", "read the value `{duration: 5s`"),
            ("server={uri: mongodb://ann:swordfish@h", "--set server: read the value: "),
            ("http.auth.bearer.token=[swordfish", "--set http.auth.bearer.token: read the value: "),
            ("http={auth: {basic: swordfish", "not shown because"),
            ("mongodb://ann:swordfish@h/?w=1", "--set …: write path=value"),
            ("http.auth.bearer.token swordfish", "--set …: write path=value"),
        ] {
            let message = format!("{:#}", set(&mut json!({}), assignment).unwrap_err());
            assert!(message.contains(part) && !message.contains("swordfish"), "{message}");
        }
    }

    #[test]
    fn a_missing_path_is_refused_with_its_first_missing_key() {
        let mut scenario = json!({"phases": [{}], "title": "x"});
        for (assignment, part) in [
            ("phases.7.stop=1", "`phases` has no `7`"),
            ("title.length=1", "`title` has no `length`"),
            ("no assignment", "write path=value"),
        ] {
            let message = format!("{:#}", set(&mut scenario, assignment).unwrap_err());
            assert!(message.contains(part), "{message}");
        }
    }
}
