//! One thread's work in one phase: lanes that take what is due, send it and time it.
//!
//! Every idle lane takes the next operation of the schedule before it is due, makes it ready and waits for its moment.
//! When all lanes are busy a pacer notes, at the due time, what nobody took; the next free lane sends that first. So
//! the schedule never waits for a response, nothing due is forgotten, and `awake` tells the tool's delay (nobody
//! looked) from waiting for a connection (everybody was busy).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures_util::future::{Either, select};
use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::interval::{Instants, Reply, Tally};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

use crate::arrivals::Share;
use crate::feed::{Feed, Slot, narrowed};
use crate::phase::{Documents, Phase};
use crate::runtime::Runtime;
use crate::target::{Prepared, Target};

/// Length of the intervals on which a warm-up is looked for, in nanoseconds.
pub const TENTH_NS: u64 = 100 * MILLISECOND_NS;
/// A lane that waits for a far moment looks this often whether the phase was stopped, in nanoseconds.
const LOOK_NS: u64 = 100 * MILLISECOND_NS;
/// First and longest pause between attempts to connect again, in nanoseconds.
const BACKOFF_NS: (u64, u64) = (10 * MILLISECOND_NS, 100 * MILLISECOND_NS);

/// The user's wish to stop, shared by all workers.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stopped: Arc<AtomicBool>,
}

impl Control {
    /// A control that also listens to `flag`, which a signal handler may set.
    pub const fn listening(flag: Arc<AtomicBool>) -> Self {
        Self { stopped: flag }
    }

    /// Ends the phase as soon as what is in flight has ended.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The documents of a phase, as far as they are limited: how many workers still have some to send.
#[derive(Debug, Default)]
pub struct Supply {
    suppliers: AtomicUsize,
    over: AtomicBool,
}

impl Supply {
    /// For so many workers that make documents.
    pub const fn of(suppliers: usize) -> Self {
        Self { suppliers: AtomicUsize::new(suppliers), over: AtomicBool::new(false) }
    }

    /// Whether every worker has sent the last of its documents.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// A worker has sent the last of its documents.
    fn leave(&self) {
        if self.suppliers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.store(true, Ordering::Relaxed);
        }
    }
}

/// Why a phase ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// Its time was over.
    #[default]
    Duration,
    /// Its operations were sent.
    Operations,
    /// Its documents were sent.
    Documents,
    /// The server could not be reached for too long.
    Unreachable,
    /// Somebody asked to stop.
    Interrupted,
}

impl Ended {
    /// The reason's name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Operations => "operations",
            Self::Documents => "documents",
            Self::Unreachable => "unreachable",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What one worker did in one stretch of time, usually a second.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Nanoseconds from the phase's start to the stretch's start.
    pub from_ns: u64,
    /// Nanoseconds from the phase's start to the stretch's end.
    pub to_ns: u64,
    /// What each operation did, by its index.
    pub tallies: Vec<Tally>,
    /// The same time in tenths of a second.
    pub tenths: Vec<Tenth>,
    /// CPU that the worker's thread used, in nanoseconds.
    pub cpu_ns: u64,
    /// How often the thread was switched away from its core.
    pub switches: Option<u64>,
    /// Connections that were opened again.
    pub reconnects: u64,
}

/// A tenth of a second: what warm-up detection looks at.
#[derive(Clone, Debug)]
pub struct Tenth {
    /// Tenths of a second since the phase's start.
    pub index: u64,
    /// Operations that succeeded.
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// Their response times, to two digits.
    pub response: Histogram,
    /// When the first of them ended, in nanoseconds from the phase's start.
    pub first_ok_ns: Option<u64>,
    /// When the last of them ended.
    pub last_ok_ns: Option<u64>,
    /// When the first operation failed.
    pub first_failed_ns: Option<u64>,
}

impl Tenth {
    fn new(index: u64) -> Self {
        Self {
            index,
            count: 0,
            documents: 0,
            response: Histogram::with_digits(2),
            first_ok_ns: None,
            last_ok_ns: None,
            first_failed_ns: None,
        }
    }
}

/// How a worker's phase ended.
#[derive(Debug)]
pub struct End<L> {
    /// Why.
    pub ended: Ended,
    /// Its connections, for the next phase.
    pub lanes: Vec<L>,
    /// When the last operation ended, in nanoseconds from the phase's start.
    pub to_ns: u64,
}

