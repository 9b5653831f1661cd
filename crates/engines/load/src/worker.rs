//! Runs one thread's part of a phase: its lanes take due operations, send them and time them.
//!
//! Every idle lane takes the next operation of the schedule before it is due, prepares it and waits for its
//! moment. When all lanes are busy, a pacer notes each operation at its due time. The next free lane of any
//! worker sends the oldest noted operation first; an idle lane of another worker puts its own operation back
//! to do so. So the schedule never waits for a response, no due operation is forgotten, and `awake` separates
//! the tool's delay (no task was awake) from waiting for a connection (all lanes were busy).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use plimsoll_measure::clock::{Instant, MILLISECOND_NS};
use plimsoll_measure::interval::{Instants, Reply, Tally};

use crate::due_second::DueSeconds;
use crate::operation_queue::{OperationQueue, Slot};
use crate::runtime::Runtime;
use crate::target::{Prepared, Target};

mod backlogs;
mod control;
mod order;
mod slice;

mod state;
mod writer;

mod connect;
mod due;
mod grace;
mod idle;
mod report;

pub use backlogs::Backlogs;
pub use control::{Control, Ended, Supply};
pub use order::{Order, is_supplier, lanes_needed};
pub use slice::{Part, Slice, TENTH_NS, Tenth};

use due::note_the_last;
use idle::Waited;
use slice::TallyLayout;
use state::{Contact, DocumentsLeft, State};
use writer::{Turn, Writer};

/// The interval at which a waiting lane checks whether the phase was stopped, in nanoseconds.
const CHECK_NS: u64 = 100 * MILLISECOND_NS;

/// The end of a worker's phase.
#[derive(Debug)]
pub struct End<L> {
    /// The reason.
    pub ended: Ended,
    /// The connections, for the next phase.
    pub lanes: Vec<L>,
    /// The end of the last operation, in nanoseconds from the phase's start.
    pub to_ns: u64,
}

/// Runs one worker's share of a phase to its end, on the thread of `runtime`. `lanes` are open connections;
/// missing ones are opened. `sink` receives each second as it ends.
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
    let worker = Arc::new(WorkerShared::new(runtime, target, order, control));
    worker.start(lanes);
    worker.report(sink).await;
    worker.end()
}

/// State that the lanes of one worker share. They run on one thread, so the lock is never contended.
struct WorkerShared<R, T: Target> {
    runtime: R,
    target: Arc<T>,
    order: Order,
    /// The worker's index in the process.
    index: usize,
    control: Control,
    layout: TallyLayout,
    /// For each load, whether its operations in flight are given up.
    cut: Vec<AtomicBool>,
    state: Mutex<State<T::Lane>>,
}

