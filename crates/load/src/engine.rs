//! All workers of a process: one thread each, and the seconds that they hand over, added up.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use plimsoll_measure::clock::{self, MILLISECOND_NS};
use plimsoll_measure::interval::Tally;

use crate::arrivals::Share;
use crate::fault::{self, Fault, Happening, Stretch};
use crate::phase::{Error, Phase};
use crate::reach;
use crate::runtime::{Real, Spin};
use crate::target::Target;
use crate::worker::{
    self, Control, Ended, Order, Part, Slice, Supply, TENTH_NS, Tenth, is_supplier, lanes_needed,
};

/// Time between the order and the start of a phase, so that every thread is there at the start, in nanoseconds.
const LEAD_NS: u64 = 20 * MILLISECOND_NS;

/// One second of all workers together.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Nanoseconds from the phase's start to the second's start.
    pub from_ns: u64,
    /// Nanoseconds from the phase's start to its end; the last second of a phase may be shorter.
    pub to_ns: u64,
    /// What each operation did, by its index.
    pub tallies: Vec<Tally>,
    /// What was counted apart, where several loads send the same operation.
    pub parts: Vec<Part>,
    /// The same time in tenths.
    pub tenths: Vec<TenthLine>,
    /// CPU of each worker, in nanoseconds.
    pub cpu_ns: Vec<u64>,
    /// How often the workers' threads were switched away from their cores.
    pub switches: Option<u64>,
    /// Connections opened again.
    pub reconnects: u64,
}

/// A tenth of a second of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TenthLine {
    /// Tenths of a second since the phase's start.
    pub index: u64,
    /// Operations that succeeded.
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// 99th percentile of their response time in nanoseconds, to two digits.
    pub p99_ns: u64,
    /// When the first of them ended, in nanoseconds from the phase's start.
    pub first_ok_ns: Option<u64>,
    /// When the last of them ended.
    pub last_ok_ns: Option<u64>,
    /// When the first operation failed.
    pub first_failed_ns: Option<u64>,
}

/// What a phase tells as it runs.
#[derive(Clone, Debug)]
pub enum Progress {
    /// It starts at this moment.
    Began(clock::Instant),
    /// A second is over.
    Second(Second),
    /// A fault has begun, or was undone.
    Fault(Happening),
}

/// How a phase ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// When it started, on the monotonic clock.
    pub start: clock::Instant,
    /// Nanoseconds from its start to the end of its last operation.
    pub to_ns: u64,
    /// Why it ended; the gravest reason of all workers.
    pub ended: Ended,
    /// The faults that happened in it.
    pub faults: Vec<Happening>,
}

/// A phase that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its numbers are out of bounds.
    #[error(transparent)]
    Phase(#[from] Error),
    /// A connection could not be opened before the load.
    #[error("connect: {0}")]
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// A worker's thread ended badly; the message was printed by it.
    #[error("a worker thread panicked: this is a fault of Plimsoll, please report it with the message above")]
    Panicked,
}

/// The workers of this process. They keep their connections from phase to phase.
#[derive(Debug)]
pub struct Engine<T: Target> {
    workers: Vec<Worker<T>>,
    operations: usize,
    shard: Share,
    /// Whether a phase has run: from then on a server that refuses is counted, not an error.
    has_begun: bool,
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
    /// One worker for each target, for plans of `operations` operations; `shard` is this process among all.
    ///
    /// # Errors
    /// When the system has no descriptor left for a worker's epoll and timer.
    pub fn new(targets: Vec<Arc<T>>, operations: usize, shard: Share, spin: Spin) -> io::Result<Self> {
        let workers = targets.into_iter().map(|target| {
            let (runtime, driver) = Real::new(spin)?;
            Ok(Worker { runtime, driver, target, lanes: Vec::new() })
        });
        Ok(Self { workers: workers.collect::<io::Result<_>>()?, operations, shard, has_begun: false })
    }

    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Ends the workers and closes their connections.
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

