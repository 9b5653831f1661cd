//! Checks that every fault of the store is reported by its name, and that only its consequences are reported
//! with it.

use std::collections::BTreeSet;

use plimsoll_consistency::simulation::{FAULTS, Fault, PROCESSES, SERIALIZABLE, Settings, Simulation};
use plimsoll_consistency::{Claim, Kind, Order, check};

const SEEDS: u64 = 100;

/// Injects a fault into many histories. Each must show its anomaly, and may show its consequences.
fn finds(Fault { name, anomaly, implied, inject }: Fault) {
    for unknown in [0, 30] {
        for seed in 0..SEEDS {
            let history = Simulation::new(Settings { unknown, ..SERIALIZABLE }, seed).run(inject);
            let report = check(&history).unwrap();
            let found: BTreeSet<Kind> = report.counts.keys().copied().collect();
            let described = format!("{name}, seed {seed}, {unknown} % unknown: {:#?}", report.examples);
            assert!(found.contains(&anomaly), "{anomaly} is missing in {described}");
            let surplus: Vec<_> =
                found.iter().filter(|kind| **kind != anomaly && !implied.contains(kind)).collect();
            assert!(surplus.is_empty(), "{surplus:?} besides {anomaly} in {described}");
            assert!(report.violation_count(Claim::STRICT_SERIALIZABLE) > 0, "{described}");
        }
    }
}

#[test]
fn every_fault_is_reported_by_its_name_and_nothing_else() {
    FAULTS.into_iter().for_each(finds);
}

#[test]
fn a_write_skew_hides_no_read_skew_in_real_time() {
    let [first, second, third, _] = PROCESSES;
    let history = Simulation::new(Settings { transactions: 0, aborted: 0, ..SERIALIZABLE }, 1).run(|store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (read_x, read_y, old) = (store.read(x), store.read(y), store.read(x));
        let (append_x, append_y) = (store.append(x), store.append(y));
        store.committed(first, start, vec![read_x, append_y]);
        store.committed(second, start, vec![read_y, append_x]);
        let later = store.tick();
        store.committed(third, later, vec![old]);
    });
    let report = check(&history).unwrap();
    let found: Vec<Kind> = report.counts.keys().copied().collect();
    assert!(
        found.contains(&Kind::WriteSkew(Order::Any)) && found.contains(&Kind::ReadSkew(Order::RealTime)),
        "{found:?}"
    );
    assert_eq!(report.cycles_not_decided, 0);
}

#[test]
fn a_cycle_is_explained_in_words() {
    let [first, second, ..] = PROCESSES;
    let history = Simulation::new(Settings { transactions: 0, aborted: 0, ..SERIALIZABLE }, 1).run(|store| {
        let start = store.tick();
        let read_x = store.read(7);
        let (one_x, one_y) = (store.append(7), store.append(8));
        let read_y = store.read(8);
        store.committed(first, start, vec![one_x, one_y]);
        store.committed(second, start, vec![read_x, read_y]);
    });
    let report = check(&history).unwrap();
    let words: Vec<String> = report.examples.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "read skew (G-single): T0 appended 2 to list 8 before T1 read [2]; T1 read [] of list 7 before T0 appended 1"
        ]
    );
    assert_eq!(report.examples[0].transactions, [0, 1]);
}
