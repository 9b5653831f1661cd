//! Tests that every generator makes the documented values.

use std::collections::HashSet;

use bson::spec::BinarySubtype;
use bson::{Bson, Document};
use plimsoll_document::{IdForm, Program, Settings};
use serde_json::{Value, json};

use crate::{IDENTITY, bytes, compile, documents, parsed, settings, template};

const COUNT: u64 = 500;

/// The values of field `x` over the first documents.
fn values(generator: Value) -> Vec<Bson> {
    let documents = documents(json!({ "x": generator }), COUNT);
    documents.into_iter().map(|document| document.get("x").unwrap().clone()).collect()
}

fn check(generator: Value, holds: impl Fn(u64, &Bson) -> bool) {
    for (number, value) in values(generator.clone()).iter().enumerate() {
        assert!(holds(number as u64, value), "{generator}, number {number}: {value:?}");
    }
}

fn distinct(generator: Value) -> usize {
    values(generator).iter().map(|value| format!("{value:?}")).collect::<HashSet<String>>().len()
}

#[test]
fn the_id_comes_first_and_the_stamp_last() {
    let document = &documents(json!({"a": 1, "b": {"$int": {}}}), 1)[0];
    let names: Vec<&String> = document.keys().collect();
    assert_eq!(names, ["_id", "a", "b", "_p"]);
    assert_eq!(document.get_object_id("_id").unwrap().bytes(), IDENTITY.id);
    assert_eq!(document.get_i64("_p").unwrap(), IDENTITY.stamp);
}

#[test]
fn the_id_may_be_a_string_or_come_from_the_template() {
    let form = |id, json| {
        let program = Program::compile(&template(json), &Settings { id, stamp: None, ..settings() }).unwrap();
        parsed(&bytes(&program, 3))
    };
    assert_eq!(form(IdForm::String, json!({"a": 1})), bson::doc! {"_id": "65a100000102030405060708", "a": 1});
    assert_eq!(form(IdForm::Own, json!({"a": 1, "_id": {"$number": {}}})), bson::doc! {"a": 1, "_id": 3_i64});
}

#[test]
fn sequences_step() {
    check(json!({"$sequence": {}}), |n, value| *value == Bson::Int64(n as i64));
    check(json!({"$sequence": null}), |n, value| *value == Bson::Int64(n as i64));
    check(json!({"$sequence": {"start": 10, "step": -2}}), |n, value| {
        *value == Bson::Int64(10 - 2 * n as i64)
    });
    check(json!({"$sequence": {"type": "int", "start": 5}}), |n, value| *value == Bson::Int32(5 + n as i32));
    check(json!({"$sequence": {"type": "double", "step": 0.5}}), |n, value| {
        *value == Bson::Double(n as f64 * 0.5)
    });
    check(json!({"$number": {}}), |n, value| *value == Bson::Int64(n as i64));
}

#[test]
fn numbers_stay_in_their_range_and_have_their_type() {
    check(json!({"$int": {"min": -5, "max": 5}}), |_, x| x.as_i32().is_some_and(|x| (-5..=5).contains(&x)));
    check(json!({"$int": {}}), |_, x| x.as_i32().is_some_and(|x| x >= 0));
    check(json!({"$long": {"min": 7, "max": 7}}), |_, x| *x == Bson::Int64(7));
    check(json!({"$long": {"min": i64::MIN, "max": i64::MAX}}), |_, x| x.as_i64().is_some());
    check(json!({"$double": {"min": -1, "max": 1}}), |_, x| {
        x.as_f64().is_some_and(|x| (-1.0..=1.0).contains(&x))
    });
    assert_eq!(distinct(json!({"$long": {}})), COUNT as usize);
    assert_eq!(distinct(json!({"$int": {"min": 1, "max": 3}})), 3);
}

