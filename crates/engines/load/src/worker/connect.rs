//! Connects a lane, and reconnects it.

use plimsoll_measure::clock::{Instant, MILLISECOND_NS};

use super::WorkerShared;
use super::state::Contact;
use crate::runtime::Runtime;
use crate::target::Target;

/// Shortest and longest backoff between reconnects, in nanoseconds.
const BACKOFF_NS: (u64, u64) = (10 * MILLISECOND_NS, 100 * MILLISECOND_NS);

/// Why a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// For the next operation, if there is one.
    Next,
    /// To retry the operation in flight.
    Again,
}

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// Connects, with as many retries as it takes; returns none if nothing is left to send.
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

    /// Whether the attempts to connect end after the one that began at `tried`: it succeeded, or nothing may be sent any
    /// more.
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

    /// Prepares a lane to retry the same operation; false if that is impossible or too late.
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

    /// Counts a lost connection.
    pub(super) fn lose(&self) {
        self.state().reconnects += 1;
    }
}
