//! Tests every combination of source, sink, dead letters and transforms: accepted and refused guarantees.

use std::path::Path;

use super::build::payload_id;
use super::{build, replay};
use plimsoll_scenario::parse_with;
use plimsoll_stores::sink::keyed::PayloadId;

const SINKS: [&str; 7] = [
    "file: {path: out}",
    "insert: {uri: 'mongodb://localhost', collection: d.c}",
    "insert: {uri: 'mongodb://localhost', collection: d.c, identity: payload, form: bson}",
    "insert: {uri: 'mongodb://localhost', collection: d.c, identity: object_id}",
    "insert: {uri: 'mongodb://localhost', collection: d.c, write_concern: {w: 1}}",
    "transactional: {uri: 'mongodb://localhost', collection: d.c}",
    "keyed: {uri: 'mongodb://localhost', collection: d.c}",
];
const KEPT: &str = "positions: {file: nowhere/positions}\n";
const FILE: &str = "source: {file: {path: in, format: bson}}\n";
const SCAN: &str = "source: {scan: {uri: 'mongodb://localhost', collection: d.in}}\n";

/// The accepted guarantees, one letter each: `m` for at-most-once, `l` for at-least-once, `e` for
/// effectively-once.
fn given(rest: &str, sink: &str) -> String {
    // Transactions store positions themselves.
    let rest = if sink.starts_with("transactional") { rest.replace(KEPT, "") } else { rest.to_owned() };
    let is_given = |guarantee: &&str| {
        let text = format!("name: t\nguarantee: {guarantee}\nsink: {{{sink}}}\n{rest}");
        build(&parse_with(&text, "test", &[]).unwrap(), Path::new(".")).is_ok()
    };
    let all = ["at-most-once", "at-least-once", "effectively-once"];
    all.iter().filter(|guarantee| is_given(guarantee)).map(|guarantee| &guarantee[3..4]).collect()
}

#[test]
fn every_combination_accepts_exactly_its_possible_guarantees() {
    let stream = "source: {change_stream: {uri: 'mongodb://localhost', watch: d.in}}\n";
    let count = "transforms: [{count: {window: 1s}}]\n";
    let letters = "dead_letters: {file: {path: dead}}\n";
    let named = "dead_letters: {insert: {uri: 'mongodb://localhost', collection: d.dead, form: full}}\n";
    let rows = [
        (vec!["source: {generator: {}}\n"], ["m", "m", "m", "m", "m", "le", "m"]),
        (vec!["source: {generator: {}}\n", KEPT], ["ml", "mle", "mle", "ml", "m", "le", "mle"]),
        (vec![FILE], ["", "", "", "", "", "le", ""]),
        (vec![FILE, KEPT], ["ml", "mle", "mle", "ml", "m", "le", "mle"]),
        // A repeated `_id` is a later change, not the same event.
        (vec![stream, KEPT], ["ml", "mle", "", "ml", "m", "le", "mle"]),
        (vec![SCAN, KEPT], ["ml", "m", "mle", "ml", "m", "le", "mle"]),
        // The results of `count` depend on the division into batches, and are no documents of a copy.
        (vec![FILE, KEPT, count], ["ml", "m", "ml", "ml", "m", "le", ""]),
        // A file would hold a repeated dead letter twice; transactions store their own.
        (vec![FILE, KEPT, letters], ["ml", "ml", "ml", "ml", "m", "", "ml"]),
        (vec![FILE, KEPT, named], ["ml", "mle", "mle", "ml", "m", "", "mle"]),
        (vec![SCAN, KEPT, named], ["m", "m", "m", "m", "m", "", "m"]),
        (vec![FILE, KEPT, "dead_letters: {noop: {}}\n"], ["", "", "", "", "", "", ""]),
        #[cfg(feature = "kafka")]
        (
            vec!["source: {kafka: {brokers: b, topic: t, group: g}}\n"],
            ["ml", "mle", "mle", "ml", "m", "le", "mle"],
        ),
    ];
    for (parts, expected) in rows {
        assert_eq!(SINKS.map(|sink| given(&parts.concat(), sink)), expected, "{parts:?}");
    }
}

