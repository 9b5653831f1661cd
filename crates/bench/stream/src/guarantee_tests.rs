//! Tests every combination of source, sink, dead letters and transforms: accepted and refused guarantees.

use std::path::Path;

use super::{build, replay};
use plimsoll_scenario::parse_with;

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
        // The results of `count` depend on the division into batches.
        (vec![FILE, KEPT, count], ["ml", "m", "ml", "ml", "m", "le", "ml"]),
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

const ORDERS: &str = "source: {change_stream: {uri: 'mongodb://localhost', watch: d.orders}}\n";
const COPY: &str = "sink: {keyed: {uri: 'mongodb://localhost', collection: d.copy}}\n";

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