/// The reason why a lane stopped sending.
enum LaneEnd {
    /// The connection is lost.
    Broken,
    /// No operation is left to send.
    Over,
}

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    fn new(runtime: R, target: Arc<T>, order: Order, control: Control) -> Self {
        let phase = &order.phase;
        let layout = TallyLayout::new(phase, order.operations);
        let loads = 0..phase.loads.len();
        let index = order.backlogs.index_of(order.share);
        let queue = |load| {
            let backlog = (order.backlogs.of(load).clone(), index);
            OperationQueue::new(phase, load, order.share, order.start, layout.of(load), backlog)
        };
        let state = State {
            queues: loads.clone().filter_map(queue).collect(),
            tallies: vec![Tally::default(); layout.len()],
            late: Vec::new(),
            to_ns: report::next_boundary(0, &report::ends(phase)),
            tenths: Vec::new(),
            due_seconds: DueSeconds::new(phase.limits.clone()),
            reconnects: 0,
            silent_since: None,
            ended: Ended::Duration,
            halted: false,
            making: 0,
            supply: if is_supplier(phase, order.share) { DocumentsLeft::Yes } else { DocumentsLeft::No },
            lanes_live: 0,
            lanes_done: Vec::new(),
            waiting: Vec::new(),
            reporter: None,
        };
        let cut = loads.map(|_| AtomicBool::new(false)).collect();
        Self { runtime, target, order, index, control, layout, cut, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<T::Lane>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, lanes: Vec<T::Lane>) {
        let mut open = lanes.into_iter();
        for (load, needed) in lanes_needed(&self.order.phase, self.order.share).into_iter().enumerate() {
            self.state().lanes_live += needed;
            for lane in 0..needed {
                let writer = Writer::new(&self.order, load, lane as u64);
                self.runtime.spawn(self.clone().serve(writer, open.next()));
            }
            if needed > 0 {
                self.runtime.spawn(self.clone().notice(load));
                self.watch_grace(load);
            }
        }
        self.state().lanes_done.extend(open);
    }

    /// Runs a lane through this phase.
    async fn serve(self: Arc<Self>, mut writer: Writer, mut open: Option<T::Lane>) {
        self.runtime.until(self.order.start).await;
        self.register(writer.load).await;
        if open.is_none() {
            writer.lost_connection(self.order.start);
        }
        loop {
            let Some(mut lane) = (match open.take() {
                Some(lane) => Some(lane),
                None => self.connect(writer.load, connect::ConnectFor::Next).await,
            }) else {
                break;
            };
            if self.opens_each(writer.load) {
                self.target.hang_up(&mut lane);
            }
            match self.serve_connected(&mut writer, &mut lane).await {
                LaneEnd::Broken => self.count_lost_connection(),
                LaneEnd::Over => {
                    self.target.settle(&mut lane).await;
                    // A lane without a connection is of no use to the next phase.
                    if !self.opens_each(writer.load) {
                        self.state().lanes_done.push(lane);
                    }
                    break;
                }
            }
        }
        self.leave();
    }

    /// Sends operations until none is left or the connection is lost.
    async fn serve_connected(self: &Arc<Self>, writer: &mut Writer, lane: &mut T::Lane) -> LaneEnd {
        while self.wait_for_turn(writer).await {
            let Some(slot) = self.take_or_borrow(writer).await else { break };
            let left = self.step(writer, lane, slot).await;
            self.finish(writer.load);
            if let Some(left) = left {
                return left;
            }
        }
        LaneEnd::Over
    }

    /// Waits until a writer may send; false if it never may again.
    async fn wait_for_turn(&self, writer: &mut Writer) -> bool {
        while !writer.never_waits() {
            match writer.turn(self.runtime.now()) {
                Turn::Now => break,
                Turn::At(at) if self.pause(writer.load, at).await => {}
                Turn::At(_) => return false,
                Turn::Never(ended) => {
                    let mut state = self.state();
                    state.ended = state.ended.max(ended);
                    return false;
                }
            }
        }
        true
    }

    /// Waits for a moment; false if the load ends before it.
    async fn pause(&self, load: usize, at: Instant) -> bool {
        loop {
            let now = self.runtime.now();
            if now >= at {
                return true;
            }
            let end = {
                let mut state = self.state();
                self.obey_stop(&mut state);
                if state.halted || state.queues[load].is_spent(now) {
                    note_the_last(&mut state, load);
                    return false;
                }
                state.queues[load].end()
            };
            self.runtime.until(at.min(now + CHECK_NS).min(end.unwrap_or(at))).await;
        }
    }

    /// Runs one operation from its preparation to its answer; returns why the lane must stop, if it must.
    async fn step(
        self: &Arc<Self>,
        writer: &mut Writer,
        lane: &mut T::Lane,
        mut slot: Slot,
    ) -> Option<LaneEnd> {
        let (due, awake, sent) = loop {
            if self.target.prepare(lane, slot.operation, slot.number) == Prepared::Exhausted {
                self.exhaust(writer.load, &slot);
                return Some(LaneEnd::Over);
            }
            match self.wait_for(writer, &slot).await {
                Waited::Due { due, awake, sent } => break (due, awake, sent),
                Waited::Called(overdue) => {
                    self.target.discard(lane);
                    self.put_back(writer.load, slot);
                    slot = overdue;
                }
                Waited::Stopped => {
                    self.target.discard(lane);
                    return Some(LaneEnd::Over);
                }
            }
        };
        let (reply, retries) = self.send(writer.load, lane).await;
        let at = Instants { due, awake, sent, done: self.runtime.now() };
        self.record(writer.load, &slot, &at, &reply, retries);
        writer.ended(at.done);
        if self.opens_each(writer.load) {
            self.hang_up(lane, reply.outcome).await;
        }
        if !self.target.is_broken(lane) {
            return None;
        }
        writer.lost_connection(at.done);
        Some(LaneEnd::Broken)
    }

    /// Sends the prepared operation with its retries; returns the last answer, with the bytes of all
    /// attempts, and the number of retries.
    async fn send(&self, load: usize, lane: &mut T::Lane) -> (Reply, u64) {
        let mut reply = self.answer(load, lane).await;
        let (mut retries, mut earlier) = (0, (0, 0));
        let retry = self.target.retry(lane, self.order.phase.retry);
        while retry.again(reply.outcome, self.target.is_retryable(lane, reply.outcome), retries)
            && self.reconnect_for_retry(load, lane).await
        {
            retries += 1;
            earlier = (earlier.0 + reply.bytes_sent, earlier.1 + reply.bytes_received);
            reply = self.answer(load, lane).await;
        }
        reply.bytes_sent += earlier.0;
        reply.bytes_received += earlier.1;
        (reply, retries)
    }

    /// Ends the phase for this worker if a stop was requested, or when the documents of all workers are sent.
    fn obey_stop(&self, state: &mut State<T::Lane>) {
        if let Some(ended) = self.control.asked() {
            state.halt(ended);
        }
        if self.order.supply.is_over() {
            state.halt(Ended::Documents);
        }
    }

    fn is_halted(&self) -> bool {
        let mut state = self.state();
        self.obey_stop(&mut state);
        state.halted
    }

    fn record(&self, load: usize, slot: &Slot, at: &Instants, reply: &Reply, retries: u64) {
        let mut state = self.state();
        let ended_ns = at.done.since(self.order.start);
        state.tallies_at(ended_ns)[slot.tally].retries += retries;
        if slot.awake.is_none() {
            // It counts as due in the interval in which it ends.
            state.become_due(load, slot, self.order.start, ended_ns);
        }
        state.note_contact(Contact::of(reply.outcome), at.done, self.order.phase.unreachable_for.as_ns());
        state.record(load, slot, at, reply, self.order.start);
        state.queues[load].done(slot.operation, at.service_ns());
    }

    fn leave(&self) {
        let mut state = self.state();
        state.lanes_live -= 1;
        if self.order.backlogs.leave() {
            state.skip_the_rest(self.order.start);
        }
        if state.lanes_live == 0 {
            if state.supply == DocumentsLeft::Yes {
                // However this worker ended, no other worker waits for its documents any more.
                state.supply = DocumentsLeft::No;
                self.order.supply.leave();
            }
            state.reporter.take().into_iter().for_each(Waker::wake);
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
