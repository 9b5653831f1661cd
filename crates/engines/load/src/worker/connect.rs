//! Connects a lane, and reconnects it.

use plimsoll_measure::clock::{Instant, MILLISECOND_NS};
use plimsoll_measure::outcome::{Outcome, Rejection};

use super::WorkerShared;
use super::state::Contact;
use crate::phase::Connections;
use crate::runtime::Runtime;
use crate::target::Target;

/// The shortest and longest backoff between reconnects, in nanoseconds.
const BACKOFF_NS: (u64, u64) = (10 * MILLISECOND_NS, 100 * MILLISECOND_NS);

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectFor {
    /// Send the next operation, if any.
    Next,
    /// Retry the operation in flight.
    Retry,
}

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// Connects, with as many retries as necessary; returns none if no operation is left to send.
    pub(super) async fn connect(&self, load: usize, what: ConnectFor) -> Option<T::Lane> {
        let mut pause_ns = BACKOFF_NS.0;
        loop {
            let attempted_at = self.runtime.now();
            let opened = self.target.open().await.ok();
            if self.is_settled(load, what, opened.is_some(), attempted_at) {
                return opened;
            }
            self.runtime.until(self.runtime.now() + pause_ns).await;
            pause_ns = (pause_ns * 2).min(BACKOFF_NS.1);
        }
    }

    /// Whether the attempts to connect end after the attempt at `attempted_at`: it succeeded, or no operation may be
    /// sent any more.
    fn is_settled(&self, load: usize, what: ConnectFor, open: bool, attempted_at: Instant) -> bool {
        let now = self.runtime.now();
        let mut state = self.state();
        if open {
            state.silent_since = None;
            return true;
        }
        state.silent_since.get_or_insert(attempted_at);
        state.note_contact(Contact::Nothing, now, self.order.phase.unreachable_for.as_ns());
        self.obey_stop(&mut state);
        let queue = &state.queues[load];
        let over = if what == ConnectFor::Retry { queue.is_drained(now) } else { queue.is_spent(now) };
        state.halted || over
    }

    /// Prepares a lane to retry the same operation; false if that is impossible or too late.
    pub(super) async fn reconnect_for_retry(&self, load: usize, lane: &mut T::Lane) -> bool {
        if !self.target.is_broken(lane) {
            return !self.is_halted() && !self.is_cut(load);
        }
        let Some(mut fresh) = self.connect(load, ConnectFor::Retry).await else { return false };
        if !self.target.carry(lane, &mut fresh) {
            return false;
        }
        self.count_lost_connection();
        *lane = fresh;
        true
    }

    /// Whether each operation of a load opens a connection.
    pub(super) fn opens_each(&self, load: usize) -> bool {
        self.order.phase.loads[load].connections == Connections::PerOperation
    }

    /// Closes the connection of an operation. After an operation without a connection the writer pauses, so
    /// that its attempts stay few.
    pub(super) async fn hang_up(&self, lane: &mut T::Lane, outcome: Outcome) {
        self.target.hang_up(lane);
        if let Outcome::Rejected(Rejection::NotTried | Rejection::NoLocalPort) = outcome {
            self.runtime.until(self.runtime.now() + BACKOFF_NS.0).await;
        }
    }

    /// Counts a lost connection.
    pub(super) fn count_lost_connection(&self) {
        self.state().reconnects += 1;
    }
}
