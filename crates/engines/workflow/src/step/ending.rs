//! Ends an instance: compensation first, then the last effects.

use super::call::call_at;
use super::run::Run;
use crate::instance::{
    Body, DeadLetter, DeadReason, Ended, Ending, How, Signal, Status, TaskStatus, Token, Wait, Work,
};

impl Run<'_> {
    /// Drops all tokens and begins the compensation. It waits for the limits of dropped calls that it undoes, and so does not overtake them.
    pub fn begin_ending(&mut self, ending: Ending, words: String) {
        let tokens = std::mem::take(&mut self.state.tokens);
        let over_ms = tokens.iter().filter_map(|token| self.over_ms(token)).max();
        tokens.iter().for_each(|token| self.clean_up(token));
        let id = self.next_visit();
        let at = self.program.undo;
        let token = Token { id, at, visit: id, wait: Wait::Ready, parent: None, loops: Vec::new() };
        self.state.tokens.push(token);
        self.state.ending = Some(ending);
        self.state.error = Some(words);
        self.state.status = Status::Compensating;
        if let Some(due_ms) = over_ms {
            self.stay(0, Wait::Timer { due_ms });
        }
    }

    /// The moment when a dropped call with a compensation is over, if an attempt may be in flight.
    fn over_ms(&self, token: &Token) -> Option<u64> {
        let Wait::Call { due_ms, .. } = token.wait else { return None };
        let call = call_at(self.program, token.at).filter(|call| call.compensate.is_some())?;
        let may_be_in_flight = self.may_have_begun(token) && due_ms <= self.now_ms;
        may_be_in_flight.then(|| self.now_ms.saturating_add(call.timeout_ms))
    }

    /// Whether an attempt of a token's call may have begun.
    fn may_have_begun(&self, token: &Token) -> bool {
        matches!(token.wait, Wait::Call { attempt, .. } if attempt > 1 || token.visit <= self.visits_before)
    }

    /// Begins the next compensation, or ends.
    pub fn undo(&mut self, index: usize) {
        match (self.state.undo.pop(), self.state.ending) {
            (Some(at), _) => self.go(index, at),
            (None, Some(Ending::Cancelled)) => self.finish(Status::Cancelled),
            (None, Some(Ending::Failed) | None) => self.finish(Status::Failed),
        }
    }

    pub fn finish(&mut self, status: Status) {
        self.state.tokens.clear();
        self.state.undo.clear();
        self.state.status = status;
        self.bury_kept();
        let Some(parent) = self.state.parent.clone() else { return };
        let now_ms = self.now_ms;
        self.effect(|state, _| {
            let error = state.error.clone().filter(|_| status != Status::Done);
            let ended = Ended { visit: parent.visit, status, data: state.data.clone(), error };
            Work::Signal(Signal::new(
                parent.instance,
                format!("ended:{}", state.id),
                Body::Ended(ended),
                now_ms,
            ))
        });
    }

    /// Makes dead letters of signals that nothing waited for. They no longer count as applied, so that they
    /// can be sent again.
    fn bury_kept(&mut self) {
        let buried_ms = self.now_ms;
        for signal in std::mem::take(&mut self.state.kept) {
            self.state.applied.retain(|id| *id != signal.id);
            self.effect(|_, _| Work::Bury(DeadLetter { signal, reason: DeadReason::Unused, buried_ms }));
        }
    }

    /// Drops all branches of a fork.
    pub fn drop_branches(&mut self, fork: u64) {
        while let Some(at) = self.state.tokens.iter().position(|token| token.parent == Some(fork)) {
            let token = self.state.tokens.remove(at);
            self.clean_up(&token);
            self.drop_branches(token.id);
        }
    }

    /// Ends the outside work of a dropped token.
    fn clean_up(&mut self, token: &Token) {
        if token.wait != Wait::Ready {
            self.close(token.visit, How::Cancelled);
        }
        match &token.wait {
            // The call may have happened, or may still happen.
            Wait::Call { .. } if self.may_have_begun(token) => {
                self.state.undo.extend(call_at(self.program, token.at).and_then(|call| call.compensate));
            }
            Wait::Task { .. } => self.write_task(token, TaskStatus::Closed, None),
            Wait::Child => {
                let now_ms = self.now_ms;
                let reason = "the parent no longer waits".to_owned();
                self.effect(|state, _| {
                    let child = state.visit_id(token.visit);
                    let id = format!("cancel:{child}");
                    Work::Signal(Signal::new(child, id, Body::Cancel { reason }, now_ms))
                });
            }
            _ => {}
        }
    }
}
