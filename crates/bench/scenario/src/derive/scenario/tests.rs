//! Tests whole derived scenarios: they load, compile, and make documents like the seen ones.

use std::path::PathBuf;

use bson::spec::{BinarySubtype, ElementType};
use bson::{Bson, Document, RawDocumentBuf, doc};
use plimsoll_document::Identity;

use super::*;
use crate::{Loaded, Plan, Text, load_text};

fn text_of(documents: &[Document], collection: &Collection, copy_values: CopyValues) -> String {
    let mut profile = Profile::default();
    documents.iter().for_each(|document| profile.see(&RawDocumentBuf::try_from(document).unwrap()));
    scenario(&profile, &Origin { collection, choice: Some(Choice::All), copy_values }).unwrap()
}

fn shop() -> Collection {
    Collection { namespace: "shop.orders".into(), exists: true, ..Collection::default() }
}

fn derived(documents: &[Document]) -> String {
    text_of(documents, &shop(), CopyValues::No)
}

#[track_caller]
fn loaded(text: &str) -> Loaded {
    let source = Text { name: "d".into(), origin: "d".into(), text: text.into(), base: PathBuf::from(".") };
    let loaded = load_text(source, &[], None).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    Plan::build(&loaded).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    loaded
}

/// Documents of the derived scenario.
#[track_caller]
fn made(text: &str, count: u64) -> Vec<Document> {
    let template = loaded(text).scenario.document.unwrap();
    let program = Program::compile(&template, &Settings::default()).unwrap();
    let make = |number| {
        let mut out = Vec::new();
        program.encode(number, &Identity::default(), &mut out);
        Document::from_reader(out.as_slice()).unwrap()
    };
    (0..count).map(make).collect()
}

fn every_type() -> Document {
    let regex = bson::Regex { pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() };
    let binary = |subtype, len| bson::Binary { subtype, bytes: vec![1; len] };
    doc! {
        "double": 1.5, "string": "é", "object": {"deep": {"er": 1}}, "empty": {}, "array": [1, 2], "none": [],
        "binData": binary(BinarySubtype::Generic, 3), "nothing": binary(BinarySubtype::Generic, 0),
        "uuid": binary(BinarySubtype::Uuid, 16), "objectId": bson::oid::ObjectId::new(), "bool": true,
        "date": bson::DateTime::from_millis(1_700_000_000_000), "old": bson::DateTime::from_millis(i64::MIN),
        "null": Bson::Null, "regex": regex, "javascript": Bson::JavaScriptCode("f()".into()),
        "javascriptWithScope": bson::JavaScriptCodeWithScope { code: "f()".into(), scope: doc! {"a": 1} },
        "int": 1, "timestamp": bson::Timestamp { time: 5, increment: 1 }, "long": 1_i64 << 40,
        "least": i64::MIN, "decimal": "1.50".parse::<bson::Decimal128>().unwrap(), "minKey": Bson::MinKey,
        "nan": f64::NAN, "huge": f64::MAX, "maxKey": Bson::MaxKey, "symbol": Bson::Symbol("s".into()),
        "undefined": Bson::Undefined, "blank": "", "": "no name",
    }
}

#[test]
fn every_type_is_made_again_whether_its_values_are_few_or_many() {
    for times in [1, 10] {
        let documents = vec![every_type(); times];
        let text = derived(&documents);
        let again = made(&text, 3);
        for (name, value) in every_type() {
            let found = again[2].get(&name).unwrap_or_else(|| panic!("{name}: {text}"));
            assert_eq!(found.element_type(), value.element_type(), "{name}: {text}");
        }
    }
}

/// Documents with known distributions.
fn orders() -> Vec<Document> {
    let order = |index: i32| {
        let mut order = doc! {
            "_id": index, "customer": format!("zanzibar-{index}-{}", "x".repeat((index % 21) as usize)),
            "status": if index % 10 < 7 { "Quagmire" } else { "Xylophone" }, "paid": index % 4 == 0,
            "total": f64::from(index) * 1.5, "lines": vec![doc! {"sku": format!("wombat{index}"), "n": index % 5}; (index % 4) as usize],
            "at": bson::DateTime::from_millis(1_700_000_000_000 + i64::from(index) * 60_000),
        };
        if index % 5 == 0 {
            order.insert("note", format!("kumquat {index}"));
        }
        order
    };
    (0..1000).map(order).collect()
}

