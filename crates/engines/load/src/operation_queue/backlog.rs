//! Shares the overdue operations of one load among the workers of a process.
//!
//! A worker's idle lanes take its operations before they are due, and touch nothing that another worker uses. An operation enters
//! the backlog if all lanes of its worker are busy at its due time. The next free lane of any worker sends the oldest first, and
//! an idle lane is called for it. So the wait of an operation depends on the number of lanes, and not on the number of workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::Slot;

/// The overdue operations of one load.
///
/// No call is lost: a lane first registers and then reads the length, and a push first changes the length and then looks for
/// registered lanes. Both sides need the one order of all sequentially consistent accesses.
#[derive(Debug)]
pub struct Backlog {
    /// The overdue operations, by due time.
    slots: Mutex<VecDeque<Slot>>,
    /// The number of slots, which lanes read without the lock.
    len: AtomicUsize,
    /// The idle lanes of each worker.
    idle: Vec<IdleLanes>,
    /// The number of workers that can prepare operations.
    serving: AtomicUsize,
    /// The number of workers whose operations may still become overdue.
    scheduling: AtomicUsize,
    is_shared: bool,
}

/// The idle lanes of one worker, on cache lines that other workers read only for an overdue operation.
#[derive(Debug)]
#[repr(align(128))]
struct IdleLanes {
    count: AtomicUsize,
    /// The lanes in the order in which they became idle; `None` if the worker cannot prepare operations.
    lanes: Mutex<Option<VecDeque<IdleLane>>>,
}

#[derive(Debug)]
struct IdleLane {
    call: Call,
    waker: Waker,
}

/// Signals to one lane that it was called.
#[derive(Clone, Debug, Default)]
pub struct Call(Arc<AtomicBool>);

impl Call {
    /// Whether the lane was called since it registered.
    pub fn is_made(&self) -> bool {
        self.0.load(SeqCst)
    }

    /// As [`Self::is_made`], and answers the call.
    pub fn answer(&self) -> bool {
        self.is_made() && self.0.swap(false, SeqCst)
    }
}

impl Backlog {
    /// The backlog of workers with this many lanes for the load.
    pub fn of(lanes: impl Iterator<Item = usize>) -> Self {
        let idle: Vec<_> = lanes.map(IdleLanes::of).collect();
        let serving = idle.iter().filter(|worker| worker.lanes().is_some()).count();
        Self {
            slots: Mutex::default(),
            len: AtomicUsize::new(0),
            idle,
            serving: AtomicUsize::new(serving),
            scheduling: AtomicUsize::new(serving),
            is_shared: serving > 1,
        }
    }

    /// Whether no operation is overdue.
    pub fn is_empty(&self) -> bool {
        self.len.load(SeqCst) == 0
    }

    /// Adds an operation of a worker, and calls an idle lane.
    pub fn push(&self, worker: usize, slot: Slot) {
        let mut slots = self.slots();
        let after = slots.iter().rposition(|other| other.due <= slot.due);
        slots.insert(after.map_or(0, |at| at + 1), slot);
        self.len.store(slots.len(), SeqCst);
        drop(slots);
        self.call(worker);
    }

    /// Takes the operation that has waited longest.
    pub fn take(&self) -> Option<Slot> {
        if self.is_empty() {
            return None;
        }
        let mut slots = self.slots();
        let slot = slots.pop_front();
        self.len.store(slots.len(), SeqCst);
        slot
    }

    /// Registers an idle lane of a worker; false if no lane of the worker can help, or if it is the only
    /// worker.
    pub fn register(&self, worker: usize, call: &Call, waker: &Waker) -> bool {
        let idle = &self.idle[worker];
        let mut lanes = idle.lanes();
        let Some(lanes) = lanes.as_mut().filter(|_| self.is_shared) else { return false };
        lanes.push_back(IdleLane { call: call.clone(), waker: waker.clone() });
        idle.count.store(lanes.len(), SeqCst);
        true
    }

    /// Removes a registered lane. If it was called and leaves an overdue operation, it calls another lane.
    pub fn deregister(&self, worker: usize, call: &Call) {
        let idle = &self.idle[worker];
        let mut lanes = idle.lanes();
        let was_called = call.answer();
        if let Some(lanes) = lanes.as_mut().filter(|_| !was_called) {
            // A lane that became idle earlier has an earlier operation, so it is near the front.
            let at = lanes.iter().position(|lane| Arc::ptr_eq(&lane.call.0, &call.0));
            at.into_iter().for_each(|at| drop(lanes.remove(at)));
            idle.count.store(lanes.len(), SeqCst);
        }
        drop(lanes);
        if was_called {
            self.pass_on(worker);
        }
    }

    /// Calls another lane for an operation that a called lane cannot take.
    pub fn pass_on(&self, worker: usize) {
        if !self.is_empty() {
            self.call(worker);
        }
    }

    /// Calls one idle lane, of `worker` first: the one whose own operation is due last.
    fn call(&self, worker: usize) {
        let (before, from) = self.idle.split_at(worker);
        from.iter().chain(before).find_map(IdleLanes::call);
    }

