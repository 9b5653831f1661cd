//! One thread's work in one phase: lanes that take what is due, send it and time it.
//!
//! Every idle lane takes the next operation of the schedule before it is due, makes it ready and waits for its moment.
//! When all lanes are busy a pacer notes, at the due time, what nobody took; the next free lane sends that first. So
//! the schedule never waits for a response, nothing due is forgotten, and `awake` tells the tool's delay (nobody
//! looked) from waiting for a connection (everybody was busy).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures_util::future::{Either, select};
use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::interval::{Instants, Reply, Tally};

use crate::arrivals::{Schedule, Share};
use crate::mix::Mix;
use crate::phase::{Load, Overdue, Phase};
use crate::runtime::Runtime;
use crate::target::{Prepared, Target};

/// Length of the intervals on which a warm-up is looked for, in nanoseconds.
pub const TENTH_NS: u64 = 100 * MILLISECOND_NS;
/// A lane that waits for a far moment looks this often whether the phase was stopped, in nanoseconds.
const LOOK_NS: u64 = 100 * MILLISECOND_NS;
/// First and longest pause between attempts to connect again, in nanoseconds.
const BACKOFF_NS: (u64, u64) = (10 * MILLISECOND_NS, SECOND_NS);

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

/// How many lanes a worker needs for each load of a phase.
pub fn lanes_needed(phase: &Phase, share: Share) -> Vec<usize> {
    phase.loads.iter().map(|load| share.part(u64::from(load.arrivals.connections())) as usize).collect()
}

impl Order {
    /// Documents are shared by the workers that have a connection at all.
    fn documents_share(&self) -> Share {
        let connections = self.phase.loads.iter().map(|load| load.arrivals.connections()).max();
        narrowed(self.share, u64::from(connections.unwrap_or(1)))
    }

    fn end(&self) -> Option<Instant> {
        self.phase.stop.duration.map(|span| self.start + span.as_ns())
    }
}

/// The share among those workers that have one of `connections`.
const fn narrowed(share: Share, connections: u64) -> Share {
    Share { index: share.index, of: if share.of < connections { share.of } else { connections } }
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
    last_contact: Instant,
    ended: Ended,
    halted: bool,
    lanes_live: usize,
    lanes_done: Vec<L>,
    reporter: Option<Waker>,
}

/// Where the operations of one load come from.
struct Feed {
    mix: Mix,
    overdue_rule: Overdue,
    operations_left: Option<u64>,
    exhausted: bool,
    source: FeedSource,
}

enum FeedSource {
    Closed { next: u64, step: u64 },
    Open { schedule: Schedule, overdue: VecDeque<Slot> },
}

/// One operation of the schedule.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    operation: usize,
    /// When it is due; closed arrivals are due when they are sent.
    due: Option<Instant>,
    /// When the pacer noticed it, if no lane took it in time.
    awake: Option<Instant>,
}

impl Feed {
    fn new(load: &Load, share: Share, phase: &Phase, index: usize) -> Option<Self> {
        let seed = crate::mix::scramble(phase.seed, index as u64);
        let share = narrowed(share, u64::from(load.arrivals.connections()));
        let source = match Schedule::new(&load.arrivals, share, seed) {
            None => FeedSource::Closed { next: share.index, step: share.of },
            Some(schedule) => FeedSource::Open { schedule, overdue: VecDeque::new() },
        };
        let operations_left = phase.stop.operations.map(|total| share.part(total));
        let mix = Mix::new(&load.mix, seed)?;
        Some(Self { mix, overdue_rule: load.overdue, operations_left, exhausted: false, source })
    }

    /// The next operation in time, if it is due before `end`; marks it as taken.
    fn take_scheduled(&mut self, start: Instant, end: Option<Instant>) -> Option<Slot> {
        if self.exhausted || self.operations_left == Some(0) {
            return None;
        }
        let (due, number) = match &mut self.source {
            FeedSource::Closed { next, step } => {
                let number = *next;
                *next += *step;
                (None, number)
            }
            FeedSource::Open { schedule, .. } => {
                let due = start + schedule.peek()?.0;
                if end.is_some_and(|end| due >= end) {
                    return None;
                }
                (Some(due), schedule.take()?.1)
            }
        };
        self.operations_left = self.operations_left.map(|left| left - 1);
        Some(Slot { number, operation: self.mix.pick(number), due, awake: None })
    }

