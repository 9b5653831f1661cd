//! Tests the audit of a destination.

use bson::doc;
use plimsoll_host::Server;
use plimsoll_measure::stream::checksum;
use plimsoll_pipeline::{Batch, Partition, Record, SinkFactory, Verdict};
use plimsoll_stores::audit::{Expected, Identified, Mismatch, Part, Report, scan};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::document::identity::Identity;
use plimsoll_stores::scenario::{IdKind, Insert};
use plimsoll_stores::topics::Topics;

use crate::bench::{ask, batch, payload, shared, sink, uri, write};

fn number(db: &str, topic: &str) -> u32 {
    Topics::of(&format!("{db}.c").parse().unwrap(), Default::default()).default_number(topic)
}

fn expected(db: &str, partition: u32, end: u64) -> Expected {
    let sums = (0..end).map(|offset| checksum(offset, Some([payload(offset).as_slice()])));
    Expected {
        topic: "t".into(),
        number: number(db, "t"),
        partition,
        offsets: 0..end,
        holes: vec![],
        checksum: Some(sums.fold(0, u64::wrapping_add)),
    }
}

fn part(db: &str, collection: &str, form: Form) -> Part {
    Part { namespace: format!("{db}.{collection}").parse().unwrap(), identified: Identified::ById, form }
}

fn fill(server: &Server, db: &str, form: Form, batches: impl IntoIterator<Item = Batch>) {
    let typed = Insert { form, ..Insert::new(uri(server), format!("{db}.c")) };
    let mut sink = sink(&typed.build().unwrap() as &dyn SinkFactory);
    for batch in batches {
        assert_eq!(write(&mut *sink, batch), Verdict::WRITTEN);
    }
}

fn audit(server: &Server, expected: Vec<Expected>, parts: &[Part]) -> Report {
    scan(&uri(server), expected, parts).unwrap()
}

#[test]
fn written_events_pass_the_audit_with_payloads() {
    let server = shared();
    for (db, form) in [("au_bson", Form::Bson), ("au_full", Form::Full)] {
        fill(&server, db, form, [batch("t", 0, 0, 300), batch("t", 1, 0, 20), batch("t", 0, 300, 500)]);
        let report = audit(&server, vec![expected(db, 0, 500), expected(db, 1, 20)], &[part(db, "c", form)]);
        assert!(report.holds(), "{report:?}");
        assert_eq!((report.documents, report.foreign), (520, 0));
    }
}

#[test]
fn planted_gaps_and_altered_payloads_are_found() {
    let server = shared();
    fill(&server, "au_gaps", Form::Bson, [batch("t", 0, 0, 100)]);
    let id = |offset| {
        let bytes = Identity { topic: number("au_gaps", "t"), partition: 0, offset }.to_bytes().to_vec();
        bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes }
    };
    for offset in [7, 8, 40] {
        ask(&server, "au_gaps", doc! {"delete": "c", "deletes": [{"q": {"_id": id(offset)}, "limit": 1}]});
    }
    ask(&server, "au_gaps", doc! {"insert": "c", "documents": [{"_id": "foreign"}, {"_id": id(1000)}]});
    let report = audit(&server, vec![expected("au_gaps", 0, 100)], &[part("au_gaps", "c", Form::Bson)]);
    let found = &report.partitions[0];
    assert_eq!(found.gaps.iter().map(|gap| (gap.first, gap.last)).collect::<Vec<_>>(), [(7, 8), (40, 40)]);
    assert_eq!((report.lost(), found.strangers, report.foreign), (3, 1, 1));

    fill(&server, "au_alter", Form::Bson, [batch("t", 0, 0, 10)]);
    let wrong = Identity { topic: number("au_alter", "t"), partition: 0, offset: 3 }.to_bytes().to_vec();
    let wrong = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: wrong };
    ask(
        &server,
        "au_alter",
        doc! {"update": "c", "updates": [{"q": {"_id": wrong}, "u": {"$set": {"n": 4_i64}}}]},
    );
    let report = audit(&server, vec![expected("au_alter", 0, 10)], &[part("au_alter", "c", Form::Bson)]);
    assert_eq!(report.partitions[0].mismatches(), [Mismatch::Altered]);
}

#[test]
fn duplicates_are_found_by_the_source_field() {
    let server = shared();
    let mut typed = Insert { form: Form::Bson, ..Insert::new(uri(&server), "au_copies.c") };
    (typed.identity, typed.source_field) = (IdKind::ObjectId, Some("src".into()));
    let mut sink = sink(&typed.build().unwrap());
    write(&mut *sink, batch("t", 0, 0, 50));
    write(&mut *sink, batch("t", 0, 40, 45));
    let expected = Expected { checksum: None, ..expected("au_copies", 0, 50) };
    let part = Part { identified: Identified::ByField("src".into()), ..part("au_copies", "c", Form::Bson) };
    let report = audit(&server, vec![expected], &[part]);
    let found = &report.partitions[0];
    assert_eq!((found.found, found.duplicates, found.duplicate_examples.len()), (50, 5, 5));
    assert_eq!(found.mismatches(), [Mismatch::Doubled]);
}

#[test]
fn data_and_dead_letters_together_pass() {
    let server = shared();
    fill(&server, "au_letters", Form::Bson, [batch("t", 0, 0, 40), batch("t", 0, 41, 60)]);
    let data = part("au_letters", "c", Form::Bson);
    let alone = audit(&server, vec![expected("au_letters", 0, 60)], std::slice::from_ref(&data));
    assert_eq!(alone.lost(), 1);
    let letters = Insert { form: Form::Full, ..Insert::new(uri(&server), "au_letters.letters") };
    assert_eq!(write(&mut *sink(&letters.build().unwrap()), batch("t", 0, 40, 41)), Verdict::WRITTEN);
    let report = audit(
        &server,
        vec![expected("au_letters", 0, 60)],
        &[data, part("au_letters", "letters", Form::Full)],
    );
    assert!(report.holds(), "{report:?}");
}

#[test]
fn a_payload_with_its_own_id_is_reconstructed() {
    let server = shared();
    let own = doc! {"a": 1, "_id": "mine", "b": 2}.to_vec().unwrap();
    let mut batch = Batch::new(Partition::new("t", 0));
    batch.push(Record { offset: 0, appended_ms: 0, key: None, payload: Some(&own) });
    fill(&server, "au_own", Form::Bson, [batch]);
    let expected =
        Expected { checksum: Some(checksum(0, Some([own.as_slice()]))), ..expected("au_own", 0, 1) };
    let report = audit(&server, vec![expected], &[part("au_own", "c", Form::Bson)]);
    assert!(report.holds(), "{report:?}");
}
