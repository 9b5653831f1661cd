//! Holds the set that all members share: one lock, and the commands that wait for a change.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::state::State;

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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let waited = self.changed.wait_timeout_while(state, limit, |state| !is_done(state));
        let (state, ended) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, !ended.timed_out())
    }
}
