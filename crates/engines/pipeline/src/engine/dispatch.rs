//! Which worker gets which batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use plimsoll_measure::clock::{self, Instant, SECOND_NS};

use super::run::Makers;
use super::shared::{Error, Shared, WORKERS_MAX};
use super::worker::Worker;
use crate::event::Batch;
use crate::flow::Lane;
use crate::meter::{Count, Part};
use crate::place::Partition;
use crate::port::sink::SinkError;

/// Batches that wait for a worker, at most, for each queue.
const QUEUE_MAX: usize = 16_384;
/// How long to wait for a full queue before looking whether the pipeline ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a worker may take to end before the next one of its partition begins, in nanoseconds: its sink bounds its waiting,
/// and the source must keep its place in its group.
const ENDING_NS_MAX: u64 = 30 * SECOND_NS;
/// How often its end is looked for.
const ENDING_LOOK: Duration = Duration::from_millis(5);

/// How long the sink of a partition that comes to a running pipeline may be away, in nanoseconds: the source must keep its place in
/// its group.
const AWAY_NS_MAX: u64 = 120 * SECOND_NS;
/// How long it is left alone between two tries, each of which takes its own time.
const AWAY_PAUSE: Duration = Duration::from_millis(100);

/// A queue of batches.
pub(super) fn queue() -> (Sender<Box<Batch>>, Receiver<Box<Batch>>) {
    bounded(QUEUE_MAX)
}

/// Where the batches of a source go.
#[derive(Clone)]
pub(super) enum Route {
    /// All to one queue that every worker takes from.
    Any(Sender<Box<Batch>>),
    /// Each lane to one of some workers.
    Pinned(Vec<Sender<Box<Batch>>>),
    /// Each lane to a worker of its own, which is started for it.
    Own,
}

/// The worker of one lane.
struct Own<'scope> {
    lane: Arc<Lane>,
    queue: Sender<Box<Batch>>,
    thread: ScopedJoinHandle<'scope, ()>,
}

/// Hands batches to workers; each source has its own.
pub(super) struct Dispatch<'scope, 'env> {
    route: Route,
    /// By the number of the lane.
    own: BTreeMap<usize, Own<'scope>>,
    /// Workers whose lanes have ended, by their numbers: they write what they have.
    ending: Vec<(usize, ScopedJoinHandle<'scope, ()>)>,
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared,
    makers: &'env Makers,
}

impl<'scope, 'env> Dispatch<'scope, 'env> {
    pub(super) fn new(
        route: Route,
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared,
        makers: &'env Makers,
    ) -> Self {
        Self { route, own: BTreeMap::new(), ending: Vec::new(), scope, shared, makers }
    }

    /// Sends a batch to its worker; it is let go, unsettled, if the pipeline ended meanwhile.
    pub(super) fn send(&mut self, batch: Box<Batch>) {
        let (shared, Some(lane)) = (self.shared, batch.lane()) else { return };
        let queue = match &self.route {
            Route::Any(queue) => queue,
            Route::Pinned(queues) => &queues[lane.number() % queues.len()],
            Route::Own => match self.own_queue(&Arc::clone(lane)) {
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

    fn own_queue(&mut self, lane: &Arc<Lane>) -> Result<&Sender<Box<Batch>>, Error> {
        if !self.own.contains_key(&lane.number()) {
            self.start_own(lane)?;
        }
        Ok(&self.own[&lane.number()].queue)
    }

    /// Starts a worker for a lane.
    fn start_own(&mut self, lane: &Arc<Lane>) -> Result<(), Error> {
        self.let_go_of_closed();
        if self.own.len() >= WORKERS_MAX {
            let reason = format!(
                "was refused: more than {WORKERS_MAX} partitions; use an executor with a pool of threads"
            );
            return Err(Error::Thread(reason));
        }
        let number = number_of(lane.partition());
        self.wait_for_end_of(number);
        let (queue, receiver) = queue();
        let thread = self.build_own(number, &receiver)?.start(self.scope)?;
        self.own.insert(lane.number(), Own { lane: Arc::clone(lane), queue, thread });
        Ok(())
    }

    /// A sink that is away is waited for in a pipeline that has written, as one is that fails on the way.
    fn build_own(&self, number: usize, queue: &Receiver<Box<Batch>>) -> Result<Worker<'env>, Error> {
        let began = clock::now();
        loop {
            let reason = match Worker::build(number, queue.clone(), self.shared, self.makers) {
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

    /// A worker whose queue is let go writes what it has and ends.
    fn let_go_of_closed(&mut self) {
        self.ending.retain(|(_, thread)| !thread.is_finished());
        let closed: Vec<_> =
            self.own.iter().filter(|(_, own)| own.lane.is_closed()).map(|(at, _)| *at).collect();
        for at in closed {
            let Some(own) = self.own.remove(&at) else { continue };
            self.ending.push((number_of(own.lane.partition()), own.thread));
        }
    }

    /// Two workers of one number would take each other's transactions: the one of an earlier assignment ends first.
    fn wait_for_end_of(&self, number: usize) {
        let began = clock::now();
        let is_there = || self.ending.iter().any(|(its, thread)| *its == number && !thread.is_finished());
        while is_there() && !self.shared.control.is_aborted() && clock::now().since(began) < ENDING_NS_MAX {
            self.shared.control.pause(ENDING_LOOK);
        }
    }
}

/// The number of the worker that a partition has to itself: the same for every assignment and in every run, so that what a sink
/// names by it (a transaction) falls to the next worker of this partition and to no other. Topics differ in their checksum.
fn number_of(partition: &Partition) -> usize {
    let topic = u64::from(crc32c::crc32c(partition.topic.as_bytes()));
    ((topic << 32) | u64::from(partition.index)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_partition_has_one_number_in_every_run_and_no_other_has_it() {
        let number = |topic: &str, index| number_of(&Partition::new(topic, index));
        assert_eq!(number("orders", 3), 0x09a7_c08a_0000_0003);
        let topics = ["orders", "payments", ""];
        let all: BTreeSet<_> =
            topics.into_iter().flat_map(|topic| (0..4).map(move |index| number(topic, index))).collect();
        assert_eq!(all.len(), topics.len() * 4);
    }
}