#[test]
fn distributions_shape_numbers() {
    let normal = json!({"normal": {"mean": 50, "deviation": 5}});
    check(json!({"$double": {"min": 30, "max": 70, "distribution": normal}}), |_, x| {
        x.as_f64().is_some_and(|x| (30.0..=70.0).contains(&x))
    });
    check(json!({"$decimal": {"min": 40, "max": 60, "distribution": normal}}), |_, x| {
        x.to_string().parse::<f64>().is_ok_and(|x| (40.0..=60.0).contains(&x))
    });
    let zipf = json!({"zipf": {"exponent": 1.2}});
    let favourite = values(json!({"$long": {"min": 100, "max": 999, "distribution": zipf}}));
    assert!(favourite.iter().filter(|x| **x == Bson::Int64(100)).count() > COUNT as usize / 10);
    let exponential = json!({"exponential": {"mean": 2}});
    check(json!({"$int": {"min": 3, "max": 9, "distribution": exponential}}), |_, x| {
        x.as_i32().is_some_and(|x| (3..=9).contains(&x))
    });
    check(json!({"$int": {"min": 0, "max": 9, "distribution": "uniform"}}), |_, x| x.as_i32().is_some());
}

#[test]
fn decimals_have_their_places() {
    check(json!({"$decimal": {"min": -10, "max": 10}}), |_, x| {
        let text = x.to_string();
        let places = text.split_once('.').map_or(0, |(_, places)| places.len());
        places == 2 && text.parse::<f64>().is_ok_and(|x| (-10.0..=10.0).contains(&x))
    });
    check(json!({"$decimal": {"min": 3, "max": 3, "places": 0}}), |_, x| x.to_string() == "3");
    check(json!({"$decimal": {"min": -1.5, "max": -1.5, "places": 3}}), |_, x| x.to_string() == "-1.500");
}

#[test]
fn booleans_follow_their_probability() {
    let hits = |p: f64| {
        values(json!({"$bool": {"probability": p}})).iter().filter(|x| **x == Bson::Boolean(true)).count()
    };
    assert_eq!((hits(0.0), hits(1.0)), (0, COUNT as usize));
    assert!((100..200).contains(&hits(0.3)), "{}", hits(0.3));
}

#[test]
fn picks_are_values_of_their_list() {
    assert_eq!(distinct(json!({"$pick": ["new", "old", "odd"]})), 3);
    assert_eq!(distinct(json!({"$pick": [1, "two", {"three": [3]}, null, {"$numberLong": "5"}]})), 5);
    let weighted = values(json!({"$pick": {"from": ["a", "b", "c"], "weights": [0, 9, 1]}}));
    let count = |text: &str| weighted.iter().filter(|x| x.as_str() == Some(text)).count();
    assert_eq!(count("a"), 0);
    assert!((420..480).contains(&count("b")), "{}", count("b"));
    let zipf = json!({"$pick": {"from": ["a", "bb"], "distribution": {"zipf": {"exponent": 3}}}});
    assert_eq!(distinct(zipf), 2);
}

#[test]
fn families_are_numbered() {
    let name = |x: &Bson, low: u32, high: u32| {
        let number = x.as_str().and_then(|x| x.strip_prefix("sensor-")).and_then(|x| x.parse().ok());
        number.is_some_and(|number: u32| (low..=high).contains(&number))
    };
    check(json!({"$family": {"prefix": "sensor-", "count": 1000}}), |_, x| {
        name(x, 0, 999) && x.as_str().is_some_and(|x| x.len() == 10)
    });
    check(json!({"$family": {"prefix": "sensor-", "count": 1000, "start": 5, "digits": 1}}), |_, x| {
        name(x, 5, 1004) && !x.as_str().is_some_and(|x| x.starts_with("sensor-0"))
    });
    check(json!({"$family": {"count": 1, "digits": 3}}), |_, x| x.as_str() == Some("000"));
}

