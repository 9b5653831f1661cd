//! Sends each batch to its worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use plimsoll_measure::clock::{self, Instant, SECOND_NS};

use super::parts::Factories;
use super::shared::{Error, Shared, WORKERS_MAX};
use super::worker::Worker;
use crate::event::Batch;
use crate::flow::Assignment;
use crate::meter::{Count, Part};
use crate::port::sink::SinkError;
use crate::position::Partition;

/// Waiting batches per queue at most.
const QUEUE_MAX: usize = 16_384;
/// The wait for a full queue between checks for an abort.
const LOOK: Duration = Duration::from_millis(50);
/// The time limit for a worker to end before the next worker of its partition starts, in nanoseconds. The
/// source is not read meanwhile, so a longer wait could end its group membership.
const ENDING_NS_MAX: u64 = 30 * SECOND_NS;
/// The interval of checks for the worker's end.
const ENDING_LOOK: Duration = Duration::from_millis(5);

/// The time limit for reaching the sink of a new partition's worker once the pipeline has written events, in
/// nanoseconds. The source is not read meanwhile and must keep its membership in its group.
const AWAY_NS_MAX: u64 = 120 * SECOND_NS;
/// The pause between two attempts to reach the sink.
const AWAY_PAUSE: Duration = Duration::from_millis(100);

/// A queue of batches.
pub(super) fn queue() -> (Sender<Box<Batch>>, Receiver<Box<Batch>>) {
    bounded(QUEUE_MAX)
}

/// The route of batches to workers.
#[derive(Clone)]
pub(super) enum Route {
    /// All batches go to one queue shared by all workers.
    Any(Sender<Box<Batch>>),
    /// Each assignment goes to one of a fixed number of workers.
    Pinned(Vec<Sender<Box<Batch>>>),
    /// Each assignment goes to its own worker, started for it.
    Own,
}

/// The worker of one assignment.
struct Own<'scope> {
    assignment: Arc<Assignment>,
    queue: Sender<Box<Batch>>,
    thread: ScopedJoinHandle<'scope, ()>,
}

/// Hands batches to workers; each source has its own.
pub(super) struct Dispatch<'scope, 'env> {
    route: Route,
    /// The workers by the number of their assignment.
    own: BTreeMap<usize, Own<'scope>>,
    /// Workers whose assignments have ended, with their worker numbers. They finish their batches.
    ending: Vec<(usize, ScopedJoinHandle<'scope, ()>)>,
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared,
    factories: &'env Factories,
}

impl<'scope, 'env> Dispatch<'scope, 'env> {
    pub(super) fn new(
        route: Route,
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared,
        factories: &'env Factories,
    ) -> Self {
        Self { route, own: BTreeMap::new(), ending: Vec::new(), scope, shared, factories }
    }

    /// Sends a batch to its worker. Drops it, unsettled, if the pipeline is aborted meanwhile.
    pub(super) fn send(&mut self, batch: Box<Batch>) {
        let (shared, Some(assignment)) = (self.shared, batch.assignment()) else { return };
        let queue = match &self.route {
            Route::Any(queue) => queue,
            Route::Pinned(queues) => &queues[assignment.number() % queues.len()],
            Route::Own => match self.own_queue(&Arc::clone(assignment)) {
                Ok(queue) => queue,
                Err(error) => return shared.fail(error),
            },
        };
        let mut batch = batch;
        while let Err(SendTimeoutError::Timeout(back)) = queue.send_timeout(batch, LOOK) {
            if shared.control.is_aborted() {
                return;
            }
            batch = back;
        }
    }

    fn own_queue(&mut self, assignment: &Arc<Assignment>) -> Result<&Sender<Box<Batch>>, Error> {
        if !self.own.contains_key(&assignment.number()) {
            self.start_own(assignment)?;
        }
        Ok(&self.own[&assignment.number()].queue)
    }

    /// Starts a worker for an assignment.
    fn start_own(&mut self, assignment: &Arc<Assignment>) -> Result<(), Error> {
        self.retire_closed();
        if self.own.len() >= WORKERS_MAX {
            let reason = format!(
                "was refused: more than {WORKERS_MAX} partitions; use an executor with a pool of threads"
            );
            return Err(Error::Thread(reason));
        }
        let number = number_of(assignment.partition());
        self.wait_for_end_of(number);
        let (queue, receiver) = queue();
        let thread = self.build_own(number, &receiver)?.start(self.scope)?;
        self.own.insert(assignment.number(), Own { assignment: Arc::clone(assignment), queue, thread });
        Ok(())
    }

    /// Builds a worker. If the sink is unavailable and the pipeline has already written events, it tries
    /// again until the time limit.
    fn build_own(&self, number: usize, queue: &Receiver<Box<Batch>>) -> Result<Worker<'env>, Error> {
        let began = clock::now();
        loop {
            let reason = match Worker::build(number, queue.clone(), self.shared, self.factories) {
                Err(Error::Sink(SinkError::Unreachable(reason))) if self.waits(began) => reason,
                built => return built,
            };
            self.shared.meter.set_trouble(Part::Sink, Some(&reason));
            self.shared.control.pause(AWAY_PAUSE);
        }
    }

    fn waits(&self, began: Instant) -> bool {
        let has_written = self.shared.meter.counts().get(Count::Written) > 0;
        has_written && !self.shared.control.is_aborted() && clock::now().since(began) < AWAY_NS_MAX
    }

    /// Drops the queues of ended assignments: their workers finish their batches and end.
    fn retire_closed(&mut self) {
        self.ending.retain(|(_, thread)| !thread.is_finished());
        let closed: Vec<_> =
            self.own.iter().filter(|(_, own)| own.assignment.is_closed()).map(|(at, _)| *at).collect();
        for at in closed {
            let Some(own) = self.own.remove(&at) else { continue };
            self.ending.push((number_of(own.assignment.partition()), own.thread));
        }
    }

    /// Two workers of one number would abort each other's transactions, so the earlier one must end first.
    fn wait_for_end_of(&self, number: usize) {
        let began = clock::now();
        let is_running = || self.ending.iter().any(|(its, thread)| *its == number && !thread.is_finished());
        while is_running() && !self.shared.control.is_aborted() && clock::now().since(began) < ENDING_NS_MAX {
            self.shared.control.pause(ENDING_LOOK);
        }
    }
}

/// The worker number of a partition. It is the same for every assignment and in every run, so that names derived from it (a
/// transaction's) belong to this partition only. The topic is part of it as a checksum.
fn number_of(partition: &Partition) -> usize {
    let topic = u64::from(crc32c::crc32c(partition.topic.as_bytes()));
    ((topic << 32) | u64::from(partition.index)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_worker_number_of_a_partition_is_stable_and_unique() {
        let number = |topic: &str, index| number_of(&Partition::new(topic, index));
        assert_eq!(number("orders", 3), 0x09a7_c08a_0000_0003);
        let topics = ["orders", "payments", ""];
        let all: BTreeSet<_> =
            topics.into_iter().flat_map(|topic| (0..4).map(move |index| number(topic, index))).collect();
        assert_eq!(all.len(), topics.len() * 4);
    }
}