/// What a worker is asked to do.
#[derive(Clone, Debug)]
pub struct Order {
    /// The phase.
    pub phase: Arc<Phase>,
    /// Number of operations in the plan, over all phases.
    pub operations: usize,
    /// This worker among all workers of all shards.
    pub share: Share,
    /// When the phase starts.
    pub start: Instant,
    /// What is left of the phase's documents, shared by all workers of the process.
    pub supply: Arc<Supply>,
}

/// Runs one worker's share of a phase to its end, on the thread of `runtime`. `lanes` are connections that are open
/// already; missing ones are opened. `sink` takes each second as it ends.
pub async fn run<R: Runtime, T: Target>(
    runtime: R,
    target: Arc<T>,
    lanes: Vec<T::Lane>,
    order: Order,
    control: Control,
    sink: impl FnMut(Slice) + Send,
) -> End<T::Lane> {
    let documents = order.phase.stop.documents.map(|total| order.documents_share().part(total));
    target.begin(documents);
    let desk = Arc::new(Desk::new(runtime, target, order, control));
    desk.start(lanes);
    desk.report(sink).await;
    desk.end()
}

/// Whether a worker has a connection whose operations make documents.
pub fn is_supplier(phase: &Phase, share: Share) -> bool {
    let lanes = lanes_needed(phase, share);
    phase.loads.iter().zip(lanes).any(|(load, lanes)| load.documents == Documents::Made && lanes > 0)
}

/// How many lanes a worker needs for each load of a phase.
pub fn lanes_needed(phase: &Phase, share: Share) -> Vec<usize> {
    phase.loads.iter().map(|load| share.part(u64::from(load.arrivals.connections())) as usize).collect()
}

impl Order {
    /// Documents are shared by the workers that have a connection to send some.
    fn documents_share(&self) -> Share {
        let makers = self.phase.loads.iter().filter(|load| load.documents == Documents::Made);
        let connections = makers.map(|load| load.arrivals.connections()).max();
        narrowed(self.share, u64::from(connections.unwrap_or(1)))
    }

    fn end(&self) -> Option<Instant> {
        self.phase.stop.duration.map(|span| self.start + span.as_ns())
    }
}

/// What the lanes of one worker share. They run on one thread, so the lock is never contended.
struct Desk<R, T: Target> {
    runtime: R,
    target: Arc<T>,
    order: Order,
    control: Control,
    state: Mutex<State<T::Lane>>,
}

struct State<L> {
    feeds: Vec<Feed>,
    tallies: Vec<Tally>,
    tenths: Vec<Tenth>,
    reconnects: u64,
    /// Since when the server has said nothing, though it was asked.
    silent_since: Option<Instant>,
    ended: Ended,
    halted: bool,
    /// Operations under way that may make documents.
    making: usize,
    supply: Held,
    lanes_live: usize,
    lanes_done: Vec<L>,
    reporter: Option<Waker>,
}

/// Whether this worker still holds some of the phase's documents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Yes,
    No,
}

impl<L> State<L> {
    fn record(&mut self, operation: usize, at: &Instants, reply: &Reply, start: Instant) {
        let done_ns = at.done.since(start);
        let index = done_ns / TENTH_NS;
        if self.tenths.last().is_none_or(|tenth| tenth.index < index) {
            self.tenths.push(Tenth::new(index));
        }
        let tally = &mut self.tallies[operation];
        let before = tally.count;
        tally.record(at, reply);
        let Some(tenth) = self.tenths.last_mut() else { return };
        if tally.count > before {
            tenth.count += 1;
            tenth.documents += reply.documents;
            tenth.response.record(at.response_ns());
            tenth.first_ok_ns.get_or_insert(done_ns);
            tenth.last_ok_ns = Some(done_ns);
        } else {
            tenth.first_failed_ns.get_or_insert(done_ns);
        }
    }

    fn halt(&mut self, ended: Ended) {
        self.halted = true;
        self.ended = self.ended.max(ended);
    }

    /// The server said something, or kept silent when it was asked.
    fn hear(&mut self, heard: Heard, now: Instant, unreachable_for_ns: u64) {
        match heard {
            Heard::Answer => self.silent_since = None,
            Heard::Nothing => {
                let since = *self.silent_since.get_or_insert(now);
                if now.since(since) >= unreachable_for_ns {
                    self.halt(Ended::Unreachable);
                }
            }
            Heard::NotAsked => {}
        }
    }

