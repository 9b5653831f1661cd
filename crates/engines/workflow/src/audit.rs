//! Checks the invariants of states and of a whole store.

use std::collections::HashSet;

use crate::instance::{State, Status, Wait};

/// The invariants that a state breaks, in words.
pub fn violations(state: &State) -> Vec<String> {
    let mut broken = tokens(state);
    broken.extend(status(state));
    broken
}

fn status(state: &State) -> Vec<String> {
    let tokens = state.tokens.len();
    let wrong = match state.status {
        status if status.is_ended() => {
            (tokens > 0).then(|| format!("the instance is {} and has {tokens} tokens", status.name()))
        }
        _ if tokens == 0 => Some(format!("the instance is {} without a token", state.status.name())),
        Status::Compensating if tokens > 1 => Some(format!("a compensation has {tokens} tokens")),
        Status::Running if state.ending.is_some() => Some("a running instance is ending".into()),
        Status::Compensating if state.ending.is_none() => Some("a compensation leads to no end".into()),
        Status::Parked if state.error.is_none() => Some("the instance is parked without a reason".into()),
        _ => None,
    };
    wrong.into_iter().collect()
}

fn tokens(state: &State) -> Vec<String> {
    let mut broken = Vec::new();
    let mut visits = HashSet::new();
    let roots = state.tokens.iter().filter(|token| token.parent.is_none()).count();
    if roots > 1 {
        broken.push(format!("{roots} tokens have no parent"));
    }
    for token in &state.tokens {
        if !visits.insert(token.visit) || token.visit > state.visits {
            broken.push(format!("the visit {} is not unique", token.visit));
        }
        let parent = token.parent.map(|parent| state.token(parent));
        if parent.is_some_and(|parent| !parent.is_some_and(|parent| matches!(parent.wait, Wait::Join { .. })))
        {
            broken.push(format!("the token {} has no waiting parent", token.id));
        }
        if let Wait::Join { open } = token.wait {
            let children = state.tokens.iter().filter(|child| child.parent == Some(token.id)).count();
            if children != open || open == 0 {
                broken.push(format!("the token {} waits for {open} branches and has {children}", token.id));
            }
        }
    }
    broken
}
