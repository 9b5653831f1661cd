//! Names found and expected values in words of YAML, instead of a library's words.

/// The value that was found, from serde's name of it, such as `string "x"` or `sequence`.
pub fn found(name: &str) -> String {
    let quoted = |opening: &str| name.strip_prefix(opening).map(|rest| rest.trim_matches('`'));
    if let Some(text) = name.strip_prefix("string ") {
        return format!("the text {text}");
    }
    if let Some(number) = quoted("integer ").or_else(|| quoted("floating point ")) {
        return format!("the number {number}");
    }
    if let Some(word) = quoted("boolean ").or_else(|| quoted("character ")) {
        return format!("`{word}`");
    }
    match name {
        "unit value" | "null" | "Option value" => "no value",
        "sequence" | "tuple variant" => "a list",
        "map" | "struct variant" | "newtype variant" => "a map",
        "unit variant" => "a word",
        other => other,
    }
    .to_owned()
}

/// The number of values that was found.
pub fn length(number: &str) -> String {
    if number == "1" { "1 value".to_owned() } else { format!("{number} values") }
}

/// The value to write, from the name that serde or the parser has for it.
pub fn wanted(name: &str) -> String {
    if let Some(number) = whole_number(name.trim_start_matches("a nonzero ")) {
        return number;
    }
    if let Some(length) =
        name.strip_prefix("an array of length ").or_else(|| name.strip_prefix("a tuple of size "))
    {
        return format!("a list of {}", length_of(length));
    }
    let first = name.split_whitespace().next().unwrap_or_default();
    match (first, name) {
        ("struct", _) | (_, "a map" | "mapping" | "mapping start" | "map") => "a map of keys".into(),
        ("enum", _) | (_, "variant identifier" | "variant of enum") => "one of the possible words".into(),
        (_, "a sequence" | "sequence" | "sequence start") => "a list, such as [a, b]".into(),
        (_, "string scalar" | "scalar") => "a single value".into(),
        (_, "string" | "a string" | "a borrowed string" | "str") => "a text".into(),
        (_, "a boolean" | "boolean" | "bool") => "true or false".into(),
        (_, "f64" | "f32" | "float" | "floating point" | "a number") => "a number".into(),
        (_, "unit" | "null") | ("unit", _) => "no value".into(),
        (_, "field identifier" | "a string key") => "the name of a key".into(),
        ("newtype" | "tuple", _) => "a value".into(),
        _ => name.to_owned(),
    }
}

fn length_of(number: &str) -> String {
    length(number.split_whitespace().next().unwrap_or(number))
}

/// A whole number of one of Rust's types, with its range.
fn whole_number(name: &str) -> Option<String> {
    let (from, to): (i128, Option<u128>) = match name {
        "u8" => (0, Some(u8::MAX.into())),
        "u16" => (0, Some(u16::MAX.into())),
        "u32" => (0, Some(u32::MAX.into())),
        "u64" | "usize" | "u128" => (0, None),
        "i8" => (i8::MIN.into(), Some(i8::MAX.unsigned_abs().into())),
        "i16" => (i16::MIN.into(), Some(i16::MAX.unsigned_abs().into())),
        "i32" => (i32::MIN.into(), Some(i32::MAX.unsigned_abs().into())),
        "i64" | "isize" | "i128" | "an integer" | "integer" => return Some("a whole number".into()),
        _ => return None,
    };
    Some(match to {
        Some(to) => format!("a whole number from {from} to {to}"),
        None => format!("a whole number from {from}"),
    })
}