#[test]
fn dates_count_from_the_start() {
    let start = settings().start_ms;
    let ms = |x: &Bson| x.as_datetime().unwrap().timestamp_millis();
    check(json!({"$date": {}}), |_, x| ms(x) == start);
    check(json!({"$date": {"step": "1s"}}), |n, x| ms(x) == start + 1000 * n as i64);
    check(json!({"$date": {"start": "-1h", "within": "1h"}}), |_, x| {
        (start - 3_600_000..=start).contains(&ms(x))
    });
    check(json!({"$date": {"start": "2026-01-31T00:00:00Z", "step": "-1d"}}), |n, x| {
        ms(x) == 1_769_817_600_000 - 86_400_000 * n as i64
    });
    assert!(distinct(json!({"$date": {"within": "1d"}})) > 490);
}

#[test]
fn extended_json_dates_and_uuids_stay_constants() {
    let constant = bson::DateTime::from_millis(1_769_817_600_000);
    check(json!({"$date": "2026-01-31T00:00:00Z"}), |_, x| *x == Bson::DateTime(constant));
    check(json!({"$date": {"$numberLong": "1769817600000"}}), |_, x| *x == Bson::DateTime(constant));
    assert_eq!(distinct(json!({"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a3"})), 1);
}

#[test]
fn texts_have_exactly_the_requested_length() {
    let letters = |x: &Bson| x.as_str().unwrap().bytes().all(|c| c == b' ' || c.is_ascii_lowercase());
    for size in [1, 7, 8, 9, 120] {
        check(json!({"$text": {"bytes": size}}), |_, x| x.as_str().unwrap().len() == size && letters(x));
    }
    check(json!({"$text": {"min": 3, "max": 30}}), |_, x| {
        (3..=30).contains(&x.as_str().unwrap().len()) && letters(x)
    });
    check(json!({"$text": {"max": 2}}), |_, x| x.as_str().unwrap().len() <= 2);
}

#[test]
fn bytes_are_binary_of_subtype_zero() {
    let sizes = |x: &Bson, low: usize, high: usize| match x {
        Bson::Binary(binary) => {
            binary.subtype == BinarySubtype::Generic && (low..=high).contains(&binary.bytes.len())
        }
        _ => false,
    };
    check(json!({"$bytes": {"size": 33}}), |_, x| sizes(x, 33, 33));
    check(json!({"$bytes": {"min": 0, "max": 9}}), |_, x| sizes(x, 0, 9));
}

#[test]
fn object_ids_and_uuids_are_random() {
    assert_eq!(distinct(json!({"$object_id": {}})), COUNT as usize);
    assert_eq!(distinct(json!({"$uuid": {}})), COUNT as usize);
    check(json!({"$uuid": {}}), |_, x| match x {
        Bson::Binary(binary) => {
            let uuid = binary.to_uuid().unwrap().to_string();
            &uuid[14..15] == "4" && "89ab".contains(&uuid[19..20])
        }
        _ => false,
    });
}

#[test]
fn padding_reaches_the_size_for_all_other_sizes() {
    let fixed = json!({"a": {"$int": {}}, "pad": {"$pad": {"to": 665}}, "z": true});
    let varying = json!({"a": {"$text": {"max": 90}}, "pad": {"$pad": {"to": 665}}, "z": {"$array": {"of": "x", "length": {"max": 20}}}});
    for json in [fixed, varying] {
        let program = compile(json.clone()).unwrap();
        assert_eq!(program.len_bounds(), (665, 665));
        for number in 0..COUNT {
            let bytes = bytes(&program, number);
            assert_eq!(bytes.len(), 665);
            assert_eq!(parsed(&bytes).keys().collect::<Vec<_>>(), ["_id", "a", "pad", "z", "_p"]);
        }
    }
}

#[test]
fn the_least_padding_is_an_empty_text() {
    let tight = compile(json!({"pad": {"$pad": {"to": 44}}})).unwrap();
    assert_eq!(parsed(&bytes(&tight, 0)).get_str("pad").unwrap(), "");
}