    fn next_due(&self, start: Instant, end: Option<Instant>) -> Option<Instant> {
        match &self.source {
            FeedSource::Open { schedule, .. } if !self.exhausted && self.operations_left != Some(0) => {
                schedule
                    .peek()
                    .map(|(due_ns, _)| start + due_ns)
                    .filter(|due| end.is_none_or(|end| *due < end))
            }
            _ => None,
        }
    }

    fn overdue(&mut self) -> Option<&mut VecDeque<Slot>> {
        match &mut self.source {
            FeedSource::Open { overdue, .. } => Some(overdue),
            FeedSource::Closed { .. } => None,
        }
    }

    fn is_too_late(&self, slot: &Slot, now: Instant) -> bool {
        match (self.overdue_rule, slot.due) {
            (Overdue::Skip { after }, Some(due)) => now.since(due) > after.as_ns(),
            _ => false,
        }
    }
}

impl<L> State<L> {
    fn record(&mut self, operation: usize, at: &Instants, reply: &Reply, start: Instant) {
        let index = at.done.since(start) / TENTH_NS;
        if self.tenths.last().is_none_or(|tenth| tenth.index < index) {
            self.tenths.push(Tenth { index, count: 0, documents: 0, response: Histogram::with_digits(2) });
        }
        let tally = &mut self.tallies[operation];
        let before = tally.count;
        tally.record(at, reply);
        if let Some(tenth) = self.tenths.last_mut().filter(|_| tally.count > before) {
            tenth.count += 1;
            tenth.documents += reply.documents;
            tenth.response.record(at.response_ns());
        }
    }

    fn halt(&mut self, ended: Ended) {
        self.halted = true;
        self.ended = self.ended.max(ended);
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
            last_contact: order.start,
            ended: Ended::Duration,
            halted: false,
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
                None => self.connect().await,
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

    /// A connection is lost: from now on it counts how long the server stays away.
    fn lose(&self) {
        let now = self.runtime.now();
        let mut state = self.state();
        state.reconnects += 1;
        state.last_contact = state.last_contact.max(now);
    }

    /// Sends one operation after the other until none is left or the connection is lost.
    async fn serve_connected(&self, load: usize, lane: &mut T::Lane) -> Left {
        while let Some(slot) = self.take(load) {
            if self.target.prepare(lane, slot.operation, slot.number) == Prepared::Exhausted {
                self.exhaust(load);
                return Left::Over;
            }
            let Some((due, awake)) = self.wait_for(&slot).await else {
                self.target.discard(lane);
                return Left::Over;
            };
            // A lane that woke in time sends at once; only one that was late reads the clock again.
            let sent = if slot.awake.is_some() { self.runtime.now() } else { awake };
            let reply = self.target.send(lane).await;
            let at = Instants { due, awake, sent, done: self.runtime.now() };
            self.record(&slot, &at, &reply);
            if self.target.is_broken(lane) {
                return Left::Broken;
            }
        }
        Left::Over
    }

    /// The next operation for a free lane: what is overdue first, then what the schedule has next.
    fn take(&self, load: usize) -> Option<Slot> {
        let now = self.runtime.now();
        let end = self.order.end();
        let mut state = self.state();
        let state = &mut *state;
        if self.control.is_stopped() {
            state.halt(Ended::Interrupted);
        }
        if state.halted {
            return None;
        }
        let feed = &mut state.feeds[load];
        let drained = end.is_some_and(|end| now >= end + self.order.phase.drain.as_ns());
        while let Some(slot) = feed.overdue().and_then(VecDeque::pop_front) {
            if !drained && !feed.is_too_late(&slot, now) {
                return Some(slot);
            }
            state.tallies[slot.operation].skipped += 1;
        }
        if feed.source.is_closed() && end.is_some_and(|end| now >= end) {
            return None;
        }
        let slot = feed.take_scheduled(self.order.start, end);
        if slot.is_none() && feed.operations_left == Some(0) {
            state.ended = state.ended.max(Ended::Operations);
        }
        slot
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
        if self.control.is_stopped() {
            state.halt(Ended::Interrupted);
        }
        state.halted
    }

    fn record(&self, slot: &Slot, at: &Instants, reply: &Reply) {
        let mut state = self.state();
        if slot.awake.is_none() {
            state.tallies[slot.operation].due += 1;
        }
        if !matches!(reply.outcome, plimsoll_measure::outcome::Outcome::Unknown(_)) {
            state.last_contact = at.done;
        }
        state.record(slot.operation, at, reply, self.order.start);
    }

    /// There are no documents left: every load of this worker ends.
    fn exhaust(&self, load: usize) {
        let mut state = self.state();
        state.ended = state.ended.max(Ended::Documents);
        state.feeds[load].exhausted = true;
        for feed in &mut state.feeds {
            feed.exhausted = true;
            if let Some(overdue) = feed.overdue() {
                overdue.clear();
            }
        }
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
            let feed = &mut state.feeds[load];
            while feed.next_due(start, end).is_some_and(|due| due <= now) {
                let Some(slot) = feed.take_scheduled(start, end) else { break };
                state.tallies[slot.operation].due += 1;
                feed.overdue()
                    .into_iter()
                    .for_each(|queue| queue.push_back(Slot { awake: Some(now), ..slot }));
            }
        }
    }

