//! Tests that every error names the path and the remedy.

use plimsoll_document::{IdForm, Program, Settings};
use serde_json::{Value, json};

use crate::{compile, settings, template};

fn check(json: Value, message: &str) {
    assert_eq!(compile(json).unwrap_err().to_string(), message);
}

fn check_field(generator: Value, message: &str) {
    check(json!({ "note": generator }), &format!("document.note{message}"));
}

#[test]
fn errors_of_wrong_values_name_the_expected_values() {
    check_field(
        json!({"$text": {"bytes": "abc"}}),
        ".$text.bytes: expected a positive whole number, got \"abc\"",
    );
    check_field(json!({"$text": {"bytes": 0}}), ".$text.bytes: expected a positive whole number, got 0");
    check_field(json!({"$text": 5}), ".$text: expected an object of {bytes, min, max}, got 5");
    check_field(
        json!({"$int": {"max": 3e9}}),
        ".$int.max: expected a whole number from -2147483648 to 2147483647, or $long for larger numbers, got 3000000000.0",
    );
    check_field(
        json!({"$sequence": {"type": "int", "start": 3_000_000_000_u32}}),
        ".$sequence.start: expected a whole number from -2147483648 to 2147483647, or `type: long` for larger numbers, got 3000000000",
    );
    check_field(json!({"$int": {"min": 5, "max": 1}}), ".$int.max: expected at least min (5), got 1");
    check_field(
        json!({"$bool": {"probability": 2}}),
        ".$bool.probability: expected a probability from 0 to 1, got 2",
    );
    check_field(
        json!({"$date": {"step": "fast"}}),
        ".$date.step: expected a duration such as \"500ms\", \"90s\", \"1h30m\" or \"7d\", got \"fast\"",
    );
    check_field(
        json!({"$date": {"start": "now"}}),
        ".$date.start: expected an offset such as \"-1h\", or a date such as \"2026-01-31T00:00:00Z\", got \"now\"",
    );
    check_field(
        json!({"$date": "2026"}),
        ": expected {\"$date\": \"2026-01-31T00:00:00Z\"}, got {\"$date\":\"2026\"}",
    );
    check_field(
        json!({"$oid": "xyz"}),
        ": expected {\"$oid\": \"65a100000000000000000000\"}, got {\"$oid\":\"xyz\"}",
    );
    check_field(
        json!([1, 9_223_372_036_854_775_808_u64]),
        "[1]: expected a whole number up to 9223372036854775807, {$numberDecimal: '…'} to keep all digits, or {$numberDouble: '…'} \
         for the nearest double, got 9223372036854775808",
    );
    assert!(compile(json!({"n": i64::MAX, "m": i64::MIN, "d": 9_223_372_036_854_775_808.0_f64})).is_ok());
    check_field(json!({"$number": {"a": 1}}), ".$number: unknown setting \"a\"; no name is valid here");
    check_field(
        json!({"$sequence": {"type": "lnog"}}),
        ".$sequence.type: expected int, long or double (did you mean \"long\"?), got \"lnog\"",
    );
}

#[test]
fn picks_check_their_lists() {
    check_field(json!({"$pick": []}), ".$pick: expected a list of 1 to 1000000 constants, got []");
    check_field(
        json!({"$pick": [{"$int": {}}]}),
        ".$pick[0]: expected a constant, without generators, got {\"$int\":{}}",
    );
    check_field(
        json!({"$pick": {"from": [1, 2], "weights": [1]}}),
        ".$pick.weights: expected a list of 2 weights, one for each value, got [1]",
    );
    check_field(
        json!({"$pick": {"from": [1], "weights": [0]}}),
        ".$pick.weights: expected at least one weight above 0, got [0]",
    );
    check_field(
        json!({"$pick": {"from": [1], "weights": [-1]}}),
        ".$pick.weights[0]: expected a weight from 0 to 1e15, got -1",
    );
}

