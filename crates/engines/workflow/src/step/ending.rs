//! Ends an instance: compensation first, then the last effects.

use super::run::Run;
use crate::instance::{
    Body, DeadLetter, DeadReason, Ended, Ending, How, Signal, Status, TaskStatus, Token, Wait, Work,
};

impl Run<'_> {
    /// Drops all tokens and begins the compensation.
    pub fn begin_ending(&mut self, ending: Ending, words: String) {
        let tokens = std::mem::take(&mut self.state.tokens);
        tokens.iter().for_each(|token| self.clean_up(token));
        let id = self.next_visit();
        let at = self.program.undo;
        let token = Token { id, at, visit: id, wait: Wait::Ready, parent: None, loops: Vec::new() };
        self.state.tokens.push(token);
        self.state.ending = Some(ending);
        self.state.error = Some(words);
        self.state.status = Status::Compensating;
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
