//! Moves an instance to another version of its definition.

use std::collections::BTreeSet;
use std::mem::discriminant;

use super::run::Run;
use crate::instance::{State, TaskStatus, Wait};
use crate::program::{Kind, Program};

/// The paths of the instance's nodes that the other version does not have, or has as another kind of step. The dry run of a migration:
/// an instance can move if no path is missing.
pub fn missing(from: &Program, to: &Program, state: &State) -> Vec<String> {
    let tokens = state
        .tokens
        .iter()
        .flat_map(|token| [token.at].into_iter().chain(token.loops.iter().map(|around| around.at)));
    let nodes: BTreeSet<usize> = tokens.chain(state.undo.iter().copied()).collect();
    let missing = nodes.into_iter().filter(|at| counterpart(from, to, *at).is_none());
    missing.map(|at| from.node(at).map_or_else(|| format!("node {at}"), |node| node.path.clone())).collect()
}

/// The state on the other version. Kept signals reach the waits that the other version has for them. The rows of open tasks are
/// written anew, as the other version describes the tasks. A timeout that the other version changes counts from the beginning of the wait.
///
/// # Errors
///
/// The paths that the other version does not have.
pub fn migrate(from: &Program, to: &Program, mut state: State, now_ms: u64) -> Result<State, Vec<String>> {
    let missing = missing(from, to, &state);
    if !missing.is_empty() {
        return Err(missing);
    }
    let retimed: Vec<_> = state.tokens.iter().map(|token| retimed(from, to, token.at)).collect();
    let moved = |at: &mut usize| *at = counterpart(from, to, *at).unwrap_or(*at);
    for token in &mut state.tokens {
        moved(&mut token.at);
        token.loops.iter_mut().for_each(|around| moved(&mut around.at));
    }
    state.undo.iter_mut().for_each(moved);
    state.history.rename(|at| counterpart(from, to, at));
    state.version = to.version.clone();
    state.changed_ms = now_ms;
    let mut run = Run::new(to, state, now_ms);
    run.retime(&retimed);
    run.settle_in();
    run.advance();
    Ok(run.state)
}

/// The timeout of a node in the other version, if the other version changes it.
fn retimed(from: &Program, to: &Program, at: usize) -> Option<Option<u64>> {
    let (before, after) = (timeout_ms(from, at)?, timeout_ms(to, counterpart(from, to, at)?)?);
    (before != after).then_some(after)
}

/// The timeout of a node that waits for a signal or a person.
fn timeout_ms(program: &Program, at: usize) -> Option<Option<u64>> {
    match &program.node(at)?.kind {
        Kind::Wait(wait) => Some(wait.timeout_ms),
        Kind::Task(task) => Some(task.timeout_ms),
        _ => None,
    }
}

impl Run<'_> {
    /// Gives waiting tokens their new timeouts.
    fn retime(&mut self, retimed: &[Option<Option<u64>>]) {
        for (index, timeout_ms) in retimed.iter().enumerate() {
            let Some(timeout_ms) = timeout_ms else { continue };
            let since_ms = self.since_ms(self.token(index).visit);
            if let Wait::Signal { due_ms } | Wait::Task { due_ms, .. } = &mut self.state.tokens[index].wait {
                *due_ms = timeout_ms.map(|timeout_ms| since_ms.saturating_add(timeout_ms));
            }
        }
    }

    /// The beginning of a visit; now if the history has forgotten it.
    fn since_ms(&self, visit: u64) -> u64 {
        let open = self.state.history.visits.iter().rev().find(|known| known.number == visit);
        open.map_or(self.now_ms, |open| self.state.started_ms.saturating_add_signed(open.entered_ms))
    }

    /// Repeats, for each waiting token, the actions on entering its node, as the new version defines them.
    fn settle_in(&mut self) {
        for index in 0..self.state.tokens.len() {
            match self.token(index).wait {
                Wait::Signal { .. } => self.take_kept(index),
                Wait::Task { .. } => self.write_task(&self.token(index).clone(), TaskStatus::Open, None),
                _ => {}
            }
        }
    }
}

/// The node of the other version with the same path and kind.
fn counterpart(from: &Program, to: &Program, at: usize) -> Option<usize> {
    let node = from.node(at)?;
    if at == from.undo {
        return Some(to.undo);
    }
    let found = to.find(&node.path)?;
    (discriminant(&node.kind) == discriminant(&to.node(found)?.kind)).then_some(found)
}