    /// Records that a worker can prepare no further operation. If no worker can, no operation stays overdue.
    pub fn retire(&self, worker: usize) {
        let idle = &self.idle[worker];
        let retired = idle.lanes().take();
        idle.count.store(0, SeqCst);
        if retired.is_some() && self.serving.fetch_sub(1, SeqCst) == 1 {
            self.slots().clear();
            self.len.store(0, SeqCst);
        }
    }

    /// Records that no further operation of one worker becomes overdue. After the last one, all idle lanes are woken.
    pub fn end_schedule(&self) {
        if self.scheduling.fetch_sub(1, SeqCst) == 1 {
            self.idle.iter().for_each(IdleLanes::call_all);
        }
    }

    /// Whether a further operation may become overdue.
    pub fn is_scheduling(&self) -> bool {
        self.scheduling.load(SeqCst) > 0
    }

    fn slots(&self) -> MutexGuard<'_, VecDeque<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleLanes {
    fn of(lanes: usize) -> Self {
        let registry = (lanes > 0).then(VecDeque::new);
        Self { count: AtomicUsize::new(0), lanes: Mutex::new(registry) }
    }

    fn lanes(&self) -> MutexGuard<'_, Option<VecDeque<IdleLane>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls every lane that is idle now. A called lane may register again at once.
    fn call_all(&self) {
        let mut lanes = self.lanes();
        let idle = lanes.as_mut().map(std::mem::take).unwrap_or_default();
        self.count.store(0, SeqCst);
        drop(lanes);
        for IdleLane { call, waker } in idle {
            call.0.store(true, SeqCst);
            waker.wake();
        }
    }

    /// Calls the lane that became idle last, if there is one.
    fn call(&self) -> Option<()> {
        if self.count.load(SeqCst) == 0 {
            return None;
        }
        let mut lanes = self.lanes();
        let registered = lanes.as_mut()?;
        let IdleLane { call, waker } = registered.pop_back()?;
        self.count.store(registered.len(), SeqCst);
        call.0.store(true, SeqCst);
        drop(lanes);
        waker.wake();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::Instant;

    use super::*;

    fn slot(due_ns: u64) -> Slot {
        let due = Some(Instant::from_ns(due_ns));
        Slot { number: due_ns, operation: 0, tally: 0, due, awake: due }
    }

    fn idle(backlog: &Backlog, worker: usize) -> Call {
        let call = Call::default();
        assert!(backlog.register(worker, &call, Waker::noop()));
        call
    }

    #[test]
    fn the_oldest_operation_is_taken_first_whichever_worker_notes_it() {
        let backlog = Backlog::of([1, 1].into_iter());
        [5, 9, 7, 6, 6].into_iter().for_each(|due_ns| backlog.push(1, slot(due_ns)));
        let taken: Vec<_> = std::iter::from_fn(|| backlog.take()).map(|slot| slot.number).collect();
        assert_eq!((taken, backlog.is_empty()), (vec![5, 6, 6, 7, 9], true));
    }

    #[test]
    fn a_push_calls_one_idle_lane_and_the_next_push_calls_another() {
        let backlog = Backlog::of([2, 1].into_iter());
        let lanes = [0, 0, 1].map(|worker| idle(&backlog, worker));
        let called = || lanes.each_ref().map(Call::is_made);
        backlog.push(1, slot(1));
        assert_eq!(called(), [false, false, true]);
        backlog.push(1, slot(2));
        assert_eq!(called(), [false, true, true]);
        backlog.push(1, slot(3));
        backlog.push(1, slot(4));
        assert_eq!(called(), [true; 3]);
    }

    #[test]
    fn a_called_lane_that_leaves_without_the_operation_calls_another() {
        let backlog = Backlog::of([1, 1].into_iter());
        let lanes = [0, 1].map(|worker| idle(&backlog, worker));
        backlog.push(0, slot(1));
        backlog.deregister(0, &lanes[0]);
        assert!(lanes[1].is_made());
        backlog.take();
        backlog.deregister(1, &lanes[1]);
        assert!(!lanes[0].is_made() && !lanes[1].is_made());
    }

    #[test]
    fn a_worker_without_documents_is_not_called_and_the_last_one_ends_the_backlog() {
        let backlog = Backlog::of([1, 1, 0].into_iter());
        let lanes = [0, 1].map(|worker| idle(&backlog, worker));
        backlog.retire(0);
        backlog.retire(0);
        backlog.retire(2);
        backlog.push(0, slot(1));
        assert_eq!((lanes[0].is_made(), lanes[1].is_made()), (false, true));
        assert!(!backlog.register(0, &lanes[0], Waker::noop()));
        backlog.retire(1);
        assert!(backlog.is_empty() && backlog.take().is_none());
    }

    #[test]
    fn the_end_of_the_last_schedule_wakes_all_idle_lanes_and_a_single_worker_has_none() {
        let backlog = Backlog::of([1, 1].into_iter());
        let lanes = [0, 1].map(|worker| idle(&backlog, worker));
        backlog.end_schedule();
        assert!(backlog.is_scheduling() && !lanes[0].is_made());
        backlog.end_schedule();
        assert!(!backlog.is_scheduling() && lanes[0].is_made() && lanes[1].is_made());
        let alone = Backlog::of([3, 0].into_iter());
        assert!(!alone.register(0, &Call::default(), Waker::noop()));
    }
}
