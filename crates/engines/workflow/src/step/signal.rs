//! Applies signals.

use super::run::Run;
use super::{Ignored, Outcome};
use crate::instance::{Body, DeadReason, Ended, Ending, KEPT_MAX, KEPT_WEIGHT_MAX, Signal, Status, Wait};
use crate::program::Kind;

impl<'a> Run<'a> {
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        if self.state.applied.contains(&signal.id) {
            return Outcome::Ignored(Ignored::Duplicate);
        }
        let frees = matches!(signal.body, Body::Retry | Body::Cancel { .. });
        if self.state.status == Status::Quarantined && !frees {
            return Outcome::Refused(DeadReason::Quarantined);
        }
        if matches!(signal.body, Body::Unreadable(_)) {
            return Outcome::Refused(DeadReason::Unreadable);
        }
        let id = signal.id.clone();
        let outcome = if self.state.status.is_ended() { after_end(&signal) } else { self.deliver(signal) };
        if outcome == Outcome::Applied {
            self.state.remember(id);
        }
        outcome
    }

    fn deliver(&mut self, signal: Signal) -> Outcome {
        match &signal.body {
            Body::Named { .. } => self.named(signal),
            Body::Act { visit, by, roles, act } => self.act(*visit, by, roles, act),
            Body::Cancel { reason } => self.cancel(reason),
            Body::Retry => self.retry(),
            Body::Ended(ended) => self.child_ended(ended),
            // The worker knows the other version, and applies `migrate`.
            Body::Migrate { .. } | Body::Unreadable(_) => Outcome::Refused(DeadReason::Refused),
        }
    }

    fn named(&mut self, signal: Signal) -> Outcome {
        let Body::Named { name, body } = &signal.body else { return Outcome::Refused(DeadReason::Refused) };
        let waiting = self.state.tokens.iter().position(|token| {
            matches!(token.wait, Wait::Signal { .. })
                && self.wait_at(token.at).is_some_and(|wait| wait.signal == *name)
        });
        if let Some(index) = waiting {
            let result = self.wait_at(self.token(index).at).and_then(|wait| wait.result.clone());
            self.set(result.as_ref(), body.clone());
            self.leave(index);
            return Outcome::Applied;
        }
        let weight = self.state.kept.iter().chain([&signal]).map(Signal::weight).sum::<usize>();
        if self.state.kept.len() >= KEPT_MAX || weight > KEPT_WEIGHT_MAX {
            return Outcome::Refused(DeadReason::Full);
        }
        self.state.kept.push_back(signal);
        Outcome::Applied
    }

    pub fn wait_at(&self, at: usize) -> Option<&'a crate::program::Wait> {
        match &self.program.node(at)?.kind {
            Kind::Wait(wait) => Some(wait),
            _ => None,
        }
    }

    fn cancel(&mut self, reason: &str) -> Outcome {
        if self.state.ending.is_some() {
            return Outcome::Ignored(Ignored::Stale);
        }
        self.begin_ending(Ending::Cancelled, format!("cancelled: {reason}"));
        Outcome::Applied
    }

    /// Lets a parked or quarantined instance go on. A call whose attempts are used up gets one more.
    fn retry(&mut self) -> Outcome {
        if !matches!(self.state.status, Status::Parked | Status::Quarantined) {
            return Outcome::Refused(DeadReason::Refused);
        }
        let ending = self.state.ending.is_some();
        self.state.status = if ending { Status::Compensating } else { Status::Running };
        self.state.error = None;
        Outcome::Applied
    }

    fn child_ended(&mut self, ended: &Ended) -> Outcome {
        let index = self.index_of(ended.visit).filter(|at| self.token(*at).wait == Wait::Child);
        let Some(index) = index else { return Outcome::Ignored(Ignored::Stale) };
        let Some(Kind::Child(child)) = self.program.node(self.token(index).at).map(|node| &node.kind) else {
            return Outcome::Ignored(Ignored::Stale);
        };
        if ended.status == Status::Done {
            self.set(child.result.as_ref(), ended.data.clone());
            self.leave(index);
        } else {
            let reason = ended.error.as_deref().unwrap_or_default();
            let words =
                format!("the workflow {} ended as {}: {reason}", child.definition, ended.status.name());
            self.exhausted(index, child.on_failure, child.result.as_ref(), words);
        }
        Outcome::Applied
    }
}

/// Decides about a signal to an ended instance. Messages between workflows may come late; all others must not disappear.
fn after_end(signal: &Signal) -> Outcome {
    match signal.body {
        Body::Ended(_) => Outcome::Ignored(Ignored::Stale),
        Body::Cancel { .. } if signal.id.starts_with("cancel:") => Outcome::Ignored(Ignored::Stale),
        _ => Outcome::Refused(DeadReason::Ended),
    }
}