fn share(documents: &[Document], is: impl Fn(&Document) -> bool) -> f64 {
    documents.iter().filter(|document| is(document)).count() as f64 / documents.len() as f64
}

#[test]
fn shares_sizes_and_ranges_are_those_of_the_documents() {
    let again = made(&derived(&orders()), 4000);
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.05;
    assert!(near(share(&again, |it| it.contains_key("note")), 0.2));
    assert!(near(share(&again, |it| it.get_bool("paid").unwrap()), 0.25));
    assert!(near(share(&again, |it| it.get_str("status").unwrap().len() == "Quagmire".len()), 0.7));
    assert!(near(share(&again, |it| it.get_f64("total").unwrap() < 750.0), 0.5));
    let mean = |size: fn(&Document) -> usize, all: &[Document]| {
        all.iter().map(size).sum::<usize>() as f64 / all.len() as f64
    };
    let size: fn(&Document) -> usize = |it| it.get_str("customer").unwrap().len();
    assert!((mean(size, &again) / mean(size, &orders()) - 1.0).abs() < 0.05);
    let lines: fn(&Document) -> usize = |it| it.get_array("lines").unwrap().len();
    assert!(near(mean(lines, &again), 1.5));
    let first = again.iter().map(|it| it.get_datetime("at").unwrap().timestamp_millis()).min().unwrap();
    assert!((1_699_995_000_000..1_700_003_000_000).contains(&first), "{first}");
    let line = again.iter().find_map(|it| it.get_array("lines").unwrap().first()).unwrap();
    assert_eq!(line.as_document().unwrap().keys().collect::<Vec<_>>(), ["sku", "n"]);
}

#[test]
fn a_value_is_copied_only_on_request_and_only_if_its_field_has_few() {
    let secret = ["zanzibar", "Quagmire", "Xylophone", "wombat", "kumquat"];
    let text = derived(&orders());
    assert!(secret.iter().all(|value| !text.contains(value)), "{text}");
    let text = text_of(&orders(), &shop(), CopyValues::Yes);
    let copied: Vec<_> = secret.iter().filter(|value| text.contains(**value)).collect();
    assert_eq!(copied, [&"Quagmire", &"Xylophone"]);
    let statuses = made(&text, 1000);
    assert!((share(&statuses, |it| it.get_str("status").unwrap() == "Quagmire") - 0.7).abs() < 0.05);
}

#[test]
fn odd_names_are_written_and_dollars_get_a_prefix() {
    let documents = vec![
        doc! {
            "a.b": 1, "$price": 2, "_$price": 3, "no": 4, "x y": 5, "日": 6, "#": 7, "_p": 8_i64, "null": 9,
            "deep": {"$text": {"$date": 1}, "$optional": 2}, "reference": {"$ref": "c", "$id": 5}, "\u{7f}\n": 10,
        };
        8
    ];
    let made = made(&derived(&documents), 1).remove(0);
    let expected = [
        "_id",
        "a.b",
        "__$price",
        "_$price",
        "no",
        "x y",
        "日",
        "#",
        "null",
        "deep",
        "reference",
        "\u{7f}\n",
        "_p",
    ];
    assert_eq!(made.keys().collect::<Vec<_>>(), expected);
    assert!(made.get_document("deep").unwrap().contains_key("_$text"));
    assert_eq!(made.get_document("reference").unwrap().keys().collect::<Vec<_>>(), ["$ref", "$id"]);
}

#[test]
fn names_that_are_data_are_replaced() {
    let documents: Vec<_> =
        (0..300).map(|index| doc! {"logins": {format!("user{index}@example.com"): index}}).collect();
    let text = derived(&documents);
    assert!(!text.contains("example.com") && text.contains("key199:"), "{text}");
    loaded(&text);
}

#[test]
fn names_that_are_data_are_replaced_in_a_small_sample() {
    let documents: Vec<Document> =
        (0..20).map(|n| doc! {"readers": {format!("reader{n}@example.com"): true}}).collect();
    let text = derived(&documents);
    assert!(!text.contains("@example.com"), "{text}");
    assert!(made(&text, 1)[0].get_document("readers").is_ok());
}

