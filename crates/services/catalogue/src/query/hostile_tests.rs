//! Tests the translators with hostile queries: nothing leaves the whitelist, reaches the access part, or takes unbounded work.

use bson::{Bson, Document, doc};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::bounds::{CONDITIONS_MAX, VALUES_MAX};
use super::*;

/// The operators that a translated query may have.
const OPERATORS: [&str; 17] = [
    "$and", "$or", "$nor", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$eq", "$ne", "$not", "$exists",
    "$regex", "$options", "$unwind", "$group",
];

/// Words that have a special meaning to MongoDB, to the translators or to JavaScript.
const WORDS: &str = "
    $where $expr $function $accumulator $text $jsonSchema $comment $lookup $and $or $nor $not $in
    $nin $eq $ne $gt $regex $options $exists $elemMatch $size and or inq nin like ilike gt lte
    where fields limits include mode text scientific lhs relation rhs unit pid _id isPublished
    ownerGroup accessGroups userGroups sharedWith creationTime begin end min max size skip limit
    order sort scientificMetadata.a.value a.$where a..b 2024-01-01 RANGE EQUAL_TO_STRING
    CONTAINS_STRING mm (a+)+$ all __proto__ type keywords creationTime:desc admin
";
/// Further texts, which the list of words cannot hold.
const TEXTS: [&str; 4] = ["", "\0", "{\"$where\":1}", "[{\"$expr\":1}]"];

fn word() -> impl Strategy<Value = String> {
    let words: Vec<&str> = WORDS.split_whitespace().chain(TEXTS).collect();
    prop_oneof![4 => proptest::sample::select(words).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((word(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Counts the parts of a filter. Every key with a dollar is a known operator.
fn audited(value: &Bson) -> usize {
    match value {
        Bson::Document(document) => document
            .iter()
            .map(|(key, value)| {
                assert!(!key.contains('\0'), "{document}");
                let is_name = key.split('.').all(|part| !part.starts_with('$'));
                assert!(is_name || OPERATORS.contains(&key.as_str()), "{key}: {document}");
                1 + audited(value)
            })
            .sum(),
        Bson::Array(items) => items.iter().map(|item| 1 + audited(item)).sum(),
        Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => panic!("{value} is code"),
        _ => 0,
    }
}

fn check_filter(filter: &Document) {
    let parts = audited(&filter.clone().into());
    assert!(parts <= 8 * (CONDITIONS_MAX + VALUES_MAX) as usize, "{parts} parts");
    let access = doc! {"isPublished": true};
    let whole = under(&access, filter);
    assert_eq!(whole.len(), 1);
    assert_eq!(whole.get_array("$and").unwrap().last(), Some(&access.into()), "the access part stays whole");
}

fn check(value: &Value) {
    let text = value.to_string();
    for dialect in [Dialect::V3, Dialect::V4] {
        for wrapped in
            [text.clone(), json!({"where": value}).to_string(), json!({"limits": value}).to_string()]
        {
            if let Ok(find) = filter::translate(Some(&wrapped), dialect) {
                check_find(&find);
            }
        }
    }
    for fields in [text.clone(), json!({"mode": value}).to_string(), json!({"scientific": value}).to_string()]
    {
        if let Ok(find) = full::translate(Some(&fields), Some(&text)) {
            check_find(&find);
        }
        if let Ok(find) = full::translate(Some(&fields), None) {
            check_find(&find);
        }
        if let Ok(facets) = facets::translate(Some(&fields), Some(r#"["type","keywords","creationTime"]"#)) {
            check_filter(&facets.all);
            facets.each.iter().for_each(|facet| check_filter(&facet.filter));
        }
    }
    page::Cursor::parse(&text).unwrap_err();
}

fn check_find(find: &Find) {
    check_filter(&find.filter);
    assert!((1..=LIMIT_MAX).contains(&find.page.limit) && find.page.skip <= SKIP_MAX);
    for part in [Some(&find.page.sort), find.projection.as_ref()].into_iter().flatten() {
        assert!(part.iter().all(|(key, value)| !key.contains('$') && matches!(value, Bson::Int32(-1..=1))));
    }
}

fn run(cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&value(), |value| {
            check(&value);
            Ok(())
        })
        .unwrap();
}

#[test]
fn no_query_leaves_the_whitelist_or_reaches_the_access_part() {
    run(500);
}

#[test]
#[ignore = "long: cargo xtask test --all runs it"]
fn no_query_leaves_the_whitelist_in_a_million_attempts() {
    run(1_000_000);
}

#[test]
fn group_spoofing_stays_below_the_access_part() {
    let access = doc! {"$or": [{"ownerGroup": {"$in": ["a"]}}, {"isPublished": true}]};
    let hostile = json!({
        "mode": {"$or": [{"ownerGroup": {"$exists": true}}, {"isPublished": false}]},
        "userGroups": ["admin"], "isPublished": false, "ownerGroup": ["admin"],
    });
    let find = full::translate(Some(&hostile.to_string()), None).unwrap();
    let whole = under(&access, &find.filter);
    assert_eq!(whole, doc! {"$and": [find.filter, access]});
}

#[test]
fn texts_of_any_bytes_are_refused_or_translated() {
    for text in ["\u{feff}{}", "{\"where\":{\"pid\":1e999}}", "NaN", "{\"limits\":{\"skip\":-1e400}}"] {
        assert!(filter::translate(Some(text), Dialect::V3).is_err(), "{text}");
    }
    let deep = format!("{}1{}", "{\"where\":".repeat(120), "}".repeat(120));
    assert!(filter::translate(Some(&deep), Dialect::V3).is_err());
}
