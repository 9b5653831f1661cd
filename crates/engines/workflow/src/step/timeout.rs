//! Fires timers and timeouts.

use serde_json::Value;

use super::run::Run;
use super::{Ignored, Outcome};
use crate::definition::OnTimeout;
use crate::instance::{Ending, How, TaskStatus, Wait};
use crate::program::Kind;

impl Run<'_> {
    pub fn due(&mut self) -> Outcome {
        if !self.state.status.is_active() {
            return Outcome::Ignored(Ignored::NotDue);
        }
        let mut fired = false;
        while let Some(index) = self.first_due() {
            fired = true;
            if let Wait::Timer { .. } = self.token(index).wait {
                self.pass(index);
            } else if !self.timed_out(index) {
                break;
            }
        }
        let ready = !self.is_outbox_full() && self.state.tokens.iter().any(|token| token.wait == Wait::Ready);
        if fired || ready { Outcome::Applied } else { Outcome::Ignored(Ignored::NotDue) }
    }

    /// Moves a token whose timer has fired.
    fn pass(&mut self, index: usize) {
        let at = self.token(index).at;
        if at == self.program.undo {
            // The compensation waited for dropped calls, and begins.
            self.close(self.token(index).visit, How::Done);
            self.go(index, at);
        } else {
            self.leave(index);
        }
    }

    /// The token whose moment passed first.
    fn first_due(&self) -> Option<usize> {
        let due = self.state.tokens.iter().enumerate().filter_map(|(index, token)| match &token.wait {
            Wait::Timer { due_ms } => Some((*due_ms, index)),
            Wait::Signal { due_ms } | Wait::Task { due_ms, .. } => due_ms.map(|due_ms| (due_ms, index)),
            _ => None,
        });
        due.filter(|(due_ms, _)| *due_ms <= self.now_ms).min().map(|(_, index)| index)
    }

    /// Applies a timeout; returns whether the instance goes on.
    fn timed_out(&mut self, index: usize) -> bool {
        let (on, result) = match self.program.node(self.token(index).at).map(|node| &node.kind) {
            Some(Kind::Wait(wait)) => (wait.on_timeout, wait.result.as_ref()),
            Some(Kind::Task(task)) => (task.on_timeout, task.result.as_ref()),
            _ => (OnTimeout::Fail, None),
        };
        self.close(self.token(index).visit, How::TimedOut);
        if on == OnTimeout::Fail {
            let path = self.program.node(self.token(index).at).map_or("", |node| node.path.as_str());
            self.begin_ending(Ending::Failed, format!("`{path}` timed out"));
            return false;
        }
        self.write_task(&self.token(index).clone(), TaskStatus::Closed, None);
        self.set(result, Value::Null);
        self.leave(index);
        true
    }
}
