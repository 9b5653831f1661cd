//! Runs all workers of a process, one thread each, and adds up their seconds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, MILLISECOND_NS, SECOND_NS};

use crate::arrivals::Share;
use crate::fault::{self, Fault, InjectedFault, Stretch};
use crate::phase::{Error, Phase};
use crate::rate_watch::RateWatch;
use crate::runtime::{Real, Spin};
use crate::target::Target;
use crate::worker::{self, Backlogs, Control, Ended, Order, Slice, Supply, lanes_needed};

pub use crate::second::{Collector, Second, TenthLine};

/// Lead time before a phase starts, so that every thread is ready at its start, in nanoseconds.
const LEAD_NS: u64 = 20 * MILLISECOND_NS;
/// The interval at which the engine checks for a stop while it waits for its start, in nanoseconds.
const CHECK_NS: u64 = 100 * MILLISECOND_NS;

/// A running phase's events.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The phase starts at this moment.
    Began(clock::Instant),
    /// A second has ended.
    Second(Second),
    /// A fault has begun or ended.
    Fault(InjectedFault),
}

/// The end of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// The start, on the monotonic clock.
    pub start: clock::Instant,
    /// Nanoseconds from its start to the end of its last operation.
    pub to_ns: u64,
    /// The most severe reason of all workers for the end.
    pub ended: Ended,
    /// The faults that happened during the phase.
    pub faults: Vec<InjectedFault>,
}

impl Finished {
    /// Merges the end of the same phase in another shard. The last end and the most severe reason count. A
    /// fault lasts from its first beginning in any shard to its last end.
    pub fn merge(&mut self, other: &Self) {
        self.to_ns = self.to_ns.max(other.to_ns);
        self.ended = self.ended.max(other.ended);
        for (index, theirs) in other.faults.iter().enumerate() {
            let nth = |all: &[InjectedFault]| all.iter().filter(|it| it.fault == theirs.fault).count();
            let earlier = nth(&other.faults[..index]);
            match self.faults.iter_mut().filter(|it| it.fault == theirs.fault).nth(earlier) {
                Some(own) => own.merge(theirs),
                None => self.faults.push(theirs.clone()),
            }
        }
        self.faults.sort_by_key(|it| it.from_ns);
    }
}

/// A phase cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A number is out of bounds.
    #[error(transparent)]
    Phase(#[from] Error),
    /// A connection could not be opened before the load.
    #[error("connect: {0}")]
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// The requested start has passed.
    #[error(
        "the requested start passed {:.1} s ago: preparation took too long; give a later start",
        *late_ns as f64 / SECOND_NS as f64
    )]
    Late {
        /// The delay in nanoseconds.
        late_ns: u64,
    },
    /// A worker's thread panicked and printed the message.
    #[error("a worker thread panicked: this is a fault of Plimsoll, please report it with the message above")]
    Panicked,
}

/// The workers of this process. They keep their connections from phase to phase.
#[derive(Debug)]
pub struct Engine<T: Target> {
    workers: Vec<Worker<T>>,
    operations: usize,
    shard: Share,
    /// Whether a phase has run: afterwards a refused connection is counted, not an error.
    has_begun: bool,
    /// The start of the next phase. Without a start, the phase begins as soon as its connections are open.
    begin_at: Option<clock::Instant>,
}

struct Worker<T: Target> {
    runtime: Real,
    driver: tokio::runtime::Runtime,
    target: Arc<T>,
    lanes: Vec<T::Lane>,
}

impl<T: Target> std::fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker {{ lanes: {} }}", self.lanes.len())
    }
}

impl<T: Target> Engine<T> {
    /// Creates one worker for each target, for plans of `operations` operations; `shard` is the share of
    /// this process in the load.
    ///
    /// # Errors
    /// The system has no file descriptor left for a worker's epoll and timer.
    pub fn new(targets: Vec<Arc<T>>, operations: usize, shard: Share, spin: Spin) -> io::Result<Self> {
        let workers = targets.into_iter().map(|target| {
            let (runtime, driver) = Real::new(spin)?;
            Ok(Worker { runtime, driver, target, lanes: Vec::new() })
        });
        Ok(Self {
            workers: workers.collect::<io::Result<_>>()?,
            operations,
            shard,
            has_begun: false,
            begin_at: None,
        })
    }

