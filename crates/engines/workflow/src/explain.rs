//! Answers why an instance waits.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::instance::{Body, How, Signal, State, Status, Token, Wait, Work};
use crate::port::{Record, Store, Stored};
use crate::program::{Kind, Program};

/// The waiting signals of an instance among which an explanation looks for postponed migrations, at most.
const SIGNALS_MAX: usize = 100;

/// One reason why an instance waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The kind: `call`, `signal`, `timer`, `task`, `workflow`, `join`, `ready`, `effects`, `operator` or `worker`.
    pub kind: String,
    /// The visit of the waiting token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit: Option<u64>,
    /// The node's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The missing signal, callee, roles, instance, worker or started definitions, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The attempt of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The moment of the next attempt, of the timer or of the timeout, in milliseconds since 1970. 0: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<u64>,
}

/// One visit of an instance, for readers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visited {
    /// The number.
    pub visit: u64,
    /// The node's path; none if the definition is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The beginning, in milliseconds since 1970.
    pub entered_ms: u64,
    /// The end, in milliseconds since 1970; none if the visit is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// The kind of the end.
    pub how: How,
}

/// The visits of an instance that it remembers, in the order in which they began.
pub fn history(program: Option<&Program>, state: &State) -> Vec<Visited> {
    let visited = |visit: &crate::instance::Visit| {
        let node = visit.node.and_then(|at| program?.node(at));
        let entered_ms = state.started_ms.saturating_add_signed(visit.entered_ms);
        let left_ms = entered_ms.saturating_add_signed(visit.stayed_ms);
        Visited {
            visit: visit.number,
            path: node.map(|node| node.path.clone()),
            entered_ms,
            left_ms: (visit.how != How::Open).then_some(left_ms),
            how: visit.how,
        }
    };
    state.history.visits.iter().map(visited).collect()
}

/// The answer to "why does this instance wait?".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The instance.
    pub instance: String,
    /// The status.
    pub status: Status,
    /// The definition's name and hash.
    pub definition: crate::definition::Version,
    /// The reasons; none if the instance has ended.
    pub reasons: Vec<Reason>,
    /// The last error.
    pub error: Option<String>,
    /// Signals that are kept for later waits.
    pub kept: usize,
    /// The process that owns the partition.
    pub owner: Option<String>,
    /// The time until the lease ends, in milliseconds; negative if it has ended.
    pub lease_ms: Option<i64>,
}

/// Explains an instance of a store; none if the store has no such instance.
///
/// # Errors
///
/// If the store fails.
pub async fn of(
    store: &impl Store,
    program: Option<&Program>,
    instance: &str,
) -> Stored<Option<Explanation>> {
    let record = store.load(&[instance.to_owned()]).await?.into_iter().next().flatten();
    let Some(record) = record else { return Ok(None) };
    let (mut explanation, is_readable) = match State::decode(&record.body) {
        Ok(state) => (explain(program, &state), true),
        Err(error) => (unreadable(&record, error.to_string()), false),
    };
    // A note of an unknown definition is outdated once the definition is known.
    if let Some(note) = record.note.filter(|_| program.is_none() || !is_readable) {
        explanation.error = Some(note);
    }
    let holders = store.holders().await?;
    let holder = holders.into_iter().find(|holder| holder.partition == record.partition);
    explanation.lease_ms = holder.as_ref().map(|holder| holder.lease_ms);
    explanation.owner = holder.map(|holder| holder.owner);
    if explanation.status.is_ended() {
        return Ok(Some(explanation));
    }
    let waiting = store.signals_of(instance, SIGNALS_MAX).await?;
    explanation.reasons.extend(waiting.iter().filter_map(postponed_migration));
    if explanation.lease_ms.is_none_or(|lease_ms| lease_ms <= 0) {
        let missing = Some(format!("a worker that holds the partition {}", record.partition));
        explanation.reasons.push(Reason { missing, ..plain("worker", None) });
    }
    Ok(Some(explanation))
}

/// The reason why a migration waits, if a worker has postponed it because its version is unusable there.
fn postponed_migration(signal: &Signal) -> Option<Reason> {
    let Body::Migrate { to } = &signal.body else { return None };
    let missing = Some(format!("a worker that can use the version {}", to.hash));
    // Migrations are sent for delivery at once, so a worker has set the moment.
    (signal.due_ms > 0).then(|| Reason { missing, ..plain("worker", Some(signal.due_ms)) })
}

/// Explains an instance whose state this version cannot read.
fn unreadable(record: &Record, words: String) -> Explanation {
    Explanation {
        instance: record.id.clone(),
        status: record.status,
        definition: record.definition.clone(),
        reasons: Vec::new(),
        error: Some(words),
        kept: 0,
        owner: None,
        lease_ms: None,
    }
}