/// The refusal of a pipeline; empty if it is accepted. These combinations are refused under every guarantee.
fn refusal(sections: &str) -> String {
    // A topic keeps the positions itself.
    let kept = if sections.contains("kafka: {") { "" } else { KEPT };
    let text = format!("name: t\nguarantee: at-least-once\n{kept}{sections}");
    let built = build(&parse_with(&text, "test", &[]).unwrap(), Path::new("."));
    built.err().map(|error| format!("{error:#}")).unwrap_or_default()
}

/// Checks that a pipeline is refused with these words, or accepted without any.
fn check(sections: &str, words: &[&str]) {
    let refusal = refusal(sections);
    assert_eq!(refusal.is_empty(), words.is_empty(), "{sections}\n{refusal}");
    assert!(words.iter().all(|word| refusal.contains(word)), "{sections}\n{refusal}");
}

const ORDERS: &str = "source: {change_stream: {uri: 'mongodb://localhost', watch: d.orders}}\n";
const COPY: &str = "sink: {keyed: {uri: 'mongodb://localhost', collection: d.copy}}\n";

#[test]
fn a_copy_is_of_one_other_collection() {
    let stream =
        |watch: &str| format!("source: {{change_stream: {{uri: 'mongodb://localhost'{watch}}}}}\n{COPY}");
    check(&stream(", watch: d.orders"), &[]);
    check(&stream(", watch: d"), &["`watch: d`", "one collection (`watch: database.collection`)"]);
    check(&stream(""), &["without `watch`", "one collection (`watch: database.collection`)"]);
    check(&stream(", watch: d.copy"), &["writes to `d.copy`, which the source reads", "another collection"]);
    // The `_id` of a whole change is that of the change.
    check(&stream(", watch: d, payload: event"), &[]);
    let scan = |collection: &str| {
        format!("source: {{scan: {{uri: 'mongodb://localhost', collection: {collection}}}}}\n{COPY}")
    };
    check(&scan("d.orders"), &[]);
    check(&scan("d.copy"), &["writes to `d.copy`, which the source reads"]);
}

#[test]
fn a_copy_sees_every_change_of_its_documents() {
    let through = |transforms: &str| format!("{ORDERS}transforms: [{transforms}]\n{COPY}");
    check(&through("{filter: {where: '.n > 1', format: bson}}"), &[]);
    check(&through("{map: {project: [n], format: bson}}"), &[]);
    let words = ["build `transforms.1`", "drops changes and deletes", "`filter`"];
    check(&through("{filter: {where: '.n > 1'}}, {sample: {share: 0.5}}"), &words);
    let words = ["build `transforms.0`", "results of `count` are no documents", "`insert`"];
    check(&through("{count: {window: 1s}}"), &words);
}

#[test]
fn a_map_before_a_copy_keeps_the_id_by_which_deletes_find_documents() {
    let topic = "source: {kafka: {brokers: 'b:1', topic: t, group: g}}\n";
    let (filter, changed) = ("{filter: {where: '.live'}}", "{map: {set: {_id: '.ref'}, format: bson}}");
    let words = ["`map` changes `_id`", "keep `_id`"];
    for source in [FILE, SCAN, ORDERS].into_iter().chain(cfg!(feature = "kafka").then_some(topic)) {
        let through = |transforms: &str| format!("{source}transforms: [{transforms}]\n{COPY}");
        check(&through("{map: {set: {n: '._id'}, rename: {a: b}, format: bson}}"), &[]);
        let is_stream = source == ORDERS;
        check(&through(changed), if is_stream { &words } else { &[] });
        check(&through(&format!("{changed}, {filter}")), if is_stream { &words } else { &[] });
        let has_deletes = is_stream || source == topic;
        for transforms in [
            format!("{filter}, {changed}"),
            format!("{filter}, {{map: {{rename: {{ref: _id}}, format: bson}}}}"),
            "{map: {set: {_id: '.ref'}, expression: 'select(.live)', format: bson}}".to_owned(),
        ] {
            check(&through(&transforms), if has_deletes { &words } else { &[] });
        }
    }
}