    /// Sets the start of the next phase. Without it the phase starts as soon as its connections are open.
    pub fn begin_at(&mut self, at: clock::Instant) {
        self.begin_at = Some(at);
    }

    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Ends the workers, closes their connections, and returns their targets.
    pub fn into_targets(self) -> Vec<Arc<T>> {
        self.workers.into_iter().map(|worker| worker.target).collect()
    }

    /// The target of each worker.
    pub fn targets(&self) -> impl Iterator<Item = &T> {
        self.workers.iter().map(|worker| worker.target.as_ref())
    }

    /// Connections open right now.
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.lanes.len()).sum()
    }

    /// Runs a phase with its faults: `faults` contains one for each planned fault. `sink` receives each
    /// second of all workers together, as it ends.
    ///
    /// # Errors
    /// The phase cannot start. Later failures are counted and not errors.
    pub fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        mut sink: impl FnMut(Progress),
    ) -> Result<Finished, RunError> {
        let stretches = phase.check()?;
        let phase = Arc::new(phase.clone());
        self.connect(&phase)?;
        self.has_begun = true;
        let (supply, backlogs) = self.shared(&phase);
        let start = self.start(control)?;
        let (shard, operations, count) = (self.shard, self.operations, self.workers.len());
        let left = AtomicUsize::new(count);
        let mut watch = RateWatch::new(&phase, shard);
        let mut sink = |progress: Progress| {
            let missed = if let Progress::Second(second) = &progress { watch.add(second) } else { None };
            sink(progress);
            missed.into_iter().for_each(|reason| control.abort(Ended::NotReached, reason));
        };
        sink(Progress::Began(start));
        thread::scope(|scope| {
            let (sender, messages) = channel();
            let threads: Vec<_> = (self.workers.iter_mut().enumerate())
                .map(|(index, worker)| {
                    let share = share(shard, index, count);
                    let (phase, supply, backlogs) = (phase.clone(), supply.clone(), backlogs.clone());
                    let order = Order { phase, operations, share, start, supply, backlogs };
                    let (control, sender, left) = (control.clone(), sender.clone(), WorkerGuard(&left));
                    scope.spawn(move || worker.run(order, control, index, sender, left))
                })
                .collect();
            if !stretches.is_empty() {
                let left = &left;
                scope.spawn(move || play(start, &stretches, faults, left, &sender));
            } else {
                drop(sender);
            }
            let faults = collect(&messages, count, &mut sink);
            let ends: Result<Vec<_>, _> = threads.into_iter().map(|thread| thread.join()).collect();
            let ends = ends.map_err(|_| RunError::Panicked)?;
            let ended = ends.iter().map(|(ended, _)| *ended).max().unwrap_or_default();
            let to_ns = ends.iter().map(|(_, to_ns)| *to_ns).max().unwrap_or(0);
            Ok(Finished { start, to_ns, ended, faults })
        })
    }
}

impl<T: Target> Engine<T> {
    /// Returns the start of the prepared phase. Waits for a requested start until the threads have just
    /// enough time to start.
    fn start(&mut self, control: &Control) -> Result<clock::Instant, RunError> {
        let Some(at) = self.begin_at.take() else { return Ok(clock::now() + LEAD_NS) };
        if clock::now() > at {
            return Err(RunError::Late { late_ns: clock::now().since(at) });
        }
        loop {
            let left_ns = at.since(clock::now() + LEAD_NS);
            if control.is_stopped() {
                return Ok(clock::now());
            }
            if left_ns == 0 {
                return Ok(at);
            }
            thread::sleep(Duration::from_nanos(left_ns.min(CHECK_NS)));
        }
    }
}

/// A message from a thread of a phase.
enum Message {
    Slice(usize, Slice),
    Fault(InjectedFault),
}

