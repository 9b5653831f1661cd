//! Decides whether the operations on one list are linearizable, after Wing and Gong (1993) and Lowe (2017).
//!
//! Linearizability is local: a history is linearizable if each of its lists is (Herlihy and Wing, 1990). Every committed read must
//! show a state of the list, so each state that the search visits is a beginning of the longest read, and its length identifies it.

use std::collections::HashSet;

use crate::history::Outcome;
use crate::lists::{List, Lists, NEVER_NS, shown};

/// The answer for one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Linearizable,
    /// No order exists. The first operation that found no place in the longest order, and that order's number of operations.
    Impossible {
        transaction: u32,
        placed: usize,
    },
    /// The search reached its limit.
    NotDecided,
}

/// The part of a transaction that concerns the list.
#[derive(Clone, Copy, Debug)]
struct Operation {
    transaction: u32,
    invoked_ns: u64,
    completed_ns: u64,
    /// The length of the state that it read.
    read: Option<u32>,
    /// The length that the state must have before its appends. `None` if it appends nothing.
    appends_at: Option<u32>,
    /// The number of appends.
    appends: u32,
}

/// Searches for an order of all operations on a list. Visits at most `states_max` states.
pub(crate) fn check(lists: &Lists<'_>, list: &List<'_>, states_max: usize) -> Verdict {
    let operations = operations(lists, list);
    Search::new(&operations, list.order.len() as u32).run(states_max)
}

/// Describes the operation that found no place.
pub(crate) fn explain(list: &List<'_>, transaction: u32, placed: usize) -> String {
    let id = list.id;
    let operation = match list.read_of(transaction) {
        Some(read) => format!("T{transaction} read {} of list {id}", shown(read.elements)),
        None => format!("T{transaction} appended to list {id}"),
    };
    format!(
        "{operation}: no order of the operations on the list explains it ({placed} of them could be ordered)"
    )
}

/// All operations that took effect. An unknown append that no read showed may be missing, or last.
fn operations(lists: &Lists<'_>, list: &List<'_>) -> Vec<Operation> {
    let mut all: Vec<Operation> = Vec::new();
    for read in &list.reads {
        let read_length = read.elements.len() as u32;
        all.push(Operation { read: Some(read_length), ..empty(lists, read.transaction) });
    }
    for &(writer, element) in list.appended.iter().filter(|(writer, _)| lists.is_present(*writer)) {
        let position = lists.append(list.id, element).and_then(|append| append.position);
        if position.is_none() && lists.transaction(writer).outcome != Outcome::Committed {
            continue;
        }
        let first = position.unwrap_or(list.order.len() as u32);
        all.push(Operation { appends_at: Some(first), appends: 1, ..empty(lists, writer) });
    }
    all.sort_by_key(|operation| (operation.transaction, operation.appends_at));
    all.dedup_by(|next, kept| {
        let is_same = next.transaction == kept.transaction;
        if is_same {
            kept.appends_at = kept.appends_at.or(next.appends_at);
            kept.appends += next.appends;
        }
        is_same
    });
    all
}

fn empty(lists: &Lists<'_>, number: u32) -> Operation {
    let transaction = lists.transaction(number);
    let is_committed = transaction.outcome == Outcome::Committed;
    Operation {
        transaction: number,
        invoked_ns: transaction.invoked_ns,
        completed_ns: if is_committed { transaction.completed_ns } else { NEVER_NS },
        read: None,
        appends_at: None,
        appends: 0,
    }
}

/// Starts and ends of operations in the order of time, as a list from which operations are taken and put back.
struct Search<'o> {
    operations: &'o [Operation],
    /// The length of the longest read.
    longest: u32,
    entries: Vec<Entry>,
    /// The places of each operation's entries; the end is missing for an unknown outcome.
    places: Vec<(usize, Option<usize>)>,
    /// Operations that must still be placed.
    committed: usize,
    /// Reads that must still be placed.
    reads: usize,
}

/// Entry 0 is the head.
#[derive(Clone, Copy)]
struct Entry {
    operation: usize,
    is_start: bool,
    before: usize,
    after: usize,
}

const HEAD: usize = 0;

