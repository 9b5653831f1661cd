//! Tests the finding for every fulfilled and broken promise.

use super::*;
use crate::changes::Changes;
use crate::intents::Intents;
use crate::numbers::Allocation;
use crate::receipt::Run;

const RUN: Run = Run { time_s: 1, tag: [200, 2, 3] };

/// Numbers 0..20 acknowledged, 20..30 rejected, 30..40 unknown, 40..50 not sent, 50 the limit.
fn ledger() -> Ledger {
    let mut ledger = Ledger::new(RUN, Allocation::new(4, 3, Some(50)).unwrap());
    ledger.set(0..20, State::Acknowledged);
    ledger.set(20..30, State::Rejected);
    ledger.set(30..40, State::Unknown);
    ledger
}

fn intact(number: u64) -> Found {
    let stamp = Some(RUN.receipt(number).stamp());
    Found::Receipt { number, content: Content::Follows(0), stamp }
}

fn promised() -> Vec<Found> {
    (0..20).map(intact).collect()
}

fn check(extra: &[Found], expected: impl FnOnce(&mut Findings)) {
    check_with(&Touched::None, OtherWriters::Expected, extra, expected);
}

fn check_with(touched: &Touched, n: OtherWriters, extra: &[Found], expected: impl FnOnce(&mut Findings)) {
    let ledger = ledger();
    let mut audit = Audit::with(&ledger, touched, n);
    promised().iter().chain(extra).for_each(|found| audit.see(*found));
    let mut findings =
        Findings { acknowledged: 20, found: 20, rejected: 10, unknown_absent: 10, ..Default::default() };
    expected(&mut findings);
    assert_eq!(audit.finish(), findings);
}

#[test]
fn a_kept_promise_holds() {
    check(&[], |f| assert!(f.holds()));
}

#[test]
fn an_acknowledged_document_that_is_absent_is_lost() {
    let ledger = ledger();
    let mut audit = Audit::new(&ledger);
    promised().iter().filter(|f| **f != intact(7)).for_each(|f| audit.see(*f));
    let findings = audit.finish();
    assert_eq!((findings.found, findings.lost, &findings.examples.lost[..]), (19, 1, &[7][..]));
    assert!(!findings.holds());
}

#[test]
fn a_rejected_unsent_or_unallocated_document_is_a_phantom() {
    check(&[intact(25), intact(45), intact(50), intact(1 << 39)], |f| {
        f.phantom = 4;
        f.examples.phantom = vec![25, 45, 50, 1 << 39];
    });
}

#[test]
fn a_receipt_seen_more_than_once_is_duplicated_once() {
    check(&[intact(3), intact(3), intact(4)], |f| {
        f.duplicated = 2;
        f.examples.duplicated = vec![3, 4];
    });
}

#[test]
fn a_known_stamp_under_another_id_is_a_duplicate() {
    check(&[Found::Foreign { stamp: Some(RUN.receipt(5).stamp()) }], |f| {
        f.duplicated = 1;
        f.examples.duplicated = vec![5];
    });
}

#[test]
fn a_stamp_of_this_run_that_was_never_sent_is_a_phantom() {
    check(&[Found::Foreign { stamp: Some(RUN.receipt(45).stamp()) }], |f| {
        f.phantom = 1;
        f.examples.phantom = vec![45];
    });
}

#[test]
fn an_unknown_document_is_foreign_if_other_writers_are_expected_and_otherwise_a_phantom() {
    let other_run = Run { tag: [9, 9, 9], ..RUN }.receipt(5).stamp();
    let strange = [Found::Foreign { stamp: None }, Found::Foreign { stamp: Some(other_run) }];
    check(&strange, |f| f.foreign = 2);
    check_with(&Touched::None, OtherWriters::Excluded, &strange, |f| f.phantom = 2);
}

