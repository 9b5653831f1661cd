//! What the threads of a pipeline share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use super::circuit::Circuit;
use super::control::Control;
use super::retry::Retry;
use super::spares::Spares;
use super::window::{DeadLetterLimit, Window};
use crate::event::CauseClass;
use crate::flow::{Budget, Limits};
use crate::guarantee::{Guarantee, Refusal};
use crate::meter::Meter;
use crate::place::Partition;
use crate::port::positions::PositionError;
use crate::port::sink::{Promise, SinkError};
use crate::port::source::SourceError;
use crate::port::transform::TransformError;

/// Workers of a pipeline at most.
pub const WORKERS_MAX: usize = 512;

/// Which threads transform and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// So many threads. A sink that needs an order gets each partition from one of them.
    Pool(usize),
    /// A thread for each partition that is open.
    PerPartition,
}

/// How a pipeline runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What it promises.
    pub guarantee: Guarantee,
    /// How much may be in flight.
    pub limits: Limits,
    /// Its threads.
    pub executor: Executor,
    /// How failures are tried again.
    pub retry: Retry,
    /// How often positions are committed.
    pub commit_every: Duration,
    /// When there are too many dead letters; `None`: never.
    pub dead_letter_limit: Option<DeadLetterLimit>,
    /// The seed of the spread of pauses.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            guarantee: Guarantee::AtLeastOnce,
            limits: Limits::default(),
            executor: Executor::Pool(2),
            retry: Retry::default(),
            commit_every: Duration::from_secs(1),
            dead_letter_limit: None,
            seed: 1,
        }
    }
}

/// Why a pipeline cannot be built or cannot go on.
#[derive(Debug, Error)]
pub enum Error {
    /// Its settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// It cannot give its guarantee.
    #[error(transparent)]
    Guarantee(#[from] Refusal),
    /// The source cannot go on.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A transform cannot go on.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// A sink cannot be built.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// Positions cannot be kept.
    #[error(transparent)]
    Positions(#[from] PositionError),
    /// The sink failed for good.
    #[error("the sink failed for good: {0}")]
    Final(String),
    /// A batch may not be tried again.
    #[error("events {first} to {last} of {partition} could not be written in {attempts} attempts: {reason}")]
    Exhausted {
        /// Their partition.
        partition: Partition,
        /// The offset of the first.
        first: u64,
        /// The offset of the last.
        last: u64,
        /// How often the sink was tried.
        attempts: u32,
        /// What it said last.
        reason: String,
    },
    /// An event cannot go on, and there are no dead letters.
    #[error(
        "event {offset} of {partition} is {word} at {stage}: {message}; there is no `dead_letters:` to put it, and it is not \
         dropped", word = class.word()
    )]
    NoDeadLetters {
        /// Its partition.
        partition: Partition,
        /// Its offset.
        offset: u64,
        /// The stage that condemned it.
        stage: String,
        /// Why.
        class: CauseClass,
        /// What exactly.
        message: String,
    },
    /// Dead letters cannot be written.
    #[error("dead letters cannot be written, so the pipeline stops: {0}")]
    DeadLetters(String),
    /// Too many events became dead letters.
    #[error("more than {most} of the last {of} events became dead letters: mend their cause, then go on", most = .0.most, of = .0.of)]
    TooManyDeadLetters(DeadLetterLimit),
    /// A thread could not be started or ended in a panic.
    #[error("a thread of the pipeline {0}")]
    Thread(String),
}

/// What the threads of a pipeline share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) promise: Promise,
    pub(super) budget: Arc<Budget>,
    pub(super) meter: Arc<Meter>,
    pub(super) control: Arc<Control>,
    pub(super) circuit: Mutex<Circuit>,
    pub(super) window: Mutex<Window>,
    pub(super) spares: Spares,
    failure: Mutex<Option<Error>>,
}

impl Shared {
    pub(super) fn new(
        settings: Settings,
        promise: Promise,
        meter: Arc<Meter>,
        control: Arc<Control>,
    ) -> Self {
        Self {
            budget: Arc::new(Budget::new(settings.limits)),
            circuit: Mutex::new(Circuit::new(settings.retry)),
            window: Mutex::new(Window::new(settings.dead_letter_limit)),
            spares: Spares::new(settings.limits.bytes_max),
            failure: Mutex::new(None),
            settings,
            promise,
            meter,
            control,
        }
    }

    /// Ends the pipeline with an error; the first one counts. To be ended at once cuts calls short: what they say after that is
    /// no failure.
    pub(super) fn fail(&self, error: Error) {
        if !self.control.is_aborted() {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.control.abort();
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Does the work of a thread. If it panics, the pipeline ends with that: the others would wait for it forever.
pub(super) fn watched(shared: &Shared, work: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return };
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let words = words.unwrap_or("no reason was given");
    shared.fail(Error::Thread(format!("panicked ({words}), which is a defect of this program")));
}
