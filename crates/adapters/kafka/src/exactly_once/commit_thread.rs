//! The thread that ends transactions, so that the next one is written meanwhile.
//!
//! An end is 10 to 20 ms of waiting for brokers, in two steps: the offsets, which need not wait for the records, and the
//! commit. Nothing else is asked of a producer until it is known how a step went.

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

/// Between two tries of a step that nobody answered.
const PAUSE: Duration = Duration::from_millis(10);

/// A step of the end of a transaction.
pub(super) enum Ask {
    /// The group's offsets become part of it.
    Offsets { producer: Arc<Producer>, offsets: TopicPartitionList, generation: Arc<ConsumerGroupMetadata> },
    /// It is committed; every record must have been reported.
    Commit { producer: Arc<Producer> },
}

/// Makes one step at a time. Dropping it waits for the one that it is at.
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

    /// Asks for a step.
    pub(super) fn ask(&self, step: Ask) {
        // Without its thread there is no outcome, which says so.
        if let Some(asks) = &self.asks {
            let _ = asks.send(step);
        }
    }

    /// How the step went that was asked for, once that is known: never that nobody answered yet.
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
            // It has no words for anyone: what it knew it told.
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

    /// Makes it until somebody answers, or nobody wants to know any more.
    fn answered(&self, over: &AtomicBool) -> Step {
        loop {
            match self.make() {
                Step::Again if !over.load(Ordering::Relaxed) => thread::sleep(PAUSE),
                step => return step,
            }
        }
    }
}
