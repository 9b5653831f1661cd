//! Which worker gets which batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};

use super::run::Makers;
use super::shared::{Error, Shared, WORKERS_MAX};
use super::worker::Worker;
use crate::event::Batch;
use crate::flow::Lane;

/// Batches that wait for a worker, at most, for each queue.
const QUEUE_MAX: usize = 16_384;
/// How long to wait for a full queue before looking whether the pipeline ended.
const LOOK: Duration = Duration::from_millis(50);

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

/// Hands batches to workers; each source has its own.
pub(super) struct Dispatch<'scope, 'env> {
    route: Route,
    own: BTreeMap<usize, (Arc<Lane>, Sender<Box<Batch>>)>,
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
        Self { route, own: BTreeMap::new(), scope, shared, makers }
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
        Ok(&self.own[&lane.number()].1)
    }

    /// Starts a worker for a lane.
    fn start_own(&mut self, lane: &Arc<Lane>) -> Result<(), Error> {
        // A worker whose queue is let go writes what it has and ends.
        self.own.retain(|_, (lane, _)| !lane.is_closed());
        if self.own.len() >= WORKERS_MAX {
            let reason = format!(
                "was refused: more than {WORKERS_MAX} partitions; use an executor with a pool of threads"
            );
            return Err(Error::Thread(reason));
        }
        let (sender, receiver) = queue();
        let worker = Worker::build(lane.number(), receiver, self.shared, self.makers)?;
        worker.start(self.scope)?;
        self.own.insert(lane.number(), (Arc::clone(lane), sender));
        Ok(())
    }
}
