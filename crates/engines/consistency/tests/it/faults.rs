//! Checks that every fault of the store is reported by its name, and that only its consequences are reported
//! with it.

use std::collections::BTreeSet;

use plimsoll_consistency::{Claim, Kind, Order, Outcome, Step, check};

use crate::store::{SERIALIZABLE, Settings, Simulation};

const SEEDS: u64 = 100;
/// The processes of faulty transactions. The simulation's own processes have lower numbers.
const ONE: u32 = 11;
const TWO: u32 = 12;
const THREE: u32 = 13;
const FOUR: u32 = 14;

const SKEW_IN_TIME: Kind = Kind::ReadSkew(Order::RealTime);

/// Injects a fault into many histories. Each must show `expected`, and may show the consequences `implied`.
fn finds(expected: Kind, implied: &[Kind], fault: fn(&mut Simulation)) {
    for unknown in [0, 30] {
        for seed in 0..SEEDS {
            let history = Simulation::new(Settings { unknown, ..SERIALIZABLE }, seed).run(fault);
            let report = check(&history).unwrap();
            let found: BTreeSet<Kind> = report.counts.keys().copied().collect();
            let described = format!("seed {seed}, {unknown} % unknown: {:#?}", report.examples);
            assert!(found.contains(&expected), "{expected} is missing in {described}");
            let surplus: Vec<_> =
                found.iter().filter(|kind| **kind != expected && !implied.contains(kind)).collect();
            assert!(surplus.is_empty(), "{surplus:?} besides {expected} in {described}");
            assert!(report.violation_count(Claim::STRICT_SERIALIZABLE) > 0, "{described}");
        }
    }
}

#[test]
fn a_dirty_write() {
    finds(Kind::DirtyWrite(Order::Any), &[], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (one_x, two_x, two_y, one_y) =
            (store.append(x), store.append(x), store.append(y), store.append(y));
        store.committed(ONE, start, vec![one_x, one_y]);
        store.committed(TWO, start, vec![two_x, two_y]);
    });
}

#[test]
fn an_aborted_read() {
    finds(Kind::AbortedRead, &[Kind::IncompatibleOrder], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let append = store.append(x);
        let read = store.read(x);
        store.forget(x);
        store.record(ONE, start, Outcome::Aborted, vec![append]);
        store.committed(TWO, start, vec![read]);
    });
}

#[test]
fn a_dirty_update() {
    finds(Kind::DirtyUpdate, &[Kind::AbortedRead], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let (lost, kept) = (store.append(x), store.append(x));
        store.record(ONE, start, Outcome::Aborted, vec![lost]);
        store.committed(TWO, start, vec![kept]);
    });
}

#[test]
fn an_intermediate_read() {
    let implied = [Kind::ReadSkew(Order::Any), Kind::NotLinearizable];
    finds(Kind::IntermediateRead, &implied, |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let (first, read, second) = (store.append(x), store.read(x), store.append(x));
        store.committed(ONE, start, vec![first, second]);
        store.committed(TWO, start, vec![read]);
    });
}

#[test]
fn a_circular_information_flow() {
    finds(Kind::CircularInformationFlow(Order::Any), &[], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (one, two) = (store.append(x), store.append(y));
        let (read_y, read_x) = (store.read(y), store.read(x));
        store.committed(ONE, start, vec![one, read_y]);
        store.committed(TWO, start, vec![two, read_x]);
    });
}

#[test]
fn a_read_skew() {
    finds(Kind::ReadSkew(Order::Any), &[], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let read_x = store.read(x);
        let (one_x, one_y) = (store.append(x), store.append(y));
        let read_y = store.read(y);
        store.committed(ONE, start, vec![one_x, one_y]);
        store.committed(TWO, start, vec![read_x, read_y]);
    });
}

#[test]
fn a_long_fork() {
    finds(Kind::LongFork(Order::Any), &[], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let four_x = store.read(x);
        let one = store.append(x);
        let three = vec![store.read(x), store.read(y)];
        let two = store.append(y);
        let four = vec![four_x, store.read(y)];
        store.committed(ONE, start, vec![one]);
        store.committed(TWO, start, vec![two]);
        store.committed(THREE, start, three);
        store.committed(FOUR, start, four);
    });
}

#[test]
fn a_write_skew() {
    finds(Kind::WriteSkew(Order::Any), &[], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (read_x, read_y) = (store.read(x), store.read(y));
        let (append_y, append_x) = (store.append(y), store.append(x));
        store.committed(ONE, start, vec![read_x, append_y]);
        store.committed(TWO, start, vec![read_y, append_x]);
    });
}

#[test]
fn a_lost_update() {
    let implied = [Kind::ReadSkew(Order::Any), Kind::NotLinearizable];
    finds(Kind::LostUpdate, &implied, |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let read = store.read(x);
        let (one, two) = (store.append(x), store.append(x));
        store.committed(ONE, start, vec![read.clone(), one]);
        store.committed(TWO, start, vec![read, two]);
    });
}

