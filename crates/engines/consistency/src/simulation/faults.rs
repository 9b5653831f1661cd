//! Lists faults of the store, each with the anomaly that it causes.

use super::Simulation;
use crate::claim::Order;
use crate::history::{Outcome, Step};
use crate::report::Kind;

/// Processes for faulty transactions. The simulation's own processes have lower numbers.
pub const PROCESSES: [u32; 4] = [11, 12, 13, 14];
const ONE: u32 = PROCESSES[0];
const TWO: u32 = PROCESSES[1];
const THREE: u32 = PROCESSES[2];
const FOUR: u32 = PROCESSES[3];

const SKEW_IN_TIME: Kind = Kind::ReadSkew(Order::RealTime);

/// A fault that a simulation injects.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The fault in words, such as `a dirty write`.
    pub name: &'static str,
    /// The anomaly that each history with the fault has.
    pub anomaly: Kind,
    /// The consequences that a history may have as well.
    pub implied: &'static [Kind],
    /// Injects the fault into a running simulation.
    pub inject: fn(&mut Simulation),
}

/// A fault for each anomaly.
pub const FAULTS: [Fault; 19] = [
    Fault {
        name: "a dirty write",
        anomaly: Kind::DirtyWrite(Order::Any),
        implied: &[],
        inject: a_dirty_write,
    },
    Fault {
        name: "an aborted read",
        anomaly: Kind::AbortedRead,
        implied: &[Kind::IncompatibleOrder],
        inject: an_aborted_read,
    },
    Fault {
        name: "a dirty update",
        anomaly: Kind::DirtyUpdate,
        implied: &[Kind::AbortedRead],
        inject: a_dirty_update,
    },
    Fault {
        name: "an intermediate read",
        anomaly: Kind::IntermediateRead,
        implied: &[Kind::ReadSkew(Order::Any), Kind::NotLinearizable],
        inject: an_intermediate_read,
    },
    Fault {
        name: "a circular information flow",
        anomaly: Kind::CircularInformationFlow(Order::Any),
        implied: &[],
        inject: a_circular_information_flow,
    },
    Fault { name: "a read skew", anomaly: Kind::ReadSkew(Order::Any), implied: &[], inject: a_read_skew },
    Fault { name: "a long fork", anomaly: Kind::LongFork(Order::Any), implied: &[], inject: a_long_fork },
    Fault { name: "a write skew", anomaly: Kind::WriteSkew(Order::Any), implied: &[], inject: a_write_skew },
    Fault {
        name: "a lost update",
        anomaly: Kind::LostUpdate,
        implied: &[Kind::ReadSkew(Order::Any), Kind::NotLinearizable],
        inject: a_lost_update,
    },
    Fault {
        name: "a duplicate append",
        anomaly: Kind::DuplicateElement,
        implied: &[],
        inject: a_duplicate_append,
    },
    Fault {
        name: "a phantom element",
        anomaly: Kind::PhantomElement,
        implied: &[Kind::IncompatibleOrder],
        inject: a_phantom_element,
    },
    Fault {
        name: "an internal inconsistency",
        anomaly: Kind::Internal,
        implied: &[],
        inject: an_internal_inconsistency,
    },
    Fault {
        name: "a stale read in real time",
        anomaly: Kind::StaleRead,
        implied: &[SKEW_IN_TIME, Kind::NotLinearizable],
        inject: a_stale_read_in_real_time,
    },
    Fault {
        name: "a stale read in a session",
        anomaly: Kind::ReadSkew(Order::Session),
        implied: &[Kind::StaleRead, Kind::NotLinearizable],
        inject: a_stale_read_in_a_session,
    },
    Fault {
        name: "a rollback after the acknowledgement",
        anomaly: Kind::LostAppend,
        implied: &[Kind::NotLinearizable],
        inject: a_rollback_after_the_acknowledgement,
    },
    Fault {
        name: "a rollback of an append that was read",
        anomaly: Kind::IncompatibleOrder,
        implied: &[Kind::LostAppend],
        inject: a_rollback_of_an_append_that_was_read,
    },
    Fault {
        name: "a half transaction",
        anomaly: Kind::HalfTransaction,
        implied: &[Kind::NotLinearizable],
        inject: a_half_transaction,
    },
    Fault {
        name: "a half transaction whose client has no answer",
        anomaly: Kind::HalfTransaction,
        implied: &[],
        inject: a_half_transaction_whose_client_has_no_answer,
    },
    Fault {
        name: "a read of one document that goes back",
        anomaly: Kind::NotLinearizable,
        implied: &[SKEW_IN_TIME],
        inject: a_read_of_one_document_that_goes_back,
    },
];