    /// Opens a connection, however often it takes; nothing if the phase ends before.
    async fn connect(&self) -> Option<T::Lane> {
        let mut pause_ns = BACKOFF_NS.0;
        loop {
            let opened = self.target.open().await.ok();
            let now = self.runtime.now();
            if self.is_settled(opened.is_some(), now) {
                return opened;
            }
            self.runtime.until(now + pause_ns).await;
            pause_ns = (pause_ns * 2).min(BACKOFF_NS.1);
        }
    }

    /// Whether there is no further attempt to connect: it is open, or the phase is over.
    fn is_settled(&self, open: bool, now: Instant) -> bool {
        let mut state = self.state();
        if open {
            state.last_contact = now;
            return true;
        }
        if now.since(state.last_contact) >= self.order.phase.unreachable_for.as_ns() {
            state.halt(Ended::Unreachable);
        }
        if self.control.is_stopped() {
            state.halt(Ended::Interrupted);
        }
        state.halted || self.order.end().is_some_and(|end| now >= end)
    }

    fn leave(&self) {
        let mut state = self.state();
        state.lanes_live -= 1;
        if state.lanes_live == 0 {
            state.reporter.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Hands over each second as it ends, until the last lane has left.
    async fn report(&self, mut sink: impl FnMut(Slice)) {
        let start = self.order.start;
        self.runtime.until(start).await;
        let (mut from_ns, mut cpu_ns) = (0, self.runtime.thread_cpu_ns());
        loop {
            let to_ns = next_boundary(from_ns, self.order.phase.stop.duration.map(|span| span.as_ns()));
            let over = self.second_or_end(start + to_ns).await;
            let to_ns = if over { self.runtime.now().since(start).clamp(from_ns, to_ns) } else { to_ns };
            let used = self.runtime.thread_cpu_ns();
            sink(self.slice(from_ns, to_ns, used - cpu_ns));
            self.target.tick();
            (from_ns, cpu_ns) = (to_ns, used);
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

    fn slice(&self, from_ns: u64, to_ns: u64, cpu_ns: u64) -> Slice {
        let fresh = vec![Tally::default(); self.order.operations];
        let mut state = self.state();
        Slice {
            from_ns,
            to_ns,
            tallies: std::mem::replace(&mut state.tallies, fresh),
            tenths: std::mem::take(&mut state.tenths),
            cpu_ns,
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

/// Why a lane stopped sending.
enum Left {
    /// Its connection is lost.
    Broken,
    /// Nothing is left to send.
    Over,
}

impl FeedSource {
    const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}

/// The end of the second that starts at `from_ns`; the phase's end is a boundary too.
fn next_boundary(from_ns: u64, duration_ns: Option<u64>) -> u64 {
    let second = (from_ns / SECOND_NS + 1) * SECOND_NS;
    duration_ns.filter(|end| *end > from_ns).map_or(second, |end| end.min(second))
}
