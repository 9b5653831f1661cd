//! Runs a small kill campaign: a kill of each victim, and a missing guard. `cargo xtask bench kills` runs the
//! whole campaign.

#[path = "../../benches/kills/campaign/mod.rs"]
mod campaign;

use campaign::audit::ledgers;
use campaign::profile::{GUARDED, UNGUARDED, Victim};
use campaign::random::Random;
use campaign::row::{Found, Row};
use campaign::table::whole;
use campaign::{Plan, deal, share};
use plimsoll_stores::audit::{BrokerReport, Report};

/// Tests that take minutes.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn a_small_campaign_holds_and_notices_a_missing_guard() {
        let dir = tempfile::tempdir().unwrap();
        let only = ["envelope-once", "changes", "ids-of-their-own"].map(str::to_owned);
        let seed = plimsoll_measure::clock::wall_ms();
        let plan = Plan { kills: 5, seed, out: dir.path().to_owned(), only: only.to_vec() };
        let held = campaign::run(&plan).unwrap();
        assert!(held, "seed {seed}: see the table above");
    }
}

#[test]
fn kills_keep_their_proportions_and_follow_from_the_seed() {
    assert_eq!((0..5).map(|at| share(103, at, 5)).sum::<usize>(), 103);
    let victims = [Victim::Engine, Victim::Engine, Victim::Broker];
    let dealt = |seed| deal(&victims, 30, &mut Random::of(seed).fork("row"));
    assert_eq!(dealt(7).iter().filter(|victim| **victim == Victim::Engine).count(), 20);
    assert_eq!(dealt(7), dealt(7));
    assert_ne!(dealt(7), dealt(8));
}

#[test]
fn every_victim_is_killed_with_and_without_a_guard() {
    for rows in [GUARDED, UNGUARDED] {
        for victim in [Victim::Engine, Victim::Broker, Victim::Server] {
            assert!(rows.iter().any(|profile| profile.victims.contains(&victim)), "{victim:?}");
        }
    }
}

fn row(name: &str, found: Found) -> Row {
    let profile = GUARDED.iter().chain(UNGUARDED).find(|profile| profile.name == name).unwrap();
    let mut row = Row { found, ..Row::of(profile) };
    row.count(Victim::Engine);
    row
}

#[test]
fn the_audit_gets_the_ledger_of_every_feeder_that_had_a_record_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, ledger: Option<&str>| {
        let run = dir.path().join(name);
        std::fs::create_dir(&run).unwrap();
        if let Some(text) = ledger {
            std::fs::write(run.join("acknowledged.ndjson"), text).unwrap();
        }
        run
    };
    run("insert-feed-2-000", None);
    run("insert-feed-2-001", Some(""));
    run("insert-000", Some("{}\n"));
    run("other-feed-0-000", Some("{}\n"));
    assert!(ledgers(dir.path(), "insert").unwrap_err().to_string().contains("no run in"));
    let mut wanted = vec![run("insert-feed-0-000", Some("{}\n")), run("insert-feed-1-003", Some("{}\n"))];
    let mut found = ledgers(dir.path(), "insert").unwrap();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn records_that_the_broker_lost_break_every_row() {
    let partition = |lost| BrokerReport { acknowledged: 9, lost, ..BrokerReport::default() };
    let report = Report { broker: vec![partition(0), partition(2)], ..Report::default() };
    let broken = Found { events: 9, ..Found::of(&report) };
    assert_eq!(broken.broker, 1);
    assert!(!row("insert", broken).holds());
    let noticed = Found { lost: 1, ..broken };
    assert!(!row("kept-before-written", noticed).holds());
    assert!(row("kept-before-written", Found { broker: 0, ..noticed }).holds());
}

#[test]
fn a_row_holds_when_its_result_matches_its_guarantee() {
    let whole = Found { events: 9, ..Found::default() };
    let (lost, duplicated) = (Found { lost: 1, ..whole }, Found { duplicated: 1, ..whole });
    for (name, found, holds) in [
        ("insert", whole, true),
        ("insert", lost, false),
        ("insert", duplicated, false),
        ("insert", Found { unexpected: 1, ..whole }, false),
        ("insert", Found { altered: 1, ..whole }, false),
        ("insert", Found::default(), false),
        ("at-least-once", duplicated, true),
        ("at-least-once", lost, false),
        ("no-journal", lost, true),
        ("no-journal", duplicated, false),
        ("no-transactions", duplicated, true),
        ("no-transactions", Found { lost: 1, ..duplicated }, false),
        ("no-transactions", whole, false),
    ] {
        assert_eq!(row(name, found).holds(), holds, "{name}: {found:?}");
    }
}

#[test]
fn a_row_without_a_kill_or_with_trouble_proves_nothing() {
    let whole = Found { events: 9, ..Found::default() };
    let quiet = Row { engine_kills: 0, ..row("insert", whole) };
    let stalled = Row { trouble: Some("it stood still".to_owned()), ..row("insert", whole) };
    assert!(!quiet.holds() && !stalled.holds());
}

#[test]
fn rows_with_and_without_a_guard_have_separate_tables() {
    let kept = row("insert", Found { events: 500, ..Found::default() });
    let missing = row("kept-before-written", Found { events: 70, lost: 4, ..Found::default() });
    let text = whole(7, &[kept.clone(), missing]);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at("seed 7") < at("holds") && at("holds") < at("1 kills: 1 of the engine"), "{text}");
    assert!(at("without the guard") < at("noticed"), "{text}");
    let lost = Row { found: Found { lost: 1, ..kept.found }, ..kept };
    assert!(whole(7, &[lost]).contains("DOES NOT HOLD"));
}
