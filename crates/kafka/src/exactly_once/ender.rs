//! The thread that commits transactions, so that the next one is written meanwhile.
//!
//! A commit takes 10 to 20 ms of waiting for brokers. It is asked for when every record was reported, and nothing else is
//! asked of its producer until it is known how it went.

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

/// A transaction whose records were all reported.
pub(super) struct Commit {
    pub(super) producer: Arc<Producer>,
    pub(super) offsets: TopicPartitionList,
    pub(super) generation: Arc<ConsumerGroupMetadata>,
}

/// Commits one transaction at a time. Dropping it waits for the step that it is at.
pub(super) struct Ender {
    commits: Option<Sender<Commit>>,
    outcomes: Receiver<Step>,
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ender {
    pub(super) fn start() -> io::Result<Self> {
        let (commits, asked) = mpsc::channel::<Commit>();
        let (told, outcomes) = mpsc::channel();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_dropped);
        let thread = thread::Builder::new().name("commits".to_owned()).spawn(move || {
            for commit in asked {
                if told.send(commit.make(&over)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { commits: Some(commits), outcomes, is_dropped, thread: Some(thread) })
    }

    /// Asks for a commit.
    pub(super) fn ask(&self, commit: Commit) {
        // Without its thread there is no outcome, which says so.
        if let Some(commits) = &self.commits {
            let _ = commits.send(commit);
        }
    }

    /// How the commit went that was asked for, once that is known: never that nobody answered yet.
    pub(super) fn outcome(&self) -> Option<Step> {
        match self.outcomes.try_recv() {
            Ok(step) => Some(step),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Step::Over("the thread that commits is gone".to_owned())),
        }
    }
}

impl Drop for Ender {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.commits = None;
        if let Some(thread) = self.thread.take() {
            // It has no words for anyone: what it knew it told.
            let _ = thread.join();
        }
    }
}

impl Commit {
    fn make(&self, over: &AtomicBool) -> Step {
        let answered = |step: &dyn Fn() -> Step| loop {
            match step() {
                Step::Again if !over.load(Ordering::Relaxed) => thread::sleep(PAUSE),
                step => return step,
            }
        };
        match answered(&|| step::send_offsets(&self.producer, &self.offsets, &self.generation)) {
            Step::Done => answered(&|| step::commit(&self.producer)),
            step => step,
        }
    }
}