#[test]
fn a_duplicate_append() {
    finds(Kind::DuplicateElement, &[], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let element = store.element();
        store.push(x, element);
        store.push(x, element);
        store.committed(ONE, start, vec![Step::Append { list: x, element }]);
    });
}

#[test]
fn a_phantom_element() {
    finds(Kind::PhantomElement, &[Kind::IncompatibleOrder], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let mut elements = store.elements(x);
        elements.push(1_000_000);
        store.committed(ONE, start, vec![Step::Read { list: x, elements }]);
    });
}

#[test]
fn an_internal_inconsistency() {
    finds(Kind::Internal, &[], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let read = store.read(x);
        let append = store.append(x);
        store.committed(ONE, start, vec![append, read]);
    });
}

#[test]
fn a_stale_read_in_real_time() {
    finds(Kind::StaleRead, &[SKEW_IN_TIME, Kind::NotLinearizable], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let read = store.read(x);
        let append = store.append(x);
        store.committed(ONE, start, vec![append]);
        let start = store.tick();
        store.committed(TWO, start, vec![read]);
    });
}

#[test]
fn a_stale_read_in_a_session() {
    let implied = [Kind::StaleRead, Kind::NotLinearizable];
    finds(Kind::ReadSkew(Order::Session), &implied, |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let read = store.read(x);
        let append = store.append(x);
        store.committed(ONE, start, vec![append]);
        let start = store.tick();
        store.committed(ONE, start, vec![read]);
    });
}

#[test]
fn a_write_skew_hides_no_read_skew_in_real_time() {
    let history = Simulation::new(Settings { transactions: 0, aborted: 0, ..SERIALIZABLE }, 1).run(|store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (read_x, read_y, old) = (store.read(x), store.read(y), store.read(x));
        let (append_x, append_y) = (store.append(x), store.append(y));
        store.committed(ONE, start, vec![read_x, append_y]);
        store.committed(TWO, start, vec![read_y, append_x]);
        let later = store.tick();
        store.committed(THREE, later, vec![old]);
    });
    let report = check(&history).unwrap();
    let found: Vec<Kind> = report.counts.keys().copied().collect();
    assert!(found.contains(&Kind::WriteSkew(Order::Any)) && found.contains(&SKEW_IN_TIME), "{found:?}");
    assert_eq!(report.cycles_not_decided, 0);
}

#[test]
fn a_rollback_after_the_acknowledgement() {
    finds(Kind::LostAppend, &[Kind::NotLinearizable], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let append = store.append(x);
        store.committed(ONE, start, vec![append]);
        store.forget(x);
    });
}

#[test]
fn a_rollback_of_an_append_that_was_read() {
    finds(Kind::IncompatibleOrder, &[Kind::LostAppend], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let append = store.append(x);
        let read = store.read(x);
        store.committed(ONE, start, vec![append]);
        store.committed(TWO, start, vec![read]);
        store.forget(x);
        let start = store.tick();
        let next = store.append(x);
        store.committed(THREE, start, vec![next]);
    });
}

#[test]
fn a_half_transaction() {
    finds(Kind::HalfTransaction, &[Kind::NotLinearizable], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (kept, lost) = (store.append(x), store.append(y));
        store.forget(y);
        store.committed(ONE, start, vec![kept, lost]);
    });
}

#[test]
fn a_half_transaction_whose_client_has_no_answer() {
    finds(Kind::HalfTransaction, &[], |store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (kept, lost) = (store.append(x), store.append(y));
        store.forget(y);
        store.record(ONE, start, Outcome::Unknown, vec![kept, lost]);
        let (start, read) = (store.tick(), store.read(x));
        store.committed(TWO, start, vec![read]);
    });
}

#[test]
fn a_read_of_one_document_that_goes_back() {
    finds(Kind::NotLinearizable, &[SKEW_IN_TIME], |store| {
        let ((x, _), start) = (store.two_lists(), store.tick());
        let (old, append, new) = (store.read(x), store.append(x), store.read(x));
        store.committed(TWO, start, vec![new]);
        let later = store.tick();
        store.committed(THREE, later, vec![old]);
        store.committed(ONE, start, vec![append]);
    });
}

#[test]
fn a_cycle_is_explained_in_words() {
    let history = Simulation::new(Settings { transactions: 0, aborted: 0, ..SERIALIZABLE }, 1).run(|store| {
        let start = store.tick();
        let read_x = store.read(7);
        let (one_x, one_y) = (store.append(7), store.append(8));
        let read_y = store.read(8);
        store.committed(ONE, start, vec![one_x, one_y]);
        store.committed(TWO, start, vec![read_x, read_y]);
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