    /// Runs a phase, with what is done to the thing under load: one of `faults` for each that the phase plans. `sink` takes
    /// each second of all workers together, as it ends.
    ///
    /// # Errors
    /// When the phase cannot be run at all. What goes wrong later is counted, not an error.
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
        let supply = self.supply(&phase);
        let start = clock::now() + LEAD_NS;
        let (shard, operations, count) = (self.shard, self.operations, self.workers.len());
        let left = AtomicUsize::new(count);
        let mut watch = reach::Watch::new(&phase, shard);
        let mut sink = |progress: Progress| {
            let missed = if let Progress::Second(second) = &progress { watch.tell(second) } else { None };
            sink(progress);
            missed.into_iter().for_each(|reason| control.abort(Ended::NotReached, reason));
        };
        sink(Progress::Began(start));
        thread::scope(|scope| {
            let (sender, told) = channel();
            let threads: Vec<_> = (self.workers.iter_mut().enumerate())
                .map(|(index, worker)| {
                    let share = share(shard, index, count);
                    let order =
                        Order { phase: phase.clone(), operations, share, start, supply: supply.clone() };
                    let (control, sender, left) = (control.clone(), sender.clone(), Leaving(&left));
                    scope.spawn(move || worker.run(order, control, index, sender, left))
                })
                .collect();
            if !stretches.is_empty() {
                let left = &left;
                scope.spawn(move || play(start, &stretches, faults, left, &sender));
            } else {
                drop(sender);
            }
            let faults = collect(&told, count, &mut sink);
            let ends: Result<Vec<_>, _> = threads.into_iter().map(|thread| thread.join()).collect();
            let ends = ends.map_err(|_| RunError::Panicked)?;
            let ended = ends.iter().map(|(ended, _)| *ended).max().unwrap_or_default();
            let to_ns = ends.iter().map(|(_, to_ns)| *to_ns).max().unwrap_or(0);
            Ok(Finished { start, to_ns, ended, faults })
        })
    }
}

/// What the threads of a phase tell.
enum Told {
    Slice(usize, Slice),
    Fault(Happening),
}

/// One worker less, however it ends: the faults wait for the last one.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The thread of the faults, until the last worker has ended.
fn play(
    start: clock::Instant,
    stretches: &[Stretch],
    faults: &mut [Box<dyn Fault>],
    left: &AtomicUsize,
    sender: &Sender<Told>,
) {
    let tell = |happening| sender.send(Told::Fault(happening)).unwrap_or_default();
    let (runtime, driver) = match Real::new(Spin::Off) {
        Ok(timer) => timer,
        Err(error) => {
            let missed = |it: &Stretch| Happening {
                fault: it.fault,
                from_ns: it.from_ns,
                to_ns: None,
                error: Some(format!("there is no timer for it: {error}")),
            };
            return stretches.iter().map(missed).for_each(tell);
        }
    };
    let is_over = || left.load(Ordering::Acquire) == 0;
    driver.block_on(fault::play(&runtime, start, stretches, faults, is_over, tell));
}

impl<T: Target> Engine<T> {
    /// How many workers of this process make documents in a phase.
    fn supply(&self, phase: &Phase) -> Arc<Supply> {
        let count = self.workers.len();
        let suppliers = (0..count).filter(|index| is_supplier(phase, share(self.shard, *index, count)));
        Arc::new(Supply::of(suppliers.count()))
    }

    /// Opens the connections that the phase needs beyond those that are open, all workers at once. In a later phase what
    /// cannot be opened is left to the phase, which tries again.
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

/// One worker among the workers of all shards.
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
        sender: Sender<Told>,
        left: Leaving<'_>,
    ) -> (Ended, u64) {
        let lanes = std::mem::take(&mut self.lanes);
        let sink = |slice| {
            // A collector that is gone has nobody to tell; the phase still ends in order.
            sender.send(Told::Slice(index, slice)).unwrap_or_default();
        };
        let work = worker::run(self.runtime.clone(), self.target.clone(), lanes, order, control, sink);
        let end = self.driver.block_on(work);
        drop(left);
        self.lanes = end.lanes;
        (end.ended, end.to_ns)
    }
}

