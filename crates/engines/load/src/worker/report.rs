//! Reports a worker's counts, second by second.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::{Either, select};
use plimsoll_measure::clock::{Instant, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::Tally;

use super::{Slice, WorkerShared};
use crate::phase::Phase;
use crate::runtime::Runtime;
use crate::target::Target;

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// Reports each second as it ends, until the last lane has left.
    pub(super) async fn report(&self, mut sink: impl FnMut(Slice)) {
        let start = self.order.start;
        self.runtime.until(start).await;
        let ends = ends(&self.order.phase);
        let (mut from_ns, mut before) = (0, self.used());
        loop {
            let to_ns = next_boundary(from_ns, &ends);
            self.state().to_ns = to_ns;
            let over = self.second_or_end(start + to_ns).await;
            let to_ns = if over { self.runtime.now().since(start).clamp(from_ns, to_ns) } else { to_ns };
            let used = self.used();
            sink(self.slice(from_ns, to_ns, used.since(before), over));
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

    fn slice(&self, from_ns: u64, to_ns: u64, used: Used, is_last: bool) -> Slice {
        let first_errors = self.target.first_errors();
        let mut state = self.state();
        let mut next = std::mem::take(&mut state.late);
        next.resize_with(self.layout.len(), Tally::default);
        let mut tallies = std::mem::replace(&mut state.tallies, next);
        if is_last {
            tallies.iter_mut().zip(&state.tallies).for_each(|(sum, late)| sum.merge(late));
        }
        let now = self.order.start + to_ns;
        Slice {
            from_ns,
            to_ns,
            parts: self.layout.fold(&mut tallies),
            tallies,
            tenths: std::mem::take(&mut state.tenths),
            cpu_ns: used.cpu_ns,
            switches: used.switches,
            reconnects: std::mem::take(&mut state.reconnects),
            silent_ns: state.silent_since.map_or(0, |since| now.since(since)),
            first_errors,
            due_seconds: state.due_seconds.take(),
        }
    }
}

/// CPU and context switches of the worker's thread.
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

/// The ends of the phase and its loads, in nanoseconds from its start. Seconds are cut there, to separate
/// late operations.
pub(super) fn ends(phase: &Phase) -> Vec<u64> {
    let loads = phase.loads.iter().filter_map(|load| load.end(phase.stop));
    loads.chain(phase.stop.duration).map(Span::as_ns).collect()
}

/// The end of the second that starts at `from_ns`, or the first of `ends` in it.
pub(super) fn next_boundary(from_ns: u64, ends: &[u64]) -> u64 {
    let second = (from_ns / SECOND_NS + 1) * SECOND_NS;
    ends.iter().copied().filter(|end| *end > from_ns).fold(second, u64::min)
}
