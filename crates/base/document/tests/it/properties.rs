//! Tests properties of every template and every number. Proptest prints the seed of a failure and replays it.

use plimsoll_document::{Identity, Program};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{parsed, settings, template};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        "[a-z\u{e9}]{0,12}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(json!({"$numberDecimal": "1.25"})),
        Just(json!({"$sequence": {"start": 3}})),
        Just(json!({"$bool": {}})),
        Just(json!({"$uuid": {}})),
        Just(json!({"$pick": ["a", 2, [3], null]})),
        Just(json!({"$pick": {"from": ["a", "b"], "weights": [1, 3]}})),
        Just(json!({"$decimal": {"min": -3, "max": 5000}})),
        Just(json!({"$date": {"step": "1s", "within": "1h"}})),
        (any::<i32>(), 0..1000_i32).prop_map(|(a, b)| json!({"$int": {"min": a.min(0), "max": b}})),
        (0..40_usize, 0..40_usize).prop_map(|(a, b)| json!({"$text": {"min": a, "max": a + b}})),
        (0..40_usize, 0..40_usize).prop_map(|(a, b)| json!({"$bytes": {"min": a, "max": a + b}})),
        (1..2000_u32, 1..6_u32).prop_map(|(count, digits)| {
            json!({"$family": {"prefix": "f", "count": count, "digits": digits, "distribution": {"zipf": {}}}})
        }),
        Just(json!({"$same": "first"})),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 6, |inner| {
        let optional =
            inner.clone().prop_map(|value| json!({"$optional": {"probability": 0.5, "value": value}}));
        let field = prop_oneof![3 => inner.clone(), 1 => optional];
        prop_oneof![
            prop::collection::vec(("[a-z]{0,5}", field), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            (inner.clone(), 0..12_usize)
                .prop_map(|(of, length)| json!({"$array": {"of": of, "length": length}})),
            (inner, 0..12_usize, 0..12_usize)
                .prop_map(|(of, a, b)| json!({"$array": {"of": of, "length": {"min": a, "max": a + b}}})),
        ]
    })
}

fn fields() -> impl Strategy<Value = Value> {
    (leaf(), prop::collection::vec(("[a-z]{6}", value()), 0..6), prop::option::of(0..2000_usize))
        .prop_filter_map("the first field names itself", |(first, fields, pad)| {
            if first.get("$same").is_some() {
                return None;
            }
            let mut template = json!({ "first": first });
            fields.into_iter().for_each(|(name, value)| template[name] = value);
            if let Some(to) = pad {
                template["pad"] = json!({"$pad": {"to": to + 100_000}});
            }
            Some(template)
        })
}

/// Compiles a template. `None` if it refers to an optional field within `$optional` or an array, or exceeds its padding.
fn compiled(json: &Value, seed: u64) -> Option<Program> {
    let settings = plimsoll_document::Settings { seed, ..settings() };
    Program::compile(&template(json.clone()), &settings).ok()
}

proptest! {
    #[test]
    fn every_document_is_bson_within_its_bounds(json in fields(), seed: u64, number: u64, id: [u8; 12], stamp: i64) {
        let Some(program) = compiled(&json, seed) else { return Err(TestCaseError::reject("not a template")) };
        let identity = Identity { id, stamp };
        let (min, max) = program.len_bounds();
        let mut out = b"before".to_vec();
        for number in [number, number.wrapping_add(1), 0] {
            let start = out.len();
            program.encode(number, &identity, &mut out);
            let document = &out[start..];
            prop_assert!((min..=max).contains(&document.len()), "{} not in {min}..={max}", document.len());
            let document = parsed(document);
            prop_assert_eq!(document.get_object_id("_id").unwrap().bytes(), id);
            prop_assert_eq!(document.get_i64("_p").unwrap(), stamp);
        }
        prop_assert!(out.starts_with(b"before"));
    }

    #[test]
    fn the_content_follows_from_seed_and_number_alone(json in fields(), seed: u64, number: u64) {
        let Some(program) = compiled(&json, seed) else { return Err(TestCaseError::reject("not a template")) };
        let content = |program: &Program, id, stamp, before: usize| {
            let mut out = vec![0xAA; before];
            program.encode(number, &Identity { id, stamp }, &mut out);
            let mut document = parsed(&out[before..]);
            document.remove("_id");
            document.remove("_p");
            document
        };
        let again = compiled(&json, seed).unwrap();
        prop_assert_eq!(content(&program, [1; 12], 1, 0), content(&again, [2; 12], 2, 17));
    }

    #[test]
    fn any_json_is_compiled_or_refused_without_a_panic(text in r#"\{("[$a-z_]{0,5}":([0-9]{1,3}|"[a-z$]{0,4}"|\{"\$(text|int|pick|same|pad|date)":\{\}\}),?){0,4}"a":1\}"#) {
        if let Ok(json) = serde_json::from_str(&text) {
            let _ = compiled(&json, 0);
        }
    }
}
