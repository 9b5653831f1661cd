//! Commits transactions on a thread, so that the next one can be written meanwhile.
//!
//! A commit waits 10 to 20 ms for brokers, in two steps: the offsets, which need not wait for the records, and the commit itself.
//! A producer gets no other request until the outcome of a step is known.

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
pub(super) enum Ask {
    /// The group's offsets become part of it.
    Offsets { producer: Arc<Producer>, offsets: TopicPartitionList, generation: Arc<ConsumerGroupMetadata> },
    /// It is committed; every record must have been reported.
    Commit { producer: Arc<Producer> },
}

/// Makes one step at a time. Dropping it waits for the current step.
pub(super) struct CommitThread {
    asks: Option<Sender<Ask>>,
    outcomes: Receiver<Step>,
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CommitThread {
    pub(super) fn start() -> io::Result<Self> {
        let (asks, asked) = mpsc::channel::<Ask>();
        let (told, outcomes) = mpsc::channel();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_dropped);
        let thread = thread::Builder::new().name("commits".to_owned()).spawn(move || {
            for ask in asked {
                if told.send(ask.answered(&over)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { asks: Some(asks), outcomes, is_dropped, thread: Some(thread) })
    }

    /// Requests a step.
    pub(super) fn ask(&self, step: Ask) {
        // If the thread is gone, `outcome` reports it.
        if let Some(asks) = &self.asks {
            let _ = asks.send(step);
        }
    }

    /// The outcome of the requested step, once it is known; never `Again`.
    pub(super) fn outcome(&self) -> Option<Step> {
        match self.outcomes.try_recv() {
            Ok(step) => Some(step),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Step::Over("the thread that commits is gone".to_owned())),
        }
    }
}

impl Drop for CommitThread {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is reported by `outcome`.
            let _ = thread.join();
        }
    }
}

impl Ask {
    fn make(&self) -> Step {
        match self {
            Self::Offsets { producer, offsets, generation } => {
                step::send_offsets(producer, offsets, generation)
            }
            Self::Commit { producer } => step::commit(producer),
        }
    }

    /// Retries it until a broker answers or the owner is dropped.
    fn answered(&self, over: &AtomicBool) -> Step {
        loop {
            match self.make() {
                Step::Again if !over.load(Ordering::Relaxed) => thread::sleep(PAUSE),
                step => return step,
            }
        }
    }
}
