//! Holds the state that the threads of a pipeline share, its settings and its errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use super::batch_pool::BatchPool;
use super::circuit::Circuit;
use super::control::Control;
use super::dead_letter_window::{DeadLetterLimit, DeadLetterWindow};
use super::retry::Retry;
use crate::event::CauseClass;
use crate::flow::{Budget, Limits};
use crate::guarantee::{Guarantee, Refusal};
use crate::meter::Meter;
use crate::port::sink::{Promise, SinkError};
use crate::port::source::SourceError;
use crate::port::transform::TransformError;
use crate::position::Partition;
use crate::position::PositionError;

/// Workers of a pipeline at most.
pub const WORKERS_MAX: usize = 512;

/// The threads that transform and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// A number of threads. With an ordered sink each partition belongs to one of them.
    Pool(usize),
    /// One thread for each open partition.
    PerPartition,
}

/// The settings of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The delivery guarantee.
    pub guarantee: Guarantee,
    /// The limits of the events in flight.
    pub limits: Limits,
    /// The threads.
    pub executor: Executor,
    /// The retry policy.
    pub retry: Retry,
    /// The interval of commits.
    pub commit_every: Duration,
    /// The limit of dead letters; `None`: unlimited.
    pub dead_letter_limit: Option<DeadLetterLimit>,
    /// The seed of the jitter of pauses.
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

/// The failure of a pipeline's construction or run.
#[derive(Debug, Error)]
pub enum Error {
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The parts cannot give the guarantee.
    #[error(transparent)]
    Guarantee(#[from] Refusal),
    /// The source cannot continue.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A transform cannot continue.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// A sink cannot be built.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The position store failed.
    #[error(transparent)]
    Positions(#[from] PositionError),
    /// The sink failed permanently.
    #[error("the sink failed permanently: {0}")]
    Final(String),
    /// The retries of a batch are exhausted.
    #[error("events {first} to {last} of {partition} could not be written in {attempts} attempts: {reason}")]
    Exhausted {
        /// The partition of the events.
        partition: Partition,
        /// The offset of the first event.
        first: u64,
        /// The offset of the last event.
        last: u64,
        /// The number of attempts to write them.
        attempts: u32,
        /// The sink's last reason.
        reason: String,
    },
    /// An event was rejected, and there is no sink of dead letters.
    #[error(
        "event {offset} of {partition} is {word} at {stage}: {message}; add a `dead_letters:` sink for such events, since none is \
         dropped silently", word = class.word()
    )]
    NoDeadLetters {
        /// The event's partition.
        partition: Partition,
        /// The event's offset.
        offset: u64,
        /// The stage that rejected the event.
        stage: String,
        /// The class of the cause.
        class: CauseClass,
        /// The details.
        message: String,
    },
    /// Dead letters cannot be written.
    #[error("dead letters cannot be written, so the pipeline stops: {0}")]
    DeadLetters(String),
    /// Too many events became dead letters.
    #[error("more than {most} of the last {of} events became dead letters: fix their cause, then resume", most = .0.most, of = .0.of)]
    TooManyDeadLetters(DeadLetterLimit),
    /// A thread could not be started, or panicked.
    #[error("a thread of the pipeline {0}")]
    Thread(String),
}

/// Holds the state that the threads of a pipeline share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) promise: Promise,
    pub(super) budget: Arc<Budget>,
    pub(super) meter: Arc<Meter>,
    pub(super) control: Arc<Control>,
    pub(super) circuit: Mutex<Circuit>,
    pub(super) window: Mutex<DeadLetterWindow>,
    pub(super) pool: BatchPool,
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
            window: Mutex::new(DeadLetterWindow::new(settings.dead_letter_limit)),
            pool: BatchPool::new(settings.limits.bytes_max),
            failure: Mutex::new(None),
            settings,
            promise,
            meter,
            control,
        }
    }

    /// Aborts the pipeline with an error. The first error counts. Errors after an abort are ignored, since an abort
    /// interrupts calls.
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

/// Runs the work of a thread. A panic aborts the pipeline: the other threads would wait for it forever.
pub(super) fn watched(shared: &Shared, work: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return };
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let words = words.unwrap_or("no reason was given");
    shared.fail(Error::Thread(format!("panicked ({words}), which is a defect of this program")));
}
