//! Checks that nothing is reported where nothing is wrong.

use plimsoll_consistency::simulation::{SERIALIZABLE, Settings, Simulation};
use plimsoll_consistency::{Claim, Isolation, Kind, Report, check};

const ROUNDS: u64 = 1_000;

fn reports(settings: Settings) -> impl Iterator<Item = (u64, Report)> {
    (0..ROUNDS).map(move |seed| {
        let history = Simulation::new(settings, seed).run(|_| ());
        let report = check(&history).unwrap();
        assert_eq!((report.lists_not_decided, report.cycles_not_decided), (0, 0), "seed {seed}");
        (seed, report)
    })
}

#[test]
fn a_serializable_store_has_no_anomaly() {
    let mut committed = 0;
    for (seed, report) in reports(SERIALIZABLE) {
        assert!(report.counts.is_empty(), "seed {seed}: {:#?}", report.examples);
        committed += report.committed;
    }
    assert!(committed > 20 * ROUNDS, "{committed} commits");
}

#[test]
fn a_snapshot_store_has_write_skew_and_nothing_else() {
    let mut skewed = 0;
    for (seed, report) in reports(Settings { isolation: Isolation::Snapshot, ..SERIALIZABLE }) {
        assert_eq!(report.violation_count(Claim::STRONG_SNAPSHOT), 0, "seed {seed}: {:#?}", report.examples);
        let others = report.counts.keys().filter(|kind| !matches!(kind, Kind::WriteSkew(_)));
        assert_eq!(others.count(), 0, "seed {seed}: {:#?}", report.examples);
        skewed += u64::from(report.violation_count(Claim::STRICT_SERIALIZABLE) > 0);
    }
    assert!(skewed > ROUNDS / 20, "{skewed} rounds with write skew");
}

#[test]
fn unknown_outcomes_create_no_anomaly() {
    let mut unknown = 0;
    for (seed, report) in reports(Settings { unknown: 40, ..SERIALIZABLE }) {
        assert!(report.counts.is_empty(), "seed {seed}: {:#?}", report.examples);
        unknown += report.unknown;
    }
    assert!(unknown > 10 * ROUNDS, "{unknown} unknown outcomes");
}
