//! Tests the whole crate through its public interface.

#![cfg(test)]

mod errors;
mod file;
mod generators;
mod golden;
mod properties;
mod table;

use bson::Document;
use plimsoll_document::{Error, Identity, Program, Settings, Template};
use serde_json::Value;

/// The identity of the tests' documents.
const IDENTITY: Identity = Identity { id: [0x65, 0xA1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], stamp: -7 };

fn template(json: Value) -> Template {
    serde_json::from_value(json).unwrap()
}

fn settings() -> Settings {
    Settings { seed: 42, start_ms: 1_700_000_000_000, ..Settings::default() }
}

fn compile(json: Value) -> Result<Program, Error> {
    Program::compile(&template(json), &settings())
}

fn bytes(program: &Program, number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    program.encode(number, &IDENTITY, &mut out);
    out
}

fn parsed(bytes: &[u8]) -> Document {
    let document = Document::from_reader(bytes).unwrap();
    assert_eq!(document.to_vec().unwrap(), bytes, "re-encodes to the same bytes");
    document
}

/// The documents of the first numbers.
fn documents(json: Value, count: u64) -> Vec<Document> {
    let program = compile(json).unwrap();
    (0..count).map(|number| parsed(&bytes(&program, number))).collect()
}