#[test]
fn arrays_have_their_length_and_differing_items() {
    check(json!({"$array": {"of": {"$double": {}}, "length": 384}}), |_, x| {
        x.as_array().unwrap().len() == 384
    });
    check(json!({"$array": {"of": {"$long": {}}, "length": {"min": 2, "max": 12}}}), |_, x| {
        let items = x.as_array().unwrap();
        let distinct: HashSet<i64> = items.iter().map(|item| item.as_i64().unwrap()).collect();
        (2..=12).contains(&items.len()) && distinct.len() == items.len()
    });
    check(json!({"$array": {"of": {"$pick": [1, "two"]}, "length": {"max": 12}}}), |_, x| {
        x.as_array().unwrap().iter().all(|item| *item == Bson::Int32(1) || item.as_str() == Some("two"))
    });
    check(json!({"$array": {"of": 1, "length": 0}}), |_, x| x.as_array().unwrap().is_empty());
}

#[test]
fn arrays_of_fixed_and_variable_length_have_the_same_items() {
    let array = |length: Value| {
        let inner = json!({"$array": {"of": {"$text": {"bytes": 3}}, "length": 2}});
        json!({"a": {"$array": {"of": {"n": {"$long": {}}, "inner": inner}, "length": length}}})
    };
    let (unrolled, looped) =
        (documents(array(json!(5)), 20), documents(array(json!({"min": 0, "max": 9})), 20));
    for (unrolled, looped) in unrolled.iter().zip(&looped) {
        let (unrolled, looped) = (unrolled.get_array("a").unwrap(), looped.get_array("a").unwrap());
        assert!(unrolled.iter().zip(looped).all(|(one, other)| one == other));
    }
}

#[test]
fn optional_fields_are_present_or_absent() {
    let documents =
        documents(json!({"a": {"$optional": {"probability": 0.3, "value": {"$int": {}}}}, "b": 1}), COUNT);
    let present = documents.iter().filter(|document| document.contains_key("a")).count();
    assert!((100..200).contains(&present), "{present}");
}

#[test]
fn the_generator_same_repeats_an_earlier_value() {
    let same = json!({
        "text": {"$text": {"min": 1, "max": 9}},
        "order": {"id": {"$uuid": {}}, "lines": [{"$int": {}}, {"price": {"$double": {}}}]},
        "maybe": {"$optional": {"value": {"$pick": [1, "one"]}}},
        "b": {"$same": "text"}, "c": {"d": {"$same": "order.lines.1.price"}}, "e": {"$same": "maybe"},
        "f": {"$same": "order"}, "g": {"h": 1, "i": {"$same": "h"}}, "j": {"$same": "b"},
    });
    for document in documents(same, 50) {
        let order = document.get_document("order").unwrap();
        let price = order.get_array("lines").unwrap()[1].as_document().unwrap().get("price");
        assert_eq!(document.get("b"), document.get("text"));
        assert_eq!(document.get("j"), document.get("text"));
        assert_eq!(document.get_document("c").unwrap().get("d"), price);
        assert_eq!(document.get("e"), document.get("maybe"));
        assert_eq!(document.get_document("f").unwrap(), order);
        assert_eq!(document.get_document("g").unwrap(), &bson::doc! {"h": 1, "i": 1});
    }
}

/// Each item contains the outer fields' values, and its own sibling's.
fn check_scopes(document: &Document) {
    for row in document.get_array("rows").unwrap() {
        let row = row.as_document().unwrap();
        assert_eq!(row.get("outer"), document.get("name"));
        assert_eq!(row.get("maybe"), document.get("maybe"));
        assert_eq!(row.get("twin"), row.get("own"));
        assert_eq!(row.get("copy"), document.get("list"));
        for cell in row.get_array("cells").unwrap() {
            assert_eq!(cell.as_document().unwrap().get("own"), row.get("own"));
            assert_eq!(cell.as_document().unwrap().get("mixed"), document.get("mixed"));
        }
        let echo = row.get_array("echo").unwrap();
        assert!(echo.iter().all(|item| Some(item) == document.get("mixed")));
    }
}

