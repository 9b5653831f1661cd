//! Makes the first state of an instance.

use std::collections::VecDeque;

use serde_json::Value;

use super::run::Run;
use crate::instance::{History, StartRequest, State, Status, Token, Wait};
use crate::program::Program;

/// Bytes of an instance's id at most.
pub const ID_BYTES_MAX: usize = 512;

/// Digits of a version's hash.
const HASH_DIGITS: usize = 64;

/// The reason why an instance cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The id is empty, too long, or has control characters.
    #[error("the id is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters")]
    Id,
    /// The business key is empty, too long, or has control characters.
    #[error(
        "the business key is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters, or no key"
    )]
    Key,
    /// The input is neither an object nor null.
    #[error("the input must be an object: write {{\"value\": …}}")]
    Input,
}

/// Whether a text can be an id: stores index it.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= ID_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Whether the engine gives such ids to its own signals: to the ends of sub-workflows, and to their cancellations.
pub fn is_internal(signal: &str) -> bool {
    ["ended:", "cancel:"].iter().any(|prefix| signal.starts_with(prefix))
}

/// Whether the engine gives such ids to instances that it starts: an id, `/` and a number to those of other instances, and
/// `NAME.schedule/HASH` to schedules.
pub fn is_derived(instance: &str) -> bool {
    let Some((before, last)) = instance.rsplit_once('/') else { return false };
    let is_visit = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_hash = last.len() == HASH_DIGITS && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_visit || (is_hash && before.ends_with(".schedule"))
}

/// The first state: tokens have moved until each waits, and no effect is done.
///
/// # Errors
///
/// If the id, the key or the input is invalid.
pub fn start(program: &Program, request: StartRequest, now_ms: u64) -> Result<State, StartError> {
    if !is_id(&request.id) {
        return Err(StartError::Id);
    }
    if request.key.as_deref().is_some_and(|key| !is_id(key)) {
        return Err(StartError::Key);
    }
    if !matches!(request.input, Value::Object(_) | Value::Null) {
        return Err(StartError::Input);
    }
    let token = Token { id: 1, at: 0, visit: 1, wait: Wait::Ready, parent: None, loops: Vec::new() };
    let state = State {
        id: request.id,
        version: program.version.clone(),
        key: request.key,
        parent: request.parent,
        depth: request.depth,
        status: Status::Running,
        data: request.input,
        tokens: vec![token],
        visits: 1,
        undo: Vec::new(),
        ending: None,
        error: None,
        kept: VecDeque::new(),
        applied: VecDeque::new(),
        outbox: VecDeque::new(),
        effects: 0,
        history: History::default(),
        started_ms: now_ms,
        changed_ms: now_ms,
    };
    let mut run = Run::new(program, state, now_ms);
    run.advance();
    Ok(run.state)
}