#[test]
fn a_document_of_another_run_is_foreign_everywhere() {
    let other = Run { tag: [9, 9, 9], ..RUN };
    for other_writers in [OtherWriters::Expected, OtherWriters::Excluded] {
        let found = |stamp| Found::OtherRun { run: other, stamp };
        let stamped = |number| found(Some(other.receipt(number).stamp()));
        check_with(&Touched::None, other_writers, &[stamped(5), stamped(6), found(None)], |f| {
            (f.foreign, f.other_runs) = (3, [(other, 3)].into());
        });
        let copy = found(Some(RUN.receipt(5).stamp()));
        check_with(&Touched::None, other_writers, &[copy], |f| {
            f.duplicated = 1;
            f.examples.duplicated = vec![5];
        });
    }
}

#[test]
fn an_unknown_document_may_exist() {
    check(&[intact(30), intact(39)], |f| {
        (f.unknown_present, f.unknown_absent) = (2, 8);
        assert!(f.holds());
    });
}

#[test]
fn wrong_content_or_a_contradicting_stamp_is_corrupted() {
    let ledger = ledger();
    let mut audit = Audit::new(&ledger);
    promised().iter().skip(3).for_each(|f| audit.see(*f));
    audit.see(Found::Receipt { number: 0, content: Content::Differs, stamp: None });
    let stamp = Some(RUN.receipt(2).stamp());
    audit.see(Found::Receipt { number: 1, content: Content::Follows(0), stamp });
    audit.see(Found::Receipt { number: 2, content: Content::Differs, stamp });
    let findings = audit.finish();
    assert_eq!((findings.found, findings.lost, findings.corrupted), (20, 0, 3));
    assert_eq!(findings.examples.corrupted, [0, 1, 2]);
}

#[test]
fn a_touched_document_is_not_audited() {
    let allocation = ledger().allocation();
    let mut touched = Touched::None;
    touched.mark(&allocation, 18..22);
    touched.mark(&allocation, 45..46);
    let changed = Found::Receipt { number: 18, content: Content::Differs, stamp: None };
    let ledger = ledger();
    let mut audit = Audit::with(&ledger, &touched, OtherWriters::Expected);
    promised().iter().take(18).for_each(|f| audit.see(*f));
    [changed, intact(20), intact(45)].into_iter().for_each(|found| audit.see(found));
    let findings = audit.finish();
    let expected = Findings {
        acknowledged: 18,
        found: 18,
        rejected: 8,
        unknown_absent: 10,
        not_audited: 5,
        ..Findings::default()
    };
    assert_eq!(findings, expected);
}

/// The ledger with number 0 replaced twice, 1 replaced and in doubt, 2 deleted, and the deletion of 3 in doubt.
fn changed_ledger() -> Ledger {
    let (mut ledger, mut changes) = (ledger(), Changes::default());
    let slot = |number| ledger.allocation().locate(number).unwrap();
    for number in [0, 0, 1] {
        changes.versions.replace(slot(number));
        changes.versions.acknowledge(slot(number));
    }
    changes.versions.replace(slot(1));
    changes.versions.delete(slot(2));
    changes.versions.acknowledge(slot(2));
    changes.versions.delete(slot(3));
    ledger.set_changes(Some(changes));
    ledger
}

fn check_changed(seen: &[(u64, u32)], expected: impl FnOnce(&mut Findings)) {
    let ledger = changed_ledger();
    let mut audit = Audit::with(&ledger, &Touched::None, OtherWriters::Expected);
    (4..20).for_each(|number| audit.see(intact(number)));
    for (number, version) in seen {
        audit.see(Found::Receipt { number: *number, content: Content::Follows(*version), stamp: None });
    }
    let mut findings = Findings {
        acknowledged: 18,
        found: 18,
        rejected: 10,
        unknown_absent: 10,
        deleted: 1,
        not_audited: 1,
        ..Findings::default()
    };
    expected(&mut findings);
    assert_eq!(audit.finish(), findings);
}

#[test]
fn a_replaced_document_is_found_in_any_version_from_the_acknowledged_to_the_sent() {
    for seen in [[(0, 2), (1, 1)], [(0, 2), (1, 2)]] {
        check_changed(&seen, |findings| assert!(findings.holds()));
    }
}