#[test]
fn distributions_are_checked() {
    let forms = "uniform, {zipf: {exponent: 0.99}}, {normal: {mean, deviation}} or {exponential: {mean}}";
    let at = ".$int.distribution";
    let int = |distribution: Value| json!({"$int": {"distribution": distribution}});
    check_field(int(json!("zipf")), &format!("{at}: expected {forms}, got \"zipf\""));
    check_field(int(json!({"zip": {}})), &format!("{at}: unknown setting \"zip\"; did you mean \"zipf\"?"));
    check_field(
        int(json!({"normal": {}})),
        &format!("{at}.normal: missing \"mean\"; write {{mean: 50, deviation: 10}}"),
    );
    check_field(
        int(json!({"zipf": {"exponent": 0}})),
        &format!("{at}.zipf.exponent: expected a number above 0 and up to 100, got 0"),
    );
    check_field(
        json!({"$long": {"distribution": {"zipf": {}}}}),
        ".$long.distribution: expected a range of at most 2^48 values for zipf, got {\"zipf\":{}}",
    );
    check_field(
        json!({"$double": {"distribution": {"zipf": {}}}}),
        ".$double.distribution: expected uniform, normal or exponential (zipf is for whole numbers: use $int or $long), \
         got {\"zipf\":{}}",
    );
}

#[test]
fn unknown_names_are_suggested() {
    check_field(json!({"$txt": {}}), ": unknown generator \"$txt\"; did you mean \"$text\"?");
    check_field(
        json!({"$numberlong": "1"}),
        ": unknown generator \"$numberlong\"; did you mean \"$numberLong\"?",
    );
    check_field(json!({"$text": {"byte": 5}}), ".$text: unknown setting \"byte\"; did you mean \"bytes\"?");
    let far = compile(json!({"a": {"b": [{"$lorem": 1}]}})).unwrap_err().to_string();
    assert!(
        far.starts_with("document.a.b[0]: unknown generator \"$lorem\"; known here: $array, $bool, "),
        "{far}"
    );
}

#[test]
fn missing_settings_name_the_remedy() {
    check_field(json!({"$text": {}}), ".$text: missing \"bytes\"; write {bytes: 64} or {min: 16, max: 64}");
    check_field(json!({"$array": {"of": 1}}), ".$array: missing \"length\"; write {of: <value>, length: 3}");
    check_field(json!({"$pad": {}}), ".$pad: missing \"to\"; write {to: 1024}");
    check_field(
        json!({"$family": {}}),
        ".$family: missing \"count\"; write {prefix: \"sensor-\", count: 10000}",
    );
}

#[test]
fn a_generator_must_be_the_only_key() {
    check_field(
        json!({"$text": {"bytes": 5}, "other": 1}),
        ": \"$text\" must be the only key of its object; move the other keys out of it",
    );
    check(
        json!({"$text": {"bytes": 5}}),
        "document.$text: a field's name cannot begin with \"$\"; give the value a name",
    );
}

#[test]
fn reserved_names_are_refused_with_the_remedy() {
    check(
        json!({"_id": 1}),
        "document._id: Plimsoll writes its receipt to _id; remove the field, or set `id: own` to keep it (documents are then \
         counted, not proven)",
    );
    check(
        json!({"_p": 1}),
        "document._p: the stamp has this name; rename the field or the stamp, or turn the stamp off",
    );
    check(json!({"a\0b": 1}), "document.a\\0b: a field's name cannot hold a zero byte");
    let own = Settings { id: IdForm::Own, ..settings() };
    let error = Program::compile(&template(json!({"a": 1})), &own).unwrap_err().to_string();
    assert_eq!(error, "document._id: missing, and `id: own` asks for it; add the field, or leave `id` out");
    let stamp = Settings { stamp: Some("$p".to_owned()), ..settings() };
    let error = Program::compile(&template(json!({"a": 1})), &stamp).unwrap_err().to_string();
    assert_eq!(error, "document.$p: invalid name for a stamp; use letters, digits and underscores");
}

