//! Checks the headers of HTTP steps.

/// Headers that the engine writes: a second one would lead to another host, confuse a proxy, or break the guarantee of one key.
const OWN: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The reason why a step may not have a header.
pub(crate) fn header_fault(name: &str, value: &str) -> Option<String> {
    let is_own = OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
    let own = || is_own.then(|| format!("the engine writes the header `{name}` itself: remove it"));
    header_form_fault(name, value).or_else(own)
}

/// The reason why no request may have a header.
pub fn header_form_fault(name: &str, value: &str) -> Option<String> {
    let is_valid = is_token(name) && !value.contains(['\r', '\n', '\0']);
    (!is_valid).then(|| format!("the header `{name}` is invalid: use letters, digits and `-`, in one line"))
}

/// Whether a text is a token of HTTP (RFC 9110, section 5.6.2): the name of a header, a field or a scheme.
pub(super) fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}