#[test]
fn an_update_that_was_undone_is_lost_once() {
    check_changed(&[(0, 1), (1, 1)], |f| {
        (f.found, f.lost, f.examples.lost) = (17, 1, vec![0]);
    });
    check_changed(&[(1, 0), (0, 2)], |f| {
        (f.found, f.lost, f.examples.lost) = (17, 1, vec![1]);
    });
    let ledger = changed_ledger();
    let mut audit = Audit::with(&ledger, &Touched::None, OtherWriters::Expected);
    (1..20).for_each(|number| audit.see(intact(number)));
    audit.see(Found::Receipt { number: 0, content: Content::Follows(1), stamp: None });
    assert_eq!(audit.lost().collect::<Vec<_>>(), [0, 1]);
}

/// Audits with number 1 in doubt at version 2 and number 30 of unknown outcome, both shown by a read.
fn check_read(seen: &[(u64, u32)], expected: [&[u64]; 2]) {
    let mut ledger = changed_ledger();
    let mut changes = ledger.changes().cloned().unwrap();
    for number in [1, 30] {
        assert!(changes.versions.read(ledger.allocation().locate(number).unwrap()));
    }
    ledger.set_changes(Some(changes));
    let mut audit = Audit::new(&ledger);
    for (number, version) in seen {
        audit.see(Found::Receipt { number: *number, content: Content::Follows(*version), stamp: None });
    }
    let Examples { lost, read_then_gone, .. } = audit.finish().examples;
    assert_eq!([&lost[..1], &read_then_gone], expected);
}

#[test]
fn a_document_that_was_read_and_is_gone_or_older_is_a_violation() {
    check_read(&[(0, 2), (1, 2), (30, 0)], [&[4], &[]]);
    check_read(&[(0, 2), (1, 2)], [&[4], &[30]]);
    check_read(&[(0, 2), (1, 1), (30, 0)], [&[4], &[1]]);
    check_read(&[(0, 2), (30, 0)], [&[1], &[]]);
    let broken = Findings { read_then_gone: 1, ..Findings::default() };
    assert!(!broken.holds());
}

#[test]
fn transactions_that_were_only_counted_stay_an_open_question() {
    let mut ledger = changed_ledger();
    let mut changes = ledger.changes().cloned().unwrap();
    changes.transactions.add_unchecked(3);
    ledger.set_changes(Some(changes));
    let findings = Audit::new(&ledger).finish();
    assert_eq!((findings.unchecked_transactions, findings.half_transactions), (3, 0));
}

/// Audits a transaction of unknown outcome: it inserts 30 and 31, replaces 1 and deletes 3.
fn check_transaction(seen: &[(u64, u32)], expected: &[u64]) {
    let mut ledger = changed_ledger();
    let mut changes = ledger.changes().cloned().unwrap();
    let slot = |number| ledger.allocation().locate(number).unwrap();
    let span = |number, count| Span { first: slot(number), count };
    changes.transactions.add(vec![span(30, 1), span(31, 1), span(1, 1), span(3, 1)]);
    ledger.set_changes(Some(changes));
    let mut audit = Audit::new(&ledger);
    for (number, version) in seen {
        audit.see(Found::Receipt { number: *number, content: Content::Follows(*version), stamp: None });
    }
    let mut whole = Audit::new(&ledger);
    whole.merge(&audit);
    assert_eq!(whole.finish().examples.half_transactions, expected, "{seen:?}");
    let mut second = Audit::new(&ledger);
    for (number, version) in [(30, 0), (31, 0), (1, 2)] {
        second.see(Found::Receipt { number, content: Content::Follows(version), stamp: None });
    }
    audit.excuse_late_commits(&second);
    assert_eq!(audit.finish().half_transactions, 0, "{seen:?}: committed during the scan");
}

#[test]
fn a_transaction_of_unknown_outcome_is_done_as_a_whole_or_not_at_all() {
    check_transaction(&[(30, 0), (31, 0), (1, 2)], &[]);
    check_transaction(&[(1, 1), (3, 0)], &[]);
    check_transaction(&[(30, 0), (1, 2)], &[31]);
    check_transaction(&[(30, 0), (31, 0), (1, 1)], &[1]);
    check_transaction(&[(30, 0), (31, 0), (1, 2), (3, 0)], &[3]);
    check_transaction(&[(1, 1)], &[30]);
    // Document 1 is corrupted: that shows neither its old nor its new version.
    check_transaction(&[(30, 0), (31, 0), (1, 3)], &[]);
}

