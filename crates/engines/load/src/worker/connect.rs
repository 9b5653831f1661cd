//! How a lane gets its connection, and gets it back.

use plimsoll_measure::clock::{Instant, MILLISECOND_NS};

use super::WorkerShared;
use super::state::Contact;
use crate::runtime::Runtime;
use crate::target::Target;

/// First and longest pause between attempts to connect again, in nanoseconds.
const BACKOFF_NS: (u64, u64) = (10 * MILLISECOND_NS, 100 * MILLISECOND_NS);

/// What a connection is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// The next operation, if there is one.
    Next,
    /// The one in flight, once more.
    Again,
}

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// Opens a connection, however often it takes; nothing if there is nothing left to send on it.
    pub(super) async fn connect(&self, load: usize, what: For) -> Option<T::Lane> {
        let mut pause_ns = BACKOFF_NS.0;
        loop {
            let tried = self.runtime.now();
            let opened = self.target.open().await.ok();
            if self.is_settled(load, what, opened.is_some(), tried) {
                return opened;
            }
            self.runtime.until(self.runtime.now() + pause_ns).await;
            pause_ns = (pause_ns * 2).min(BACKOFF_NS.1);
        }
    }

    /// Whether there is no further attempt to connect after the one that began at `tried`: it is open, or what it is for
    /// may not be sent any more.
    fn is_settled(&self, load: usize, what: For, open: bool, tried: Instant) -> bool {
        let now = self.runtime.now();
        let mut state = self.state();
        if open {
            state.silent_since = None;
            return true;
        }
        state.silent_since.get_or_insert(tried);
        state.note_contact(Contact::Nothing, now, self.order.phase.unreachable_for.as_ns());
        self.heed(&mut state);
        let queue = &state.queues[load];
        let over = if what == For::Again { queue.is_drained(now) } else { queue.is_spent(now) };
        state.halted || over
    }

    /// Makes a lane fit to send the same operation again; false if there is no way, or no time left.
    pub(super) async fn mend(&self, load: usize, lane: &mut T::Lane) -> bool {
        if !self.target.is_broken(lane) {
            return !self.is_halted() && !self.is_cut(load);
        }
        let Some(mut fresh) = self.connect(load, For::Again).await else { return false };
        if !self.target.carry(lane, &mut fresh) {
            return false;
        }
        self.lose();
        *lane = fresh;
        true
    }

    /// A connection is lost.
    pub(super) fn lose(&self) {
        self.state().reconnects += 1;
    }
}
