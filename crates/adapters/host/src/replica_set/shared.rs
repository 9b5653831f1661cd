//! Holds the set that all members share: one lock, and the commands that wait for a change.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_measure::clock;

use super::state::State;

/// The longest pause between two looks at the set.
const TICK: Duration = Duration::from_millis(10);

/// The set that all members share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub set_name: String,
    /// The addresses of the members.
    pub names: Vec<String>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub fn new(set_name: String, names: Vec<String>, state: State) -> Self {
        Self { set_name, names, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = clock::now();
        state
    }

    /// Changes the set, and wakes all commands that wait.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits, at most for `limit`, until `is_done`; returns the state, and whether it is done.
    pub fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Duration,
        mut is_done: impl FnMut(&mut State) -> bool,
    ) -> (MutexGuard<'a, State>, bool) {
        let (mut state, started) = (state, clock::now());
        loop {
            if is_done(&mut state) {
                return (state, true);
            }
            let waited = Duration::from_nanos(clock::now().since(started));
            let left = limit.saturating_sub(waited);
            if left.is_zero() {
                return (state, false);
            }
            // Entries grow old without an event.
            let woken = self.changed.wait_timeout(state, left.min(TICK));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.now = clock::now();
        }
    }
}