fn a_dirty_write(store: &mut Simulation) {
    let ((x, y), start) = (store.two_lists(), store.tick());
    let (one_x, two_x, two_y, one_y) = (store.append(x), store.append(x), store.append(y), store.append(y));
    store.committed(ONE, start, vec![one_x, one_y]);
    store.committed(TWO, start, vec![two_x, two_y]);
}

fn an_aborted_read(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let append = store.append(x);
    let read = store.read(x);
    store.forget(x);
    store.record(ONE, start, Outcome::Aborted, vec![append]);
    store.committed(TWO, start, vec![read]);
}

fn a_dirty_update(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let (lost, kept) = (store.append(x), store.append(x));
    store.record(ONE, start, Outcome::Aborted, vec![lost]);
    store.committed(TWO, start, vec![kept]);
}

fn an_intermediate_read(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let (first, read, second) = (store.append(x), store.read(x), store.append(x));
    store.committed(ONE, start, vec![first, second]);
    store.committed(TWO, start, vec![read]);
}

fn a_circular_information_flow(store: &mut Simulation) {
    let ((x, y), start) = (store.two_lists(), store.tick());
    let (one, two) = (store.append(x), store.append(y));
    let (read_y, read_x) = (store.read(y), store.read(x));
    store.committed(ONE, start, vec![one, read_y]);
    store.committed(TWO, start, vec![two, read_x]);
}

fn a_read_skew(store: &mut Simulation) {
    let ((x, y), start) = (store.two_lists(), store.tick());
    let read_x = store.read(x);
    let (one_x, one_y) = (store.append(x), store.append(y));
    let read_y = store.read(y);
    store.committed(ONE, start, vec![one_x, one_y]);
    store.committed(TWO, start, vec![read_x, read_y]);
}

fn a_long_fork(store: &mut Simulation) {
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
}

fn a_write_skew(store: &mut Simulation) {
    let ((x, y), start) = (store.two_lists(), store.tick());
    let (read_x, read_y) = (store.read(x), store.read(y));
    let (append_y, append_x) = (store.append(y), store.append(x));
    store.committed(ONE, start, vec![read_x, append_y]);
    store.committed(TWO, start, vec![read_y, append_x]);
}

fn a_lost_update(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let read = store.read(x);
    let (one, two) = (store.append(x), store.append(x));
    store.committed(ONE, start, vec![read.clone(), one]);
    store.committed(TWO, start, vec![read, two]);
}

fn a_duplicate_append(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let element = store.element();
    store.push(x, element);
    store.push(x, element);
    store.committed(ONE, start, vec![Step::Append { list: x, element }]);
}

fn a_phantom_element(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let mut elements = store.elements(x);
    elements.push(1_000_000);
    store.committed(ONE, start, vec![Step::Read { list: x, elements }]);
}

fn an_internal_inconsistency(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let read = store.read(x);
    let append = store.append(x);
    store.committed(ONE, start, vec![append, read]);
}

fn a_stale_read_in_real_time(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let read = store.read(x);
    let append = store.append(x);
    store.committed(ONE, start, vec![append]);
    let start = store.tick();
    store.committed(TWO, start, vec![read]);
}

fn a_stale_read_in_a_session(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let read = store.read(x);
    let append = store.append(x);
    store.committed(ONE, start, vec![append]);
    let start = store.tick();
    store.committed(ONE, start, vec![read]);
}

fn a_rollback_after_the_acknowledgement(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let append = store.append(x);
    store.committed(ONE, start, vec![append]);
    store.forget(x);
}

fn a_rollback_of_an_append_that_was_read(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let append = store.append(x);
    let read = store.read(x);
    store.committed(ONE, start, vec![append]);
    store.committed(TWO, start, vec![read]);
    store.forget(x);
    let start = store.tick();
    let next = store.append(x);
    store.committed(THREE, start, vec![next]);
}

fn a_half_transaction(store: &mut Simulation) {
    let ((x, y), start) = (store.two_lists(), store.tick());
    let (kept, lost) = (store.append(x), store.append(y));
    store.forget(y);
    store.committed(ONE, start, vec![kept, lost]);
}

fn a_half_transaction_whose_client_has_no_answer(store: &mut Simulation) {
    let ((x, y), start) = (store.two_lists(), store.tick());
    let (kept, lost) = (store.append(x), store.append(y));
    store.forget(y);
    store.record(ONE, start, Outcome::Unknown, vec![kept, lost]);
    let (start, read) = (store.tick(), store.read(x));
    store.committed(TWO, start, vec![read]);
}

fn a_read_of_one_document_that_goes_back(store: &mut Simulation) {
    let ((x, _), start) = (store.two_lists(), store.tick());
    let (old, append, new) = (store.read(x), store.append(x), store.read(x));
    store.committed(TWO, start, vec![new]);
    let later = store.tick();
    store.committed(THREE, later, vec![old]);
    store.committed(ONE, start, vec![append]);
}