/// Counts one worker less when dropped: the faults end after the last worker.
struct WorkerGuard<'a>(&'a AtomicUsize);

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Plays the faults until the last worker has ended.
fn play(
    start: clock::Instant,
    stretches: &[Stretch],
    faults: &mut [Box<dyn Fault>],
    left: &AtomicUsize,
    sender: &Sender<Message>,
) {
    let report = |happening| sender.send(Message::Fault(happening)).unwrap_or_default();
    let (runtime, driver) = match Real::new(Spin::Off) {
        Ok(timer) => timer,
        Err(error) => {
            let missed = |it: &Stretch| InjectedFault {
                fault: it.fault,
                from_ns: it.from_ns,
                to_ns: None,
                error: Some(format!("no timer is available: {error}")),
            };
            return stretches.iter().map(missed).for_each(report);
        }
    };
    let is_over = || left.load(Ordering::Acquire) == 0;
    driver.block_on(fault::play(&runtime, start, stretches, faults, is_over, report));
}

impl<T: Target> Engine<T> {
    /// Creates the state of a phase that the workers of this process share.
    fn shared(&self, phase: &Phase) -> (Arc<Supply>, Arc<Backlogs>) {
        let count = self.workers.len();
        let shares = (0..count).map(|index| share(self.shard, index, count));
        (Arc::new(Supply::shared(phase, shares.clone())), Arc::new(Backlogs::shared(phase, shares)))
    }

    /// Opens the connections that the phase still needs, all workers at once. In a later phase, the phase
    /// itself retries failed connections.
    fn connect(&mut self, phase: &Phase) -> Result<(), RunError> {
        let (shard, count, has_begun) = (self.shard, self.workers.len(), self.has_begun);
        thread::scope(|scope| {
            let threads: Vec<_> = (self.workers.iter_mut().enumerate())
                .map(|(index, worker)| {
                    let needed = lanes_needed(phase, share(shard, index, count)).iter().sum();
                    scope.spawn(move || worker.connect(needed))
                })
                .collect();
            let opened = threads.into_iter().map(|thread| thread.join().map_err(|_| RunError::Panicked)?);
            let opened: Result<(), RunError> = opened.collect();
            match opened {
                Err(RunError::Connect(_)) if has_begun => Ok(()),
                opened => opened,
            }
        })
    }
}

/// One worker's share among the workers of all shards.
const fn share(shard: Share, index: usize, workers: usize) -> Share {
    Share { index: shard.index * workers as u64 + index as u64, of: shard.of * workers as u64 }
}

impl<T: Target> Worker<T> {
    fn connect(&mut self, needed: usize) -> Result<(), RunError> {
        for _ in self.lanes.len()..needed {
            let target = self.target.clone();
            let opening = self.driver.spawn(async move { target.open().await });
            let opened = self.driver.block_on(opening).map_err(|_| RunError::Panicked)?;
            self.lanes.push(opened.map_err(RunError::Connect)?);
        }
        Ok(())
    }

    fn run(
        &mut self,
        order: Order,
        control: Control,
        index: usize,
        sender: Sender<Message>,
        left: WorkerGuard<'_>,
    ) -> (Ended, u64) {
        let lanes = std::mem::take(&mut self.lanes);
        let sink = |slice| {
            // A closed collector cannot receive it; the phase still ends in order.
            sender.send(Message::Slice(index, slice)).unwrap_or_default();
        };
        let work = worker::run(self.runtime.clone(), self.target.clone(), lanes, order, control, sink);
        let end = self.driver.block_on(work);
        drop(left);
        self.lanes = end.lanes;
        (end.ended, end.to_ns)
    }
}

/// Adds up the slices of all workers, second by second; returns the faults that happened.
fn collect(
    messages: &Receiver<Message>,
    workers: usize,
    sink: &mut impl FnMut(Progress),
) -> Vec<InjectedFault> {
    let mut collector = Collector::new(workers);
    let mut faults: Vec<InjectedFault> = Vec::new();
    for message in messages {
        match message {
            Message::Slice(worker, slice) => collector.add(worker, slice),
            Message::Fault(happening) => {
                note(&mut faults, &happening);
                sink(Progress::Fault(happening));
            }
        }
        while let Some(second) = collector.complete() {
            sink(Progress::Second(second));
        }
    }
    collector.finish().into_iter().map(Progress::Second).for_each(sink);
    faults
}

/// Keeps one entry for each fault: its end replaces its beginning.
fn note(faults: &mut Vec<InjectedFault>, happening: &InjectedFault) {
    match faults.iter_mut().find(|it| (it.fault, it.from_ns) == (happening.fault, happening.from_ns)) {
        Some(known) => *known = happening.clone(),
        None => faults.push(happening.clone()),
    }
}