impl<'o> Search<'o> {
    fn new(operations: &'o [Operation], longest: u32) -> Self {
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * operations.len());
        for (index, operation) in operations.iter().enumerate() {
            events.push((operation.invoked_ns, false, index));
            if operation.completed_ns != NEVER_NS {
                events.push((operation.completed_ns, true, index));
            }
        }
        events.sort_unstable();
        let mut entries = vec![Entry { operation: 0, is_start: false, before: HEAD, after: HEAD }];
        let mut places = vec![(HEAD, None); operations.len()];
        for (_, is_end, operation) in events {
            let at = entries.len();
            entries[at - 1].after = at;
            entries.push(Entry { operation, is_start: !is_end, before: at - 1, after: HEAD });
            match is_end {
                true => places[operation].1 = Some(at),
                false => places[operation].0 = at,
            }
        }
        let is_committed = |operation: &&Operation| operation.completed_ns != NEVER_NS;
        let committed = operations.iter().filter(is_committed).count();
        let reads = operations.iter().filter(|operation| operation.read.is_some()).count();
        Self { operations, longest, entries, places, committed, reads }
    }

    fn run(&mut self, states_max: usize) -> Verdict {
        let mut seen: HashSet<(u128, u32)> = HashSet::new();
        let mut placed: Vec<(usize, u32)> = Vec::new();
        let (mut set, mut length, mut deepest) = (0_u128, 0_u32, (0, None));
        let mut at = self.entries[HEAD].after;
        while self.committed > 0 {
            let entry = self.entries[at];
            if at != HEAD && entry.is_start {
                let next = self.applied(entry.operation, length);
                let is_new = next.is_some_and(|next| seen.insert((set ^ mark(entry.operation), next)));
                if let Some(next) = next.filter(|_| is_new) {
                    if seen.len() > states_max {
                        return Verdict::NotDecided;
                    }
                    placed.push((entry.operation, length));
                    (set, length) = (set ^ mark(entry.operation), next);
                    self.take(entry.operation);
                    at = self.entries[HEAD].after;
                } else {
                    at = entry.after;
                }
                continue;
            }
            // An operation ended that found no place.
            if deepest.1.is_none() || placed.len() > deepest.0 {
                deepest = (placed.len(), Some(entry.operation));
            }
            let Some((operation, before)) = placed.pop() else {
                let blocked = deepest.1.map_or(0, |operation| self.operations[operation].transaction);
                return Verdict::Impossible { transaction: blocked, placed: deepest.0 };
            };
            (set, length) = (set ^ mark(operation), before);
            self.put_back(operation);
            at = self.entries[self.places[operation].0].after;
        }
        Verdict::Linearizable
    }

    /// The length of the list after the operation, if the operation fits a list of this length.
    fn applied(&self, index: usize, length: u32) -> Option<u32> {
        let operation = &self.operations[index];
        if operation.read.is_some_and(|read| read != length) {
            return None;
        }
        let Some(first) = operation.appends_at else { return Some(length) };
        let is_unseen = first >= self.longest;
        let other_reads = self.reads - usize::from(operation.read.is_some());
        let fits = if is_unseen { length >= self.longest && other_reads == 0 } else { length == first };
        fits.then_some(length + operation.appends)
    }

    fn take(&mut self, operation: usize) {
        let (start, end) = self.places[operation];
        for at in [Some(start), end].into_iter().flatten() {
            let Entry { before, after, .. } = self.entries[at];
            self.entries[before].after = after;
            self.entries[after].before = before;
        }
        self.count(operation, |count, change| count - change);
    }

    fn put_back(&mut self, operation: usize) {
        let (start, end) = self.places[operation];
        for at in [end, Some(start)].into_iter().flatten() {
            let Entry { before, after, .. } = self.entries[at];
            self.entries[before].after = at;
            self.entries[after].before = at;
        }
        self.count(operation, |count, change| count + change);
    }

    fn count(&mut self, operation: usize, change: fn(usize, usize) -> usize) {
        let Operation { completed_ns, read, .. } = self.operations[operation];
        self.committed = change(self.committed, usize::from(completed_ns != NEVER_NS));
        self.reads = change(self.reads, usize::from(read.is_some()));
    }
}

/// A random number for each operation, whose exclusive or identifies a set of operations (Zobrist hashing). Two of a million sets
/// share their number with a probability of 10^-27.
const fn mark(operation: usize) -> u128 {
    let (high, low) = (scramble(2 * operation as u64), scramble(2 * operation as u64 + 1));
    (high as u128) << 64 | low as u128
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
const fn scramble(index: u64) -> u64 {
    let mut bits = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(length: u32, invoked_ns: u64, completed_ns: u64) -> Operation {
        Operation {
            transaction: 0,
            invoked_ns,
            completed_ns,
            read: Some(length),
            appends_at: None,
            appends: 0,
        }
    }

    fn append(position: u32, invoked_ns: u64, completed_ns: u64) -> Operation {
        Operation { read: None, appends_at: Some(position), appends: 1, ..read(0, invoked_ns, completed_ns) }
    }

    fn verdict(operations: &[Operation], longest: u32, states_max: usize) -> Verdict {
        let mut all = operations.to_vec();
        all.iter_mut().enumerate().for_each(|(index, operation)| operation.transaction = index as u32);
        Search::new(&all, longest).run(states_max)
    }

    #[test]
    fn concurrent_operations_take_the_order_that_explains_them() {
        let operations = [append(0, 0, 100), read(0, 10, 20), read(1, 30, 40), append(1, 0, 100)];
        assert_eq!(verdict(&operations, 1, 100), Verdict::Linearizable);
    }

    #[test]
    fn a_read_that_goes_back_is_impossible() {
        let operations = [append(0, 0, 100), read(1, 10, 20), read(0, 30, 40)];
        assert_eq!(verdict(&operations, 1, 100), Verdict::Impossible { transaction: 2, placed: 2 });
    }

    #[test]
    fn an_append_without_an_answer_may_take_effect_at_any_later_time() {
        let operations = [append(0, 0, NEVER_NS), read(0, 200, 210), read(1, 300, 310)];
        assert_eq!(verdict(&operations, 1, 100), Verdict::Linearizable);
        let operations = [append(0, 250, NEVER_NS), read(1, 200, 210)];
        assert_eq!(verdict(&operations, 1, 100), Verdict::Impossible { transaction: 1, placed: 0 });
    }

    #[test]
    fn a_search_that_meets_its_limit_is_not_decided() {
        let mut operations: Vec<_> = (0..20).map(|_| read(0, 0, 100)).collect();
        operations.extend([append(0, 0, 100), read(1, 10, 20), read(0, 30, 40)]);
        assert_eq!(verdict(&operations, 1, 1000), Verdict::NotDecided);
    }
}
