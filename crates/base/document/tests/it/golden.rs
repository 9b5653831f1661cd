//! Tests that the bytes of documents are the same on every machine and in every version.

use sha2::{Digest, Sha256};

use serde_json::json;

use plimsoll_document::Program;

use crate::{bytes, compile, settings, template};

/// A generator, and the first bytes of the SHA-256 of its first thousand documents, one after another.
const PINNED: [(&str, &str); 19] = [
    (r#"{"$sequence": {"type": "int", "start": 7}}"#, "23f1b6f56564a5a7"),
    (r#"{"$int": {}}"#, "54959c1551ce8d29"),
    (r#"{"$long": {"max": 1000000, "distribution": {"zipf": {}}}}"#, "2d34ecd815523b54"),
    (
        r#"{"$int": {"max": 99, "distribution": {"zipf": {"exponent": 2, "scrambled": true}}}}"#,
        "a9b6c131bec74c75",
    ),
    (r#"{"$double": {"min": -3}}"#, "484654467d57371d"),
    (
        r#"{"$double": {"max": 9, "distribution": {"normal": {"mean": 4, "deviation": 3}}}}"#,
        "3c8cc67b915d904c",
    ),
    (r#"{"$double": {"max": 9, "distribution": {"exponential": {"mean": 4}}}}"#, "d9fb8f3ddcba9223"),
    (r#"{"$decimal": {"min": -5, "max": 5}}"#, "5e6e13e6aef69683"),
    (r#"{"$bool": {"probability": 0.25}}"#, "3979bf9805e0e6fe"),
    (r#"{"$pick": {"from": ["a", "b", 3], "weights": [1, 2, 3]}}"#, "a0e3b01d91f472b6"),
    (r#"{"$family": {"prefix": "s", "count": 5000}}"#, "103d7b4527519311"),
    (r#"{"$date": {"step": "1s", "within": "1h"}}"#, "234ed7989d2035dc"),
    (r#"{"$text": {"min": 1, "max": 100}}"#, "84c72277d4d0056b"),
    (r#"{"$bytes": {"min": 1, "max": 100}}"#, "2fc2b91220b8006e"),
    (r#"{"$uuid": {}}"#, "4fb85f61beb9874f"),
    (r#"{"$pad": {"to": 300}}"#, "cf0936363a9c6b80"),
    (
        r#"{"$array": {"of": {"$array": {"of": {"$long": {}}, "length": 3}}, "length": {"max": 20}}}"#,
        "cff39d264a983325",
    ),
    (r#"{"$array": {"of": {"$text": {"max": 5}}, "length": 30}}"#, "6d056b164e2b880c"),
    (r#"{"$optional": {"value": {"$object_id": {}}}}"#, "ebd1905a2d3a1670"),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(generator: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(generator).unwrap();
    let program = compile(json!({ "x": value })).unwrap();
    let all: Vec<u8> = (0..1000).flat_map(|number| bytes(&program, number)).collect();
    hex(&Sha256::digest(&all)[..8])
}

#[test]
fn every_generator_is_pinned() {
    let got: Vec<(&str, String)> =
        PINNED.iter().map(|(generator, _)| (*generator, hash(generator))).collect();
    let want: Vec<(&str, String)> =
        PINNED.iter().map(|(generator, hash)| (*generator, (*hash).to_owned())).collect();
    assert_eq!(got, want);
}

#[test]
fn a_small_document_is_pinned_byte_by_byte() {
    let program =
        compile(json!({"n": {"$number": {}}, "x": {"$long": {}}, "t": {"$text": {"bytes": 11}}})).unwrap();
    let want = "4b000000075f69640065a100000102030405060708126e000700000000000000127800f2da11a03bec9c350274000c000000677071\
                6f7a736a6f68647400125f7000f9ffffffffffffff00";
    assert_eq!(hex(&bytes(&program, 7)), want);
}

#[test]
fn numbers_of_any_size_are_pinned() {
    let program = compile(json!({"n": {"$sequence": {"start": 1, "step": 3}}, "x": {"$int": {}}})).unwrap();
    let want = "34000000075f69640065a100000102030405060708126e00feffffffffffffff107800a9f5293d125f7000f9ffffffffffffff00";
    assert_eq!(hex(&bytes(&program, u64::MAX)), want);
}

/// The sizes that the benchmarks state.
#[test]
fn the_insert_baseline_is_71_bytes() {
    let json = json!({"key": "sk", "bytes": 512, "headers": {}, "ts": {"$sequence": {}}});
    let settings = plimsoll_document::Settings { stamp: None, ..settings() };
    let program = Program::compile(&template(json), &settings).unwrap();
    assert_eq!(program.len_bounds(), (71, 71));
}
