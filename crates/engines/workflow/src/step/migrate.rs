//! Moves an instance to another version of its definition.

use std::collections::BTreeSet;
use std::mem::discriminant;

use super::run::Run;
use crate::instance::{State, TaskStatus, Wait};
use crate::program::Program;

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
/// written anew, as the other version describes the tasks.
///
/// # Errors
///
/// The paths that the other version does not have.
pub fn migrate(from: &Program, to: &Program, mut state: State, now_ms: u64) -> Result<State, Vec<String>> {
    let missing = missing(from, to, &state);
    if !missing.is_empty() {
        return Err(missing);
    }
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
    run.settle_in();
    run.advance();
    Ok(run.state)
}

impl Run<'_> {
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