    /// Nobody is left to send what is overdue: it is counted, unless the phase was meant to end just now.
    fn skip_the_rest(&mut self) {
        if matches!(self.ended, Ended::Documents | Ended::Interrupted) {
            return;
        }
        for feed in &mut self.feeds {
            while let Some(slot) = feed.take_overdue() {
                self.tallies[slot.operation].skipped += 1;
            }
        }
    }

    /// The last document of this worker was sent: true once.
    fn is_sold_out(&mut self) -> bool {
        let empty = self.making == 0 && !self.feeds.iter().any(Feed::is_supplying);
        let sold_out = empty && self.supply == Held::Yes;
        if sold_out {
            self.supply = Held::No;
        }
        sold_out
    }
}

/// Whether the server is there, as far as an outcome tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Answer,
    Nothing,
    NotAsked,
}

impl Heard {
    const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Unknown(Doubt::Unacknowledged) => Self::NotAsked,
            Outcome::Unknown(Doubt::Timeout | Doubt::ConnectionLost) => Self::Nothing,
            // Nothing was tried: no server was there to ask.
            Outcome::Rejected(Rejection::NotTried) => Self::Nothing,
            _ => Self::Answer,
        }
    }
}

impl<R: Runtime, T: Target> Desk<R, T> {
    fn new(runtime: R, target: Arc<T>, order: Order, control: Control) -> Self {
        let phase = &order.phase;
        let feeds = phase.loads.iter().enumerate();
        let state = State {
            feeds: feeds.filter_map(|(index, load)| Feed::new(load, order.share, phase, index)).collect(),
            tallies: vec![Tally::default(); order.operations],
            tenths: Vec::new(),
            reconnects: 0,
            silent_since: None,
            ended: Ended::Duration,
            halted: false,
            making: 0,
            supply: if is_supplier(phase, order.share) { Held::Yes } else { Held::No },
            lanes_live: 0,
            lanes_done: Vec::new(),
            reporter: None,
        };
        Self { runtime, target, order, control, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<T::Lane>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, lanes: Vec<T::Lane>) {
        let mut open = lanes.into_iter();
        for (load, needed) in lanes_needed(&self.order.phase, self.order.share).into_iter().enumerate() {
            self.state().lanes_live += needed;
            for _ in 0..needed {
                self.runtime.spawn(self.clone().serve(load, open.next()));
            }
            if needed > 0 {
                self.runtime.spawn(self.clone().notice(load));
            }
        }
        self.state().lanes_done.extend(open);
    }

    /// A lane's life in this phase.
    async fn serve(self: Arc<Self>, load: usize, mut open: Option<T::Lane>) {
        self.runtime.until(self.order.start).await;
        loop {
            let Some(mut lane) = (match open.take() {
                Some(lane) => Some(lane),
                None => self.connect(load).await,
            }) else {
                break;
            };
            match self.serve_connected(load, &mut lane).await {
                Left::Broken => self.lose(),
                Left::Over => {
                    self.target.settle(&mut lane).await;
                    self.state().lanes_done.push(lane);
                    break;
                }
            }
        }
        self.leave();
    }

    /// A connection is lost.
    fn lose(&self) {
        self.state().reconnects += 1;
    }

    /// Sends one operation after the other until none is left or the connection is lost.
    async fn serve_connected(&self, load: usize, lane: &mut T::Lane) -> Left {
        while let Some(slot) = self.take(load) {
            let left = self.step(load, lane, &slot).await;
            self.finish(load);
            if let Some(left) = left {
                return left;
            }
        }
        Left::Over
    }

    /// One operation from its making to its answer; says whether the lane must stop.
    async fn step(&self, load: usize, lane: &mut T::Lane, slot: &Slot) -> Option<Left> {
        if self.target.prepare(lane, slot.operation, slot.number) == Prepared::Exhausted {
            self.exhaust(load);
            return Some(Left::Over);
        }
        let Some((due, awake)) = self.wait_for(slot).await else {
            self.target.discard(lane);
            return Some(Left::Over);
        };
        // A lane that woke in time sends at once; only one that was late reads the clock again.
        let sent = if slot.awake.is_some() { self.runtime.now() } else { awake };
        let mut reply = self.target.send(lane).await;
        let mut retries = 0;
        while self.order.phase.retry.again(reply.outcome, retries) && self.mend(load, lane).await {
            retries += 1;
            reply = self.target.send(lane).await;
        }
        let at = Instants { due, awake, sent, done: self.runtime.now() };
        self.state().tallies[slot.operation].retries += retries;
        self.record(slot, &at, &reply);
        self.state().feeds[load].done(slot.operation, at.service_ns());
        self.target.is_broken(lane).then_some(Left::Broken)
    }

    /// Makes a lane fit to send the same operation again; false if there is no way.
    async fn mend(&self, load: usize, lane: &mut T::Lane) -> bool {
        if !self.target.is_broken(lane) {
            return !self.is_halted();
        }
        let Some(mut fresh) = self.connect(load).await else { return false };
        if !self.target.carry(lane, &mut fresh) {
            return false;
        }
        self.lose();
        *lane = fresh;
        true
    }

    /// An operation has ended, one way or another.
    fn finish(&self, load: usize) {
        let mut state = self.state();
        if state.feeds[load].makes_documents() {
            state.making -= 1;
            if state.is_sold_out() {
                self.order.supply.leave();
            }
        }
    }

    /// The next operation for a free lane: what is overdue first, then what the schedule has next.
    fn take(&self, load: usize) -> Option<Slot> {
        let now = self.runtime.now();
        let mut state = self.state();
        let state = &mut *state;
        self.heed(state);
        if state.halted {
            return None;
        }
        let slot = self.next(state, load, now)?;
        if state.feeds[load].makes_documents() {
            state.making += 1;
        }
        Some(slot)
    }

    fn next(&self, state: &mut State<T::Lane>, load: usize, now: Instant) -> Option<Slot> {
        let end = self.order.end();
        let feed = &mut state.feeds[load];
        let drained = end.is_some_and(|end| now >= end + self.order.phase.drain.as_ns());
        while let Some(slot) = feed.take_overdue() {
            if !drained && !feed.is_too_late(&slot, now) {
                return Some(slot);
            }
            state.tallies[slot.operation].skipped += 1;
        }
        if feed.is_closed() && end.is_some_and(|end| now >= end) {
            return None;
        }
        let slot = feed.take_scheduled(self.order.start, end);
        if slot.is_none() && feed.is_over() {
            state.ended = state.ended.max(Ended::Operations);
        }
        slot
    }

    /// Ends the phase for this worker when somebody asked to stop, or when the documents of all workers are sent.
    fn heed(&self, state: &mut State<T::Lane>) {
        if self.control.is_stopped() {
            state.halt(Ended::Interrupted);
        }
        if self.order.supply.is_over() {
            state.halt(Ended::Documents);
        }
    }

    /// Waits until a slot is due; gives its due and awake instants, or nothing if the phase was stopped meanwhile.
    async fn wait_for(&self, slot: &Slot) -> Option<(Instant, Instant)> {
        let Some(due) = slot.due else {
            let now = self.runtime.now();
            return Some((now, now));
        };
        if let Some(awake) = slot.awake {
            return Some((due, awake));
        }
        loop {
            let now = self.runtime.now();
            if now >= due {
                return Some((due, now));
            }
            self.runtime.until(due.min(now + LOOK_NS)).await;
            if self.is_halted() {
                return None;
            }
        }
    }

    fn is_halted(&self) -> bool {
        let mut state = self.state();
        self.heed(&mut state);
        state.halted
    }

    fn record(&self, slot: &Slot, at: &Instants, reply: &Reply) {
        let mut state = self.state();
        if slot.awake.is_none() {
            state.tallies[slot.operation].due += 1;
        }
        state.hear(Heard::of(reply.outcome), at.done, self.order.phase.unreachable_for.as_ns());
        state.record(slot.operation, at, reply, self.order.start);
    }

    /// There are no documents left for a load; those of a worker are shared by all its loads that make some.
    fn exhaust(&self, load: usize) {
        let mut state = self.state();
        if !state.feeds[load].makes_documents() {
            return state.feeds[load].exhaust();
        }
        state.ended = state.ended.max(Ended::Documents);
        state.feeds.iter_mut().filter(|feed| feed.makes_documents()).for_each(Feed::exhaust);
    }

    /// Notes at its due time each operation of a load that no lane has taken.
    async fn notice(self: Arc<Self>, load: usize) {
        let (start, end) = (self.order.start, self.order.end());
        loop {
            let next = self.state().feeds[load].next_due(start, end);
            let Some(due) = next else { return };
            self.runtime.until(due.min(self.runtime.now() + LOOK_NS)).await;
            let now = self.runtime.now();
            let mut state = self.state();
            let state = &mut *state;
            if state.halted || state.lanes_live == 0 {
                return;
            }
            while let Some(slot) = state.feeds[load].notice(start, end, now) {
                state.tallies[slot.operation].due += 1;
            }
        }
    }

    /// Opens a connection, however often it takes; nothing if the phase ends before.
    async fn connect(&self, load: usize) -> Option<T::Lane> {
        let mut pause_ns = BACKOFF_NS.0;
        loop {
            let tried = self.runtime.now();
            let opened = self.target.open().await.ok();
            if self.is_settled(load, opened.is_some(), tried) {
                return opened;
            }
            self.runtime.until(self.runtime.now() + pause_ns).await;
            pause_ns = (pause_ns * 2).min(BACKOFF_NS.1);
        }
    }

    /// Whether there is no further attempt to connect after the one that began at `tried`: it is open, or the phase is
    /// over.
    fn is_settled(&self, load: usize, open: bool, tried: Instant) -> bool {
        let now = self.runtime.now();
        let mut state = self.state();
        if open {
            state.silent_since = None;
            return true;
        }
        state.silent_since.get_or_insert(tried);
        state.hear(Heard::Nothing, now, self.order.phase.unreachable_for.as_ns());
        self.heed(&mut state);
        let over = self.order.end().is_some_and(|end| now >= end);
        state.halted || over || state.feeds[load].is_dry()
    }

    fn leave(&self) {
        let mut state = self.state();
        state.lanes_live -= 1;
        if state.lanes_live == 0 {
            state.skip_the_rest();
            if state.supply == Held::Yes {
                // Whatever ended it: nobody waits for its documents any more.
                state.supply = Held::No;
                self.order.supply.leave();
            }
            state.reporter.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Hands over each second as it ends, until the last lane has left.
    async fn report(&self, mut sink: impl FnMut(Slice)) {
        let start = self.order.start;
        self.runtime.until(start).await;
        let (mut from_ns, mut before) = (0, self.used());
        loop {
            let to_ns = next_boundary(from_ns, self.order.phase.stop.duration.map(|span| span.as_ns()));
            let over = self.second_or_end(start + to_ns).await;
            let to_ns = if over { self.runtime.now().since(start).clamp(from_ns, to_ns) } else { to_ns };
            let used = self.used();
            sink(self.slice(from_ns, to_ns, used.since(before)));
            self.target.tick();
            (from_ns, before) = (to_ns, used);
            if over {
                return;
            }
        }
    }

    /// Waits for a moment; true if all lanes left before it.
    async fn second_or_end(&self, at: Instant) -> bool {
        let left = poll_fn(|context| {
            let mut state = self.state();
            state.reporter = Some(context.waker().clone());
            if state.lanes_live == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        matches!(select(pin!(left), pin!(self.runtime.until(at))).await, Either::Left(_))
    }

    fn used(&self) -> Used {
        Used { cpu_ns: self.runtime.thread_cpu_ns(), switches: self.runtime.thread_switches() }
    }

    fn slice(&self, from_ns: u64, to_ns: u64, used: Used) -> Slice {
        let fresh = vec![Tally::default(); self.order.operations];
        let mut state = self.state();
        Slice {
            from_ns,
            to_ns,
            tallies: std::mem::replace(&mut state.tallies, fresh),
            tenths: std::mem::take(&mut state.tenths),
            cpu_ns: used.cpu_ns,
            switches: used.switches,
            reconnects: std::mem::take(&mut state.reconnects),
        }
    }

    fn end(&self) -> End<T::Lane> {
        let mut state = self.state();
        End {
            ended: state.ended,
            lanes: std::mem::take(&mut state.lanes_done),
            to_ns: self.runtime.now().since(self.order.start),
        }
    }
}

/// What the worker's thread has used.
#[derive(Clone, Copy)]
struct Used {
    cpu_ns: u64,
    switches: Option<u64>,
}

impl Used {
    fn since(self, before: Self) -> Self {
        let switches = self.switches.zip(before.switches).map(|(now, before)| now.saturating_sub(before));
        Self { cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns), switches }
    }
}

/// Why a lane stopped sending.
enum Left {
    /// Its connection is lost.
    Broken,
    /// Nothing is left to send.
    Over,
}

/// The end of the second that starts at `from_ns`; the phase's end is a boundary too.
fn next_boundary(from_ns: u64, duration_ns: Option<u64>) -> u64 {
    let second = (from_ns / SECOND_NS + 1) * SECOND_NS;
    duration_ns.filter(|end| *end > from_ns).map_or(second, |end| end.min(second))
}
