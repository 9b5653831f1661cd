//! Keeps secrets out of definitions: headers refer to secrets by name, and readers never see a literal one.

use serde_json::{Map, Value};

use super::Definition;
use super::header::is_token;

/// The text that readers see instead of a literal secret.
const MASK: &str = "***";
/// Headers whose values are secrets, and parts of the names of others.
const NAMES: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];
const PARTS: [&str; 6] = ["token", "secret", "password", "api-key", "apikey", "api_key"];

/// Characters between the fields of a header.
const SEPARATORS: [char; 5] = [' ', '\t', ',', ';', '"'];

/// A part of a header's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text that is sent as it is.
    Text(&'a str),
    /// The name of a secret, written as `${name}`.
    Secret(&'a str),
}

impl<'a> Part<'a> {
    const fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Secret(_) => None,
        }
    }
}

/// The parts of a header's value.
pub fn parts(mut value: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while let Some((text, rest)) = value.split_once("${") {
        let Some((name, rest)) = rest.split_once('}') else { break };
        parts.extend([Part::Text(text), Part::Secret(name)]);
        value = rest;
    }
    parts.push(Part::Text(value));
    parts
}

impl Definition {
    /// The name of the first header that holds a literal secret.
    pub fn literal_secret(&self) -> Option<String> {
        let mut found = None;
        let mut tree = serde_json::to_value(self).unwrap_or_default();
        each_headers(&mut tree, &mut |headers| {
            let literal = headers.iter().find(|(name, value)| is_literal(name, value));
            found = found.take().or_else(|| literal.map(|(name, _)| name.clone()));
        });
        found
    }

    /// The definition as readers see it: literal secrets are masked.
    pub fn masked(&self) -> Value {
        let mut tree = serde_json::to_value(self).unwrap_or_default();
        each_headers(&mut tree, &mut |headers| {
            let literal = headers.iter_mut().filter(|(name, value)| is_literal(name, value));
            literal.for_each(|(_, value)| *value = MASK.into());
        });
        tree
    }
}

fn is_literal(name: &str, value: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    let is_secret = NAMES.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part));
    is_secret && !is_reference(value.as_str().unwrap_or_default())
}

/// Whether a value names secrets and has no other content than a scheme, as in `Bearer ${crm}`, names of fields, as in `session=${crm}`, and
/// colons, as in `${user}:${key}`.
fn is_reference(value: &str) -> bool {
    let parts = parts(value);
    let texts: Vec<_> = parts.iter().filter_map(Part::text).collect();
    let [first, between @ .., last] = &texts[..] else { return false };
    let is_fixed =
        |text: &&str| matches!(*text, "" | ":") || (text.starts_with(SEPARATORS) && is_field(text));
    is_field(after_scheme(first)) && between.iter().all(is_fixed) && last.trim_matches(SEPARATORS).is_empty()
}

/// The rest of a value's first text after its scheme, if it has one.
fn after_scheme(text: &str) -> &str {
    text.split_once(' ').filter(|(scheme, _)| is_token(scheme)).map_or(text, |(_, rest)| rest)
}

/// Whether the text before a secret is at most the name of the secret's field, as in `; csrf=` or `, token="`.
fn is_field(text: &str) -> bool {
    let name = text.trim_start_matches(SEPARATORS).trim_end_matches('"');
    name.is_empty() || name.strip_suffix('=').is_some_and(is_token)
}

/// Visits the headers of all HTTP steps.
fn each_headers(tree: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(|item| each_headers(item, visit)),
        Value::Object(fields) => {
            if let Some(headers) = fields.get_mut("http").and_then(|http| http.get_mut("headers")) {
                headers.as_object_mut().into_iter().for_each(&mut *visit);
            }
            fields.values_mut().for_each(|field| each_headers(field, visit));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read;

    fn definition(header: &str) -> Definition {
        let text = format!(
            "name: a\nsteps:\n- fork:\n    branches:\n    - - http: {{url: 'http://h/', headers: {{{header}, x-trace: plain}}}}\n    - - wait: {{signal: go}}\n"
        );
        read(&text).unwrap().0
    }

    #[test]
    fn a_value_has_texts_and_names_of_secrets() {
        assert_eq!(parts("Bearer ${crm}!"), [Part::Text("Bearer "), Part::Secret("crm"), Part::Text("!")]);
        assert_eq!(parts("${open"), [Part::Text("${open")]);
    }

    #[test]
    fn a_literal_secret_is_found_and_masked_and_a_reference_is_not() {
        for header in [
            "Authorization: Bearer hunter2",
            "x-api-key: hunter2",
            "X-Auth-Token: hunter2",
            "Authorization: 'Bearer hunter2 ${x}'",
            "Authorization: 'Bearer ${x}hunter2'",
            "cookie: 'id=hunter2; session=${x}'",
            "cookie: 'id=hunter2==; s=${x}'",
            "cookie: 'hunter2=; s=${x}'",
            "x-api-key: '${x}hunter2'",
            "x-api-key: 'hunter2${x}'",
            "x-api-key: 'hunter2:${x}'",
            "x-api-key: '${x}hunter2=${y}'",
            "x-api-key: '${x};hunter2='",
        ] {
            let definition = definition(header);
            assert!(definition.literal_secret().is_some(), "{header}");
            let shown = definition.masked().to_string();
            assert!(
                !shown.contains("hunter2") && shown.contains("***") && shown.contains("plain"),
                "{shown}"
            );
        }
        for value in [
            "Bearer ${crm}",
            "${crm}",
            "session=${crm}; csrf=${token}",
            "DeepL-Auth-Key ${k}",
            "Klaviyo-API-Key ${k}",
            "OAuth2 ${t}",
            "${id}:${key}",
            "Token id=${id}, token=${t}",
        ] {
            let referring = definition(&format!("authorization: '{value}'"));
            assert_eq!(referring.literal_secret(), None, "{value}");
            assert!(referring.masked().to_string().contains(value));
        }
        assert!(is_reference(r#"Token token="${t}", id="${id}""#));
    }
}