#[test]
fn the_generator_same_must_name_an_earlier_field() {
    check(
        json!({"total": 1, "b": {"$same": "totl"}}),
        "document.b.$same: no earlier field \"totl\"; did you mean \"total\"?",
    );
    check(
        json!({"a": {"$same": "b"}, "b": 1}),
        "document.a.$same: no earlier field \"b\"; name a field before this one",
    );
    check(
        json!({"a": {"c": 1, "d": 2}, "b": {"$same": "a.x"}}),
        "document.b.$same: no earlier field \"a.x\"; known here: c, d",
    );
    check(
        json!({"p": {"$pad": {"to": 900}}, "b": {"$same": "p"}}),
        "document.b.$same: \"p\" is $pad, whose size is not known yet; name another field",
    );
}

#[test]
fn misplaced_generators_name_their_valid_place() {
    let pad = "$pad is allowed once, as a top-level field; move it there";
    check(json!({"a": {"b": {"$pad": {"to": 99}}}}), &format!("document.a.b.$pad: {pad}"));
    check(json!({"a": {"$pad": {"to": 99}}, "b": {"$pad": {"to": 99}}}), &format!("document.b.$pad: {pad}"));
    check(
        json!({"a": [{"$optional": {"value": 1}}]}),
        "document.a[0]: an item cannot be $optional; use $array with a length of {min, max}",
    );
    check(
        json!({"a": {"$array": {"of": {"$optional": {"value": 1}}, "length": 2}}}),
        "document.a.$array: an item cannot be $optional; give the array a length of {min, max}",
    );
}

#[test]
fn impossible_padding_names_the_smallest_size() {
    check(
        json!({"a": {"$text": {"max": 100}}, "p": {"$pad": {"to": 100}}}),
        "document.p.$pad.to: the rest of the document takes up to 150 bytes; set `to` to 150 or more, or shorten the rest",
    );
    assert!(compile(json!({"a": {"$text": {"max": 100}}, "p": {"$pad": {"to": 150}}})).is_ok());
}

#[test]
fn documents_over_the_limit_are_refused() {
    let limit = "over MongoDB's limit of 16777216; shorten its texts or arrays";
    check(
        json!({"a": {"$text": {"bytes": 16_777_216}}}),
        &format!("document may be up to 16777258 bytes, {limit}"),
    );
    let absurd = json!({"a": {"$array": {"of": {"$text": {"bytes": i64::MAX}}, "length": 1_000_000}}});
    check(absurd, &format!("document may be up to {} bytes, {limit}", usize::MAX));
    assert!(compile(json!({"a": {"$text": {"bytes": 16_777_216 - 42}}})).is_ok());
}

#[test]
fn nesting_is_limited_also_through_the_generator_same() {
    let nested = |levels| (0..levels).fold(json!(1), |value, _| json!({ "a": value }));
    assert!(compile(nested(100)).is_ok());
    let error = compile(nested(101)).unwrap_err().to_string();
    assert!(
        error.contains("nested deeper than 100 levels, MongoDB's limit; flatten the document"),
        "{error}"
    );
    let mut chain = json!({"f0": {"x": 1}});
    for link in 1..200 {
        chain[format!("f{link}")] = json!({"x": {"$same": format!("f{}", link - 1)}});
    }
    assert!(compile(chain).unwrap_err().to_string().contains("nested deeper"));
}

#[test]
fn exponentially_nested_copies_are_refused_at_once() {
    let mut tower = json!({"f0": {"x": {"$text": {"bytes": 10}}}});
    for link in 1..60 {
        let below = format!("f{}", link - 1);
        tower[format!("f{link}")] = json!({"x": {"$same": below}, "y": {"$same": below}});
    }
    assert!(compile(tower).unwrap_err().to_string().contains("over MongoDB's limit"));
}