#[test]
fn mixed_types_are_made_in_their_shares() {
    let mixed = |index: i32| match index % 10 {
        0 => Bson::Null,
        1..=3 => Bson::String(format!("s{index}")),
        _ => Bson::Int32(index),
    };
    let nullable = |index: i32| if index % 2 == 0 { Bson::Null } else { Bson::Document(doc! {"x": index}) };
    let documents: Vec<_> =
        (0..1000).map(|index| doc! {"mixed": mixed(index), "nullable": nullable(index)}).collect();
    let text = derived(&documents);
    let again = made(&text, 4000);
    let of = |kind| share(&again, |it| it.get("mixed").unwrap().element_type() == kind);
    assert!((of(ElementType::Null) - 0.1).abs() < 0.05 && (of(ElementType::String) - 0.3).abs() < 0.05);
    assert!((share(&again, |it| it.contains_key("nullable")) - 0.5).abs() < 0.05);
    assert!(text.contains("missing instead of null here"), "{text}");
}

#[test]
fn an_empty_collection_is_a_scenario_to_complete() {
    let text = text_of(&[], &Collection { documents: Some(0), ..shop() }, CopyValues::No);
    assert!(
        text.contains("write the fields of a document here") && text.contains("documents: 1000"),
        "{text}"
    );
    assert_eq!(made(&text, 1)[0].len(), 2);
}

#[test]
fn the_form_of_the_id_follows_strings_and_is_explained_for_other_types() {
    for (id, part) in [
        (Bson::String("a".into()), "id: string\n"),
        (Bson::Int32(5), "# Each _id was of the type int."),
        (Bson::Document(doc! {"a": 1}), "# Each _id was of the type object."),
    ] {
        let text = derived(&[doc! {"_id": id, "a": 1}]);
        assert!(text.contains(part), "{text}");
        loaded(&text);
    }
    assert!(!derived(&[doc! {"_id": bson::oid::ObjectId::new()}]).contains("_id"));
}

#[test]
fn indexes_are_carried_over_unless_they_need_special_values() {
    let index = |name: &str, keys: &str| Index { name: name.into(), keys: keys.into(), ..Index::default() };
    let indexes = vec![
        index("_id_", r#"{"_id":1}"#),
        Index {
            unique: true,
            partial: Some(r#"{"s":"walrus"}"#.into()),
            ..index("a_1_b.c_-1", r#"{"a":1,"b.c":-1}"#)
        },
        index("h", r#"{"h":"hashed"}"#),
        index("w", r#"{"$**":1}"#),
        index("place", r#"{"place":"2dsphere"}"#),
        index("words", r#"{"_fts":"text","_ftsx":1}"#),
    ];
    let text = text_of(&[doc! {"a": 1}], &Collection { indexes: Some(indexes), ..shop() }, CopyValues::No);
    let plan = Plan::build(&loaded(&text)).unwrap();
    let expected = [doc! {"a": 1, "b.c": -1}, doc! {"h": "hashed"}, doc! {"$**": 1}];
    assert_eq!(plan.indexes, [expected.to_vec()]);
    assert!(text.contains("Left out: the index \"place\"") && text.contains("Unique, Partial"), "{text}");
    assert!(!text.contains("walrus"), "a filter may hold values: {text}");
}

#[test]
fn documents_that_could_be_too_large_get_mean_sizes() {
    let large = |size: usize| doc! {"a": "x".repeat(size), "b": "y".repeat(size), "c": "z".repeat(size)};
    let documents: Vec<_> = (0..8).map(|index| large(1 + index % 2 * 5_595_000)).collect();
    assert!(derived(&documents).contains("{$text: {bytes: 2797501}}"));
    loaded(&derived(&documents));
}

#[test]
fn the_scenario_never_names_the_collection_itself() {
    for (namespace, own) in [("plimsoll.like_x", "plimsoll.like_like_x"), ("d.ü.$", "plimsoll.like____")] {
        let collection = Collection { namespace: namespace.into(), ..shop() };
        let loaded = loaded(&text_of(&[doc! {"a": 1}], &collection, CopyValues::No));
        assert_eq!(loaded.scenario.collection, own);
    }
}
