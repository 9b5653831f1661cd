//! Commits transactions on a thread, so that the next one can be written meanwhile.
//!
//! A commit waits 10 to 20 ms for brokers, in two steps: the offsets, which need not wait for the records,
//! and the commit itself. A producer gets no other request until the outcome of a step is known.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::ConsumerGroupMetadata;

use super::step::{self, Step};
use crate::sink::Producer;

/// The pause before the retry of an unanswered step.
const PAUSE: Duration = Duration::from_millis(10);

/// A step of a commit.
pub(super) enum Request {
    /// Adds the group's offsets to the transaction.
    Offsets { producer: Arc<Producer>, offsets: TopicPartitionList, generation: Arc<ConsumerGroupMetadata> },
    /// Commits the transaction; every record must have been reported.
    Commit { producer: Arc<Producer> },
}

/// Runs one step at a time. Dropping it waits for the current step.
pub(super) struct CommitThread {
    requests: Option<Sender<Request>>,
    outcomes: Receiver<Step>,
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CommitThread {
    pub(super) fn start() -> io::Result<Self> {
        let (requests, asked) = mpsc::channel::<Request>();
        let (answers, outcomes) = mpsc::channel();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_dropped);
        let thread = thread::Builder::new().name("commits".to_owned()).spawn(move || {
            for request in asked {
                if answers.send(request.answered(&over)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests: Some(requests), outcomes, is_dropped, thread: Some(thread) })
    }

    /// Requests a step.
    pub(super) fn request(&self, step: Request) {
        // If the thread is gone, `outcome` reports it.
        if let Some(requests) = &self.requests {
            let _ = requests.send(step);
        }
    }

    /// The outcome of the requested step, once it is known; never `Again`.
    pub(super) fn outcome(&self) -> Option<Step> {
        match self.outcomes.try_recv() {
            Ok(step) => Some(step),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Step::Over("the commit thread has ended".to_owned())),
        }
    }
}

impl Drop for CommitThread {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is reported by `outcome`.
            let _ = thread.join();
        }
    }
}

impl Request {
    fn make(&self) -> Step {
        match self {
            Self::Offsets { producer, offsets, generation } => {
                step::send_offsets(producer, offsets, generation)
            }
            Self::Commit { producer } => step::commit(producer),
        }
    }

    /// Retries a step until a broker answers or the owner is dropped.
    fn answered(&self, over: &AtomicBool) -> Step {
        loop {
            match self.make() {
                Step::Again if !over.load(Ordering::Relaxed) => thread::sleep(PAUSE),
                step => return step,
            }
        }
    }
}