/// Audits number 0, of which two increments were acknowledged and a third has no answer.
fn audit_counter(unseen: Intents, shown: Option<i64>) -> Findings {
    let (mut ledger, mut changes) = (ledger(), Changes::default());
    let slot = ledger.allocation().locate(0).unwrap();
    (0..3).for_each(|_| assert!(changes.versions.increment(slot)));
    (0..2).for_each(|_| changes.versions.acknowledge_increment(slot));
    ledger.set_changes(Some(changes));
    ledger.set_unseen(unseen);
    let mut audit = Audit::new(&ledger);
    audit.see(Found::Receipt { number: 0, content: Content::Counted(shown.map(even)), stamp: None });
    audit.finish()
}

/// Counters that agree.
fn even(count: i64) -> Shown {
    Shown { least: count, most: count }
}

#[test]
fn each_of_several_counters_is_judged_and_an_update_in_part_corrupts() {
    let (mut ledger, mut changes) = (ledger(), Changes::default());
    let slot = ledger.allocation().locate(0).unwrap();
    (0..3).for_each(|_| assert!(changes.versions.increment(slot)));
    (0..2).for_each(|_| changes.versions.acknowledge_increment(slot));
    ledger.set_changes(Some(changes));
    for (least, most, expected) in [
        (2, 2, (0, 0, 0)),
        (3, 3, (0, 0, 0)),
        (2, 3, (0, 0, 1)),
        (1, 2, (1, 0, 0)),
        (3, 5, (0, 2, 0)),
        (0, 4, (2, 1, 0)),
    ] {
        let content = Content::Counted(Some(Shown { least, most }));
        let findings = scan_of(&ledger, &Touched::None, [(0, content)]).finish();
        let found = (findings.lost_increments, findings.extra_increments, findings.corrupted);
        assert_eq!(found, expected, "{least} to {most}");
    }
}

#[test]
fn updates_of_several_kinds_are_lost_or_extra_as_the_scanner_counted_them() {
    let crashed = Intents::NONE.with(Intent::Alter);
    for (unseen, lacking, exceeding, expected) in [
        (Intents::NONE, 0, 0, (0, 0)),
        (Intents::NONE, 2, 0, (2, 0)),
        (Intents::NONE, 0, 3, (0, 3)),
        (crashed, 2, 3, (0, 0)),
    ] {
        let mut ledger = ledger();
        ledger.set_unseen(unseen);
        let content = Content::Updated { lacking, exceeding };
        let findings = scan_of(&ledger, &Touched::None, [(0, content)]).finish();
        let found = (findings.lost_increments, findings.extra_increments);
        assert_eq!((found, findings.found, findings.corrupted), (expected, 1, 0), "{content:?}");
    }
    let all = Touched::All;
    let findings = scan_of(&ledger(), &all, [(0, Content::Updated { lacking: 1, exceeding: 1 })]).finish();
    assert_eq!((findings.lost_increments, findings.extra_increments), (0, 0), "touched documents are exempt");
}

#[test]
fn a_counter_shows_every_acknowledged_increment_and_no_increment_beyond_those_sent() {
    let crashed = Intents::NONE.with(Intent::Replace);
    for (unseen, shown, expected) in [
        (Intents::NONE, Some(2), (0, 0)),
        (Intents::NONE, Some(3), (0, 0)),
        (Intents::NONE, None, (0, 0)),
        (Intents::NONE, Some(0), (2, 0)),
        (Intents::NONE, Some(5), (0, 2)),
        (crashed, Some(5), (0, 0)),
        (crashed, Some(1), (1, 0)),
    ] {
        let findings = audit_counter(unseen, shown);
        assert_eq!((findings.lost_increments, findings.extra_increments), expected, "{shown:?}");
        assert_eq!((findings.found, findings.corrupted, findings.lost), (1, 0, 19));
        let Examples { lost_increments, extra_increments, .. } = findings.examples;
        assert_eq!(
            (lost_increments.len(), extra_increments.len()),
            (expected.0.min(1) as usize, expected.1.min(1) as usize)
        );
    }
}