#[test]
fn only_a_topic_without_a_map_may_have_keys_with_other_ids_than_its_documents() {
    let topic = "source: {kafka: {brokers: 'b:1', topic: t, group: g}}\n";
    let (filter, map) = ("{filter: {where: '.live'}}", "{map: {project: [n], format: bson}}");
    let rows = [
        (FILE, [PayloadId::Any; 3]),
        (SCAN, [PayloadId::Any; 3]),
        (ORDERS, [PayloadId::OfKey; 3]),
        (topic, [PayloadId::Any, PayloadId::Any, PayloadId::OfKey]),
    ];
    for (source, expected) in rows.into_iter().take(if cfg!(feature = "kafka") { 4 } else { 3 }) {
        let transforms = [String::new(), filter.to_owned(), format!("{filter}, {map}")];
        let rules = transforms.map(|transforms| {
            let text = format!("name: t\n{source}transforms: [{transforms}]\n{COPY}");
            payload_id(&parse_with(&text, "test", &[]).unwrap())
        });
        assert_eq!(rules, expected, "{source}");
    }
}

#[test]
fn a_copy_of_a_source_that_reads_each_document_once_may_be_a_sample() {
    for source in [FILE, SCAN] {
        let through = |transform: &str| format!("{source}transforms: [{transform}]\n{COPY}");
        check(&through("{sample: {share: 0.1}}"), &[]);
        check(&through("{count: {window: 1s}}"), &["results of `count` are no documents"]);
    }
}

#[test]
fn dead_letters_never_replace_each_other() {
    let insert = "insert: {uri: 'mongodb://localhost', collection: d.dead";
    let letters = |letters: &str| format!("{ORDERS}{COPY}dead_letters: {{{letters}}}\n");
    check(&letters(&format!("{insert}, form: full}}")), &[]);
    check(&letters(&format!("{insert}, form: bson, identity: object_id}}")), &[]);
    check(&letters("file: {path: dead, form: whole}"), &[]);
    let payload = letters(&format!("{insert}, form: bson, identity: payload}}"));
    check(&payload, &["other dead letters of a document would be lost", "`form: full`"]);
    check(&letters(&format!("{insert}, form: metadata}}")), &["only the length", "`form: full`"]);
    let keyed = letters("keyed: {uri: 'mongodb://localhost', collection: d.dead}");
    check(&keyed, &["replace and delete each other", "`form: full`"]);
    check(&letters("vector: {uri: 'mongodb://localhost', collection: d.dead}"), &["no dead letter has one"]);
    for collection in ["d.copy", "d.orders"] {
        let shared = format!("insert: {{uri: 'mongodb://localhost', collection: {collection}, form: full}}");
        check(&letters(&shared), &["cannot be distinguished", "another collection"]);
    }
    // A scan reads each document once.
    let scanned = format!("{SCAN}{COPY}dead_letters: {{{insert}, form: bson, identity: payload}}}}\n");
    check(&scanned, &[]);
}

#[test]
fn dead_letters_of_a_copy_are_not_replayed_over_newer_documents() {
    for letters in [
        "insert: {uri: 'mongodb://localhost', collection: d.dead, form: full}",
        "file: {path: dead, form: whole}",
    ] {
        let text = format!("name: t\n{KEPT}{ORDERS}{COPY}dead_letters: {{{letters}}}\n");
        let file = parse_with(&text, "test", &[]).unwrap();
        let refusal = format!("{:#}", replay::build(&file, Path::new("."), None).err().unwrap());
        assert!(refusal.contains("older than the document in the copy"), "{refusal}");
        assert!(refusal.contains("`scan`"), "{refusal}");
    }
}

#[test]
fn dead_letters_are_not_replayed_over_newer_vectors() {
    let letters = "dead_letters: {file: {path: dead, form: whole}}\n";
    for (by, is_refused) in [("payload, form: bson", true), ("key", false), ("source", false)] {
        let sink = format!("sink: {{vector: {{uri: 'mongodb://localhost', collection: d.c, by: {by}}}}}\n");
        let file = parse_with(&format!("name: t\n{KEPT}{ORDERS}{sink}{letters}"), "test", &[]).unwrap();
        let refusal = format!("{:#}", replay::build(&file, Path::new("."), None).err().unwrap());
        assert_eq!(refusal.contains("older than the document that `vector`"), is_refused, "{by}: {refusal}");
    }
}