#[test]
fn the_generator_same_reaches_fields_outside_of_unrolled_and_looped_arrays() {
    for outer in [json!(3), json!({"min": 1, "max": 12})] {
        for inner in [json!(2), json!({"min": 0, "max": 11})] {
            let cells = json!({"$array": {"of": {"own": {"$same": "own"}, "mixed": {"$same": "mixed"}}, "length": inner}});
            let row = json!({
                "own": {"$long": {}}, "outer": {"$same": "name"}, "maybe": {"$same": "maybe"}, "twin": {"$same": "own"},
                "copy": {"$same": "list"}, "cells": cells, "echo": {"$array": {"of": {"$same": "mixed"}, "length": inner}},
            });
            let template = json!({
                "name": {"$long": {}}, "mixed": {"$pick": [1, "one", [1]]},
                "maybe": {"$optional": {"value": {"$text": {"max": 5}}}},
                "list": {"$array": {"of": {"$int": {}}, "length": inner}},
                "rows": {"$array": {"of": row, "length": outer}},
            });
            documents(template, 40).iter().for_each(check_scopes);
        }
    }
}

#[test]
fn constants_of_every_type_pass_through() {
    let json = json!({
        "int": 1, "long": 3_000_000_000_i64, "double": 1.5, "text": "é", "null": null, "bool": false, "list": [1, [2]],
        "canonical": {"$numberLong": "1"}, "i": {"$numberInt": "1"}, "d": {"$numberDouble": "-Infinity"},
        "decimal": {"$numberDecimal": "9.99"}, "oid": {"$oid": "65a100000000000000000000"},
        "binary": {"$binary": {"base64": "AQID", "subType": "80"}}, "min": {"$minKey": 1}, "max": {"$maxKey": 1},
        "regex": {"$regularExpression": {"pattern": "^a", "options": "i"}}, "code": {"$code": "f()"},
        "scope": {"$code": "f()", "$scope": {"x": 1}}, "symbol": {"$symbol": "s"}, "undefined": {"$undefined": true},
        "stamp": {"$timestamp": {"t": 1, "i": 2}}, "ref": {"$ref": "c", "$id": {"$sequence": {}}},
        "pointer": {"$dbPointer": {"$ref": "c", "$id": {"$oid": "65a100000000000000000000"}}}, "empty": {},
    });
    let document = &documents(json.clone(), 1)[0];
    for (name, value) in json.as_object().unwrap() {
        let want: Bson = if name == "ref" {
            bson::doc! {"$ref": "c", "$id": 0_i64}.into()
        } else {
            value.clone().try_into().unwrap()
        };
        assert_eq!(document.get(name), Some(&want), "{name}");
    }
    assert_eq!(document.get("long"), Some(&Bson::Int64(3_000_000_000)));
}

#[test]
fn versions_of_a_document_differ_in_every_random_value_and_the_first_is_inserted() {
    let typed = template(json!({"n": {"$number": {}}, "t": {"$text": {"bytes": 20}}}));
    let program = Program::compile(&typed, &Settings { id: IdForm::User, ..settings() }).unwrap();
    let encode = |version| {
        let mut out = Vec::new();
        program.encode_version(version, 5, &IDENTITY, &mut out);
        Document::from_reader(out.as_slice()).unwrap()
    };
    let mut inserted = Vec::new();
    program.encode(5, &IDENTITY, &mut inserted);
    assert_eq!(encode(0), Document::from_reader(inserted.as_slice()).unwrap());
    assert_eq!(encode(1).get_i64("n").unwrap(), 5);
    assert_ne!(encode(1).get_str("t").unwrap(), encode(2).get_str("t").unwrap());
    let key = encode(1).get_str("_id").unwrap().to_owned();
    assert_eq!(plimsoll_document::ycsb_id::tail(key.as_bytes()).unwrap(), IDENTITY.id[4..]);
}