/// Explains a state, without owner and lease.
pub fn explain(program: Option<&Program>, state: &State) -> Explanation {
    let mut reasons = waits(state);
    if let Some(program) = program {
        reasons.iter_mut().for_each(|reason| name(program, state, reason));
    }
    Explanation {
        instance: state.id.clone(),
        status: state.status,
        definition: state.version.clone(),
        reasons,
        error: state.error.clone(),
        kept: state.kept.len(),
        owner: None,
        lease_ms: None,
    }
}

/// The reasons that follow from the state alone.
pub fn waits(state: &State) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !state.outbox.is_empty() {
        let starts = state.outbox.iter().filter_map(|effect| match &effect.work {
            Work::Start(request) => Some(request.definition.as_str()),
            _ => None,
        });
        let starts: BTreeSet<_> = starts.collect();
        let missing = (!starts.is_empty()).then(|| starts.into_iter().collect::<Vec<_>>().join(", "));
        reasons.push(Reason { missing, ..plain("effects", Some(0)) });
    }
    if matches!(state.status, Status::Parked | Status::Quarantined) {
        reasons.push(plain("operator", None));
    }
    reasons.extend(state.tokens.iter().map(|token| reason(state, token)));
    reasons
}

/// A reason without a token.
fn plain(kind: &str, due_ms: Option<u64>) -> Reason {
    Reason { kind: kind.into(), visit: None, path: None, missing: None, attempt: None, due_ms }
}

fn reason(state: &State, token: &Token) -> Reason {
    let attempt = match token.wait {
        Wait::Call { attempt, .. } => Some(attempt),
        _ => None,
    };
    let missing = match &token.wait {
        Wait::Child => Some(state.visit_id(token.visit)),
        Wait::Join { open } => Some(format!("{open} branches")),
        Wait::Task { assignee: Some(assignee), .. } => Some(assignee.clone()),
        _ => None,
    };
    Reason {
        kind: token.wait.kind().into(),
        visit: Some(token.visit),
        path: None,
        missing,
        attempt,
        due_ms: token.wait.due_ms(0),
    }
}

/// Adds names from the program.
fn name(program: &Program, state: &State, reason: &mut Reason) {
    let token = reason.visit.and_then(|visit| state.visiting(visit));
    let Some(node) = token.and_then(|token| program.node(token.at)) else { return };
    reason.path = Some(node.path.clone());
    let named = match &node.kind {
        Kind::Call(call) => Some(call.target.to_string()),
        Kind::Wait(wait) => Some(wait.signal.clone()),
        Kind::Task(task) if !task.roles.is_empty() => Some(task.roles.join(", ")),
        _ => None,
    };
    reason.missing = reason.missing.take().or(named);
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;
    use crate::definition::Definition;
    use crate::instance::StartRequest;
    use crate::memory::{Memory, Removal};
    use crate::port::LeaseRequest;
    use crate::step::start;

    #[test]
    fn a_waiting_instance_names_signal_path_and_visit() {
        let program = Program::compile(&Definition::new("a").wait("go")).unwrap();
        let request = StartRequest {
            id: "i".into(),
            definition: "a".into(),
            key: None,
            parent: None,
            depth: 0,
            input: Value::Null,
        };
        let state = start(&program, request, 5).unwrap();
        let explained = explain(Some(&program), &state);
        let reason = &explained.reasons[0];
        assert_eq!((reason.kind.as_str(), reason.missing.as_deref()), ("signal", Some("go")));
        assert_eq!((reason.path.as_deref(), reason.visit, reason.due_ms), (Some("wait-0"), Some(2), None));

        let store = Memory::new(1, Removal::WithCommit);
        let lease = LeaseRequest { owner: "ann".into(), ttl_ms: 100, want: 1, release: Vec::new() };
        store.lease(&lease).now_or_never().unwrap().unwrap();
        let record = Record::of(&state, 1, 1, 0).unwrap();
        store.start(&[record]).now_or_never().unwrap().unwrap();
        store.set_clock(150);
        let stored = of(&store, Some(&program), "i").now_or_never().unwrap().unwrap().unwrap();
        assert_eq!((stored.owner.as_deref(), stored.lease_ms), (Some("ann"), Some(-50)));
        let (last, others) = stored.reasons.split_last().unwrap();
        assert_eq!(others, explained.reasons);
        assert_eq!(last.missing.as_deref(), Some("a worker that holds the partition 0"));
        assert_eq!(of(&store, None, "none").now_or_never().unwrap(), Ok(None));
    }
}