#[test]
fn an_index_lacks_a_document_that_is_acknowledged_present_and_not_changing() {
    let ledger = changed_ledger();
    let mut audit = Audit::with(&ledger, &Touched::None, OtherWriters::Expected);
    // The server lacks number 4 itself; the index lacks 1, 3, 4, 5 and 30. 1 and 3 are in doubt, and 30 has no answer.
    let stored = [(0, 2), (1, 1), (3, 0)].into_iter().chain((5..20).chain(30..31).map(|number| (number, 0)));
    stored.for_each(|(number, version)| {
        audit.see(Found::Receipt { number, content: Content::Follows(version), stamp: None });
    });
    let mut scan = audit.index_scan();
    [0, 2].into_iter().chain(6..20).for_each(|number| audit.see_through(&mut scan, number));
    audit.compare_index(&scan);
    let findings = audit.finish();
    assert_eq!((findings.missing_from_index, findings.lost), (1, 1));
    assert_eq!(findings.examples.missing_from_index, [5]);
}

#[test]
fn a_version_that_was_never_sent_is_corrupted() {
    check_changed(&[(0, 3), (1, 2)], |f| {
        (f.corrupted, f.examples.corrupted) = (1, vec![0]);
    });
}

#[test]
fn a_deleted_document_must_be_missing_and_a_doubtfully_deleted_one_may_be_missing() {
    check_changed(&[(0, 2), (1, 2), (3, 0)], |findings| assert!(findings.holds()));
    check_changed(&[(0, 2), (1, 2), (2, 0)], |f| {
        (f.phantom, f.examples.phantom) = (1, vec![2]);
    });
}

#[test]
fn a_copy_of_any_version_under_another_id_is_a_duplicate() {
    let copy = |number, version| Found::Foreign { stamp: Some(RUN.receipt(number).stamp_of(version)) };
    let audit = |copies: &[Found]| {
        let ledger = changed_ledger();
        let mut audit = Audit::with(&ledger, &Touched::None, OtherWriters::Expected);
        copies.iter().for_each(|copy| audit.see(*copy));
        let findings = audit.finish();
        (findings.duplicated, findings.foreign, findings.phantom, findings.examples.duplicated)
    };
    assert_eq!(audit(&[copy(0, 0), copy(0, 1), copy(0, 2), copy(1, 2)]), (4, 0, 0, vec![0, 1]));
    assert_eq!(audit(&[copy(2, 0), copy(3, 0)]), (2, 0, 0, vec![2, 3]));
    assert_eq!(audit(&[copy(0, 3), copy(45, 1), copy(1 << 39, 2)]), (0, 3, 0, vec![]), "never sent");
}

#[test]
fn only_duplicates_are_audited_if_all_documents_are_touched() {
    check_with(&Touched::All, OtherWriters::Expected, &[intact(3)], |f| {
        let examples = Examples { duplicated: vec![3], ..Examples::default() };
        *f = Findings { not_audited: 40, duplicated: 1, examples, ..Findings::default() };
    });
}

#[test]
fn examples_are_the_lowest_hundred_in_any_order() {
    let mut ledger = Ledger::new(RUN, Allocation::new(10, 7, Some(10_000)).unwrap());
    ledger.set(0..5000, State::Acknowledged);
    let mut audit = Audit::new(&ledger);
    (5000..6000).rev().for_each(|number| audit.see(intact(number)));
    let findings = audit.finish();
    assert_eq!((findings.lost, findings.phantom), (5000, 1000));
    assert_eq!(findings.examples.lost, (0..100).collect::<Vec<_>>());
    assert_eq!(findings.examples.phantom, (5000..5100).collect::<Vec<_>>());
}

fn scan_of<'a>(
    ledger: &'a Ledger,
    touched: &'a Touched,
    seen: impl IntoIterator<Item = (u64, Content)>,
) -> Audit<'a> {
    let mut audit = Audit::with(ledger, touched, OtherWriters::Expected);
    seen.into_iter().for_each(|(number, content)| audit.see(Found::Receipt { number, content, stamp: None }));
    audit
}

