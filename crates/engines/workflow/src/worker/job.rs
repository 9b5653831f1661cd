//! Names the work of a worker and its results.

use serde_json::Value;

use crate::instance::{DeadLetter, Effect, Signal, State, Status, weight};
use crate::port::{
    Commit, Committed, Deployed, Due, Holder, LeaseRequest, Leases, Postponed, Record, SignalKey, Stored,
};
use crate::step::{Answer, Call};

/// An instance in a worker's memory. An instance that leaves the memory and comes back has another number, so that a late result
/// is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The instance.
    pub instance: String,
    /// The number.
    pub generation: u64,
}

/// A piece of work: the worker's pure core requests it, and the shell around the core does it.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// Asks for partitions.
    Lease(LeaseRequest),
    /// Asks who owns partitions. A failure has no result.
    Holders,
    /// Looks for due work.
    Scan {
        /// The partitions.
        partitions: Vec<u16>,
        /// The moment.
        until_ms: u64,
        /// Signals and instances at most.
        limit: usize,
    },
    /// Loads instances.
    Load(Vec<Tag>),
    /// Loads definitions, with the number of the question: a later question has a greater one.
    Definitions(u64),
    /// Changes instances.
    Commit(Vec<(Tag, Commit)>),
    /// Removes signals.
    Remove(Vec<SignalKey>),
    /// Lets the store forget signals that instances forgot before a moment. It has no result.
    Forget {
        /// The partitions.
        partitions: Vec<u16>,
        /// The moment.
        before_ms: u64,
    },
    /// Postpones signals.
    Postpone(Vec<Postponed>),
    /// Keeps dead letters.
    Bury(Vec<DeadLetter>),
    /// Does effects.
    Drain(Vec<(Tag, Vec<Effect>)>),
    /// Tells the owners of other partitions that these have new work. It has no result.
    Announce(Vec<u16>),
    /// Makes a call.
    Call(Call),
    /// Announces a stored change of an instance. It has no result.
    Tell(Change),
}

/// A stored change of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The instance.
    pub instance: String,
    /// The number of the change, from 1.
    pub version: u64,
    /// The end, if the change ended the instance.
    pub end: Option<Finished>,
}

impl Change {
    /// The change that left an instance in a state.
    pub fn of(state: &State, version: u64) -> Self {
        let end = state.status.is_ended().then(|| Finished::of(state));
        Self { instance: state.id.clone(), version, end }
    }
}

/// The end of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The instance.
    pub instance: String,
    /// Its status.
    pub status: Status,
    /// Its data.
    pub data: Value,
    /// Its last error.
    pub error: Option<String>,
}

impl Finished {
    /// The end of a state.
    pub fn of(state: &State) -> Self {
        Self {
            instance: state.id.clone(),
            status: state.status,
            data: state.data.clone(),
            error: state.error.clone(),
        }
    }
}

/// The result of a job, or news from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// Partitions were asked for.
    Leased {
        /// The moment before the request, by the worker's clock.
        asked_ms: u64,
        /// The answer.
        result: Stored<Leases>,
    },
    /// The owners of partitions were asked for.
    Held(Vec<Holder>),
    /// Due work was looked for.
    Scanned {
        /// Signals and instances at most.
        limit: usize,
        /// The work.
        result: Stored<Due>,
    },
    /// Instances were loaded.
    Loaded {
        /// The instances.
        tags: Vec<Tag>,
        /// Their records.
        result: Stored<Vec<Option<Record>>>,
    },
    /// Definitions were loaded.
    Defined {
        /// The number of the question.
        question: u64,
        /// The definitions.
        result: Stored<Vec<Deployed>>,
    },
    /// Instances were changed.
    Committed {
        /// The instances and their results.
        results: Vec<(Tag, Stored<Committed>)>,
    },
    /// Signals were removed, postponed or buried.
    Settled {
        /// The signals.
        keys: Vec<SignalKey>,
        /// The result.
        result: Stored<()>,
    },
    /// Effects were done.
    Drained {
        /// The instances and the numbers of their done effects.
        done: Vec<(Tag, Stored<Vec<u64>>)>,
        /// Started instances.
        records: Vec<Record>,
        /// Sent signals.
        signals: Vec<Signal>,
    },
    /// A call was answered.
    Called {
        /// The instance.
        instance: String,
        /// The call's idempotency key.
        key: String,
        /// The answer.
        answer: Answer,
    },
    /// News from outside.
    Hint(Hint),
    /// Time has passed.
    Tick,
}

/// News of work. A lost hint only delays the work: the store knows everything that a hint tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    /// An instance was started: its record, as inserted.
    Started(Record),
    /// A signal was published.
    Published(Signal),
    /// Other processes have brought new work to partitions.
    Partitions(Vec<u16>),
    /// There is new work, which only a scan finds.
    Work,
}

impl Hint {
    /// The weight in memory.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Started(record) => weight(record.body.len()),
            Self::Published(signal) => signal.weight(),
            Self::Partitions(_) | Self::Work => 1,
        }
    }
}
