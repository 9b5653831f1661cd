//! Fuzzes the translators of queries: no text causes a panic, and no operator outside of the whitelist passes.
#![no_main]

use bson::{Bson, Document};
use libfuzzer_sys::fuzz_target;
use plimsoll_catalogue::query::{Dialect, facets, filter, full, page};

const FORBIDDEN: [&str; 8] =
    ["$where", "$expr", "$function", "$accumulator", "$text", "$jsonSchema", "$elemMatch", "$comment"];

fn check(document: &Document) {
    for (key, value) in document {
        assert!(!FORBIDDEN.contains(&key.as_str()), "{document}");
        check_value(value);
    }
}

fn check_value(value: &Bson) {
    match value {
        Bson::Document(inner) => check(inner),
        Bson::Array(items) => items.iter().for_each(check_value),
        Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => panic!("{value} is code"),
        _ => (),
    }
}

fuzz_target!(|text: &str| {
    for dialect in [Dialect::V3, Dialect::V4] {
        if let Ok(find) = filter::translate(Some(text), dialect) {
            check(&find.filter);
        }
    }
    if let Ok(find) = full::translate(Some(text), Some(text)) {
        check(&find.filter);
    }
    if let Ok(facets) = facets::translate(Some(text), Some(r#"["type"]"#)) {
        check(&facets.all);
    }
    let _ = page::Cursor::parse(text);
});