#[test]
fn a_member_differs_in_missing_old_changed_and_further_documents_but_not_in_those_in_doubt() {
    let ledger = changed_ledger();
    let follows = |number: u64, version: u32| (number, Content::Follows(version));
    // Numbers 1 and 3 are in doubt, 2 is deleted, 20 to 29 are rejected, and 30 has no answer.
    let primary =
        [follows(0, 2), follows(1, 1), follows(3, 0)].into_iter().chain((5..20).map(|it| follows(it, 0)));
    let primary = scan_of(&ledger, &Touched::None, primary.chain([follows(30, 0)]));
    assert_eq!(primary.differences(&primary.clone()), Differences::default());
    let member =
        [follows(0, 1), follows(2, 2), follows(4, 0), (6, Content::Differs), follows(31, 0)].into_iter();
    let member = scan_of(&ledger, &Touched::None, member.chain((7..20).map(|it| follows(it, 0))));
    let expected = Differences {
        count: 6,
        missing: vec![0, 5, 30],
        corrupted: vec![6],
        extra: vec![2, 4],
        counters: Vec::new(),
    };
    assert_eq!(primary.differences(&member), expected);
}

#[test]
fn a_member_differs_in_a_counter_that_is_wrong_on_it_alone() {
    let ledger = changed_ledger();
    let counted = |number: u64, shown| (number, Content::Counted(Some(even(shown))));
    let primary = scan_of(&ledger, &Touched::None, [counted(0, 2), counted(5, 1), counted(6, 0)]);
    let member = scan_of(&ledger, &Touched::None, [counted(0, 1), counted(5, 1), counted(6, 3)]);
    let differences = primary.differences(&member);
    assert_eq!((differences.count, differences.counters), (2, vec![0, 6]));
}

#[test]
fn every_differing_counter_of_a_member_counts_beyond_the_examples_and_one_that_is_wrong_on_both_does_not() {
    let mut ledger = Ledger::new(RUN, Allocation::new(1000, 1, None).unwrap());
    let mut changes = Changes::default();
    ledger.set(0..1000, State::Acknowledged);
    for number in 0..1000 {
        let slot = ledger.allocation().locate(number).unwrap();
        assert!(changes.versions.increment(slot));
        changes.versions.acknowledge_increment(slot);
    }
    ledger.set_changes(Some(changes));
    let scan = |shown: fn(u64) -> Shown| {
        scan_of(&ledger, &Touched::None, (0..1000).map(|it| (it, Content::Counted(Some(shown(it))))))
    };
    // The primary lacks the increments of 400 documents; the member also those of the next 300, and an update in part of the last.
    let primary = scan(|number| even(i64::from(number >= 400)));
    let member = scan(|number| match number {
        999 => Shown { least: 0, most: 2 },
        number => even(i64::from(number >= 700)),
    });
    let differences = primary.differences(&member);
    assert_eq!((differences.count, differences.counters[0]), (301, 400));
    assert_eq!(differences.counters.len(), EXAMPLES_MAX);
    assert_eq!(primary.differing(&member).last(), Some(999));
}

#[test]
fn shards_hold_each_document_once_but_for_orphans_that_the_mongos_hides() {
    let ledger = changed_ledger();
    let follows = |numbers: std::ops::Range<u64>| numbers.map(|number| (number, Content::Follows(0)));
    let scan = |seen: Vec<(u64, Content)>| scan_of(&ledger, &Touched::None, seen);
    // The mongos shows 5 twice, and does not show 19.
    let mongos = scan(follows(4..19).chain(follows(5..6)).collect());
    // Both have 5 and 6; none has 18; 30 has no answer.
    let shards = [
        scan(follows(4..10).collect()),
        scan(follows(5..7).chain(follows(10..18)).chain(follows(19..20)).chain(follows(30..31)).collect()),
    ];
    let placement = mongos.placement(&shards);
    assert_eq!(mongos.unplaced(&shards).collect::<Vec<_>>(), [18]);
    let expected =
        Placement { orphans: 1, unplaced: (1, vec![18]), hidden: (1, vec![19]), doubled: (1, vec![5]) };
    assert_eq!(placement, expected);
    assert_eq!((mongos.present(), shards[0].present(), shards[1].present()), (15, 6, 12));
}
