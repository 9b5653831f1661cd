//! Checks names that clients choose: of sensors, users, events.

/// The longest name in a path, in bytes.
pub const BYTES_MAX: usize = 128;

/// The reason why `name` is invalid, or `None`.
pub fn fault(name: &str, bytes_max: usize) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".into());
    }
    if name.len() > bytes_max {
        return Some(format!("has {} bytes: at most {bytes_max} are accepted", name.len()));
    }
    if name.starts_with('$') {
        return Some("must not begin with `$`".into());
    }
    name.chars().any(char::is_control).then(|| "must not contain control characters".into())
}