/// Adds up the slices of all workers, second by second; gives the faults that happened.
fn collect(told: &Receiver<Told>, workers: usize, sink: &mut impl FnMut(Progress)) -> Vec<Happening> {
    let mut collector = Collector::new(workers);
    let mut faults: Vec<Happening> = Vec::new();
    for told in told {
        match told {
            Told::Slice(worker, slice) => collector.add(worker, slice),
            Told::Fault(happening) => {
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

/// Keeps one entry for each fault: its end takes the place of its beginning.
fn note(faults: &mut Vec<Happening>, happening: &Happening) {
    match faults.iter_mut().find(|it| (it.fault, it.from_ns) == (happening.fault, happening.from_ns)) {
        Some(known) => *known = happening.clone(),
        None => faults.push(happening.clone()),
    }
}

/// Seconds that not every worker has handed over yet.
#[derive(Debug, Default)]
pub struct Collector {
    seconds: BTreeMap<u64, (usize, Second)>,
    /// How many seconds each worker has handed over.
    handed: Vec<u64>,
    next: u64,
    tenths: BTreeMap<u64, Tenth>,
    to_ns: u64,
}

impl Collector {
    /// A collector for the slices of `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self { handed: vec![0; workers], ..Self::default() }
    }

    /// Adds the next slice of a worker.
    pub fn add(&mut self, worker: usize, slice: Slice) {
        let index = self.handed[worker];
        self.handed[worker] += 1;
        let workers = self.handed.len();
        let (count, second) = self.seconds.entry(index).or_default();
        *count += 1;
        second.merge(worker, workers, &slice);
        for tenth in slice.tenths {
            match self.tenths.get_mut(&tenth.index) {
                Some(sum) => sum.merge(&tenth),
                None => drop(self.tenths.insert(tenth.index, tenth)),
            }
        }
    }

    /// The next second, once every worker has handed it over.
    pub fn complete(&mut self) -> Option<Second> {
        let (count, _) = self.seconds.get(&self.next)?;
        if *count < self.handed.len() {
            return None;
        }
        self.take_next()
    }

    /// What is left when every worker has ended, some a second before others. A tenth that ends with the phase comes
    /// in a second without length.
    pub fn finish(mut self) -> Vec<Second> {
        let mut rest = Vec::new();
        while !self.seconds.is_empty() {
            rest.extend(self.take_next());
        }
        if !self.tenths.is_empty() {
            let tenths = self.tenths.values().map(Tenth::line).collect();
            rest.push(Second { from_ns: self.to_ns, to_ns: self.to_ns, tenths, ..Second::default() });
        }
        rest
    }

    fn take_next(&mut self) -> Option<Second> {
        let (_, mut second) = self.seconds.remove(&self.next)?;
        self.next += 1;
        self.to_ns = second.to_ns;
        // A tenth that is not over may get more from the next slice.
        while let Some(entry) = self.tenths.first_entry().filter(|it| *it.key() < second.to_ns / TENTH_NS) {
            second.tenths.push(entry.remove().line());
        }
        Some(second)
    }
}

impl Second {
    fn merge(&mut self, worker: usize, workers: usize, slice: &Slice) {
        self.from_ns = slice.from_ns;
        self.to_ns = self.to_ns.max(slice.to_ns);
        self.reconnects += slice.reconnects;
        self.cpu_ns.resize(workers, 0);
        self.cpu_ns[worker] += slice.cpu_ns;
        self.switches = added(self.switches, slice.switches);
        self.tallies.resize_with(slice.tallies.len(), Tally::default);
        self.tallies.iter_mut().zip(&slice.tallies).for_each(|(sum, part)| sum.merge(part));
        if self.parts.is_empty() {
            self.parts.clone_from(&slice.parts);
        } else {
            // Every worker has the same loads, so their parts come in the same order.
            self.parts.iter_mut().zip(&slice.parts).for_each(|(sum, part)| sum.tally.merge(&part.tally));
        }
    }

    /// What an operation did for one load of the phase; nothing if nothing was counted.
    pub fn of(&self, load: usize, operation: usize) -> Option<&Tally> {
        let apart = self.parts.iter().find(|part| (part.load, part.operation) == (load, operation));
        apart.map(|part| &part.tally).or_else(|| self.tallies.get(operation))
    }
}

/// The earlier of two moments that are known.
fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// The sum of what is known.
fn added(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0)))
}

impl Tenth {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.documents += other.documents;
        self.response.merge(&other.response);
        self.first_ok_ns = earlier(self.first_ok_ns, other.first_ok_ns);
        self.last_ok_ns = self.last_ok_ns.max(other.last_ok_ns);
        self.first_failed_ns = earlier(self.first_failed_ns, other.first_failed_ns);
    }

    fn line(&self) -> TenthLine {
        TenthLine {
            index: self.index,
            count: self.count,
            documents: self.documents,
            p99_ns: self.response.at(99.0),
            first_ok_ns: self.first_ok_ns,
            last_ok_ns: self.last_ok_ns,
            first_failed_ns: self.first_failed_ns,
        }
    }
}
