//! Keeps secrets out of definitions: headers refer to secrets by name, and readers never see a literal one.

use serde_json::{Map, Value};

use super::Definition;

/// The text that readers see instead of a literal secret.
const MASK: &str = "***";
/// Headers whose values are secrets, and parts of the names of others.
const NAMES: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];
const PARTS: [&str; 6] = ["token", "secret", "password", "api-key", "apikey", "api_key"];

/// A part of a header's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text that is sent as it is.
    Text(&'a str),
    /// The name of a secret, written as `${name}`.
    Secret(&'a str),
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

/// Whether a value names secrets and has no other content than a scheme, as in `Bearer ${crm}`, and names of fields, as in `session=${crm}`.
fn is_reference(value: &str) -> bool {
    let parts = parts(value);
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(*text),
        Part::Secret(_) => None,
    });
    let words = texts.flat_map(|text| text.split([' ', '\t', ',', ';', '"'])).filter(|word| !word.is_empty());
    let is_scheme = |at: usize, word: &str| at == 0 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_fixed = |(at, word): (usize, &str)| is_scheme(at, word) || word.ends_with('=');
    parts.iter().any(|part| matches!(part, Part::Secret(_))) && words.enumerate().all(is_fixed)
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
        ] {
            let definition = definition(header);
            assert!(definition.literal_secret().is_some(), "{header}");
            let shown = definition.masked().to_string();
            assert!(
                !shown.contains("hunter2") && shown.contains("***") && shown.contains("plain"),
                "{shown}"
            );
        }
        for value in ["Bearer ${crm}", "${crm}", "session=${crm}; csrf=${token}"] {
            let referring = definition(&format!("authorization: '{value}'"));
            assert_eq!(referring.literal_secret(), None, "{value}");
            assert!(referring.masked().to_string().contains(value));
        }
    }
}
