//! Applies the answers of calls, and finds the calls that a state asks for.

use serde_json::Value;
use sha2::{Digest, Sha256};

use plimsoll_measure::random::{FNV_BASIS, fnv1a, mix};

use super::run::Run;
use super::{Again, Answer, CallError, Ignored, Outcome};
use crate::definition::OnFailure;
use crate::instance::{Ending, How, State, Token, Wait};
use crate::program::{self, Kind, Program, Target};

/// Bytes of the hash in an idempotency key.
const HASH_BYTES: usize = 8;

/// A call that a state asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The instance.
    pub instance: String,
    /// The visit of the calling token.
    pub visit: u64,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The idempotency key: the same for every attempt of a visit, and for no other target or input. After a
    /// crash, a visit may have another target.
    pub key: String,
    /// The callee.
    pub target: Target,
    /// The input.
    pub input: Value,
    /// The longest time of the attempt.
    pub timeout_ms: u64,
    /// Whether the step keeps the result. If not, the content of an answer does not matter.
    pub keeps_result: bool,
}

/// The calls that are due. They follow from the state alone, so a crash loses none.
pub fn calls(program: &Program, state: &State, now_ms: u64) -> Vec<Call> {
    calls_except(program, state, now_ms, |_, _| false)
}

/// The calls that are due, except for known visits and attempts.
pub fn calls_except(
    program: &Program,
    state: &State,
    now_ms: u64,
    is_known: impl Fn(u64, u32) -> bool,
) -> Vec<Call> {
    let due = due(state, now_ms, is_known).filter_map(|(token, attempt, input)| {
        let call = call_at(program, token.at)?;
        let input = input.unwrap_or(&state.data).clone();
        Some(Call {
            instance: state.id.clone(),
            visit: token.visit,
            attempt,
            key: key(&state.visit_id(token.visit), &call.target, &input),
            target: call.target.clone(),
            input,
            timeout_ms: call.timeout_ms,
            keeps_result: call.result.is_some(),
        })
    });
    due.collect()
}

/// Whether a call is due, except for known visits and attempts.
pub fn has_calls(state: &State, now_ms: u64, is_known: impl Fn(u64, u32) -> bool) -> bool {
    due(state, now_ms, is_known).next().is_some()
}

/// Tokens with a due call, with the attempt and the call's input.
fn due(
    state: &State,
    now_ms: u64,
    is_known: impl Fn(u64, u32) -> bool,
) -> impl Iterator<Item = (&Token, u32, Option<&Value>)> {
    let tokens = state.status.is_active().then_some(state.tokens.iter());
    tokens.into_iter().flatten().filter_map(move |token| match &token.wait {
        Wait::Call { attempt, due_ms, input } if *due_ms <= now_ms && !is_known(token.visit, *attempt) => {
            Some((token, *attempt, input.as_ref()))
        }
        _ => None,
    })
}

/// A key that names one visit, one target and one input.
fn key(visit: &str, target: &Target, input: &Value) -> String {
    let method = match target {
        Target::Function(_) => None,
        Target::Http { method, .. } => Some(method),
    };
    let text = format!("{method:?} {target} {input}");
    let hash: String =
        Sha256::digest(text).iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{visit}/{hash}")
}

pub(crate) fn call_at(program: &Program, at: usize) -> Option<&program::Call> {
    match &program.node(at)?.kind {
        Kind::Call(call) => Some(call),
        _ => None,
    }
}

impl Run<'_> {
    pub fn called(&mut self, answer: Answer) -> Outcome {
        let stale = Outcome::Ignored(Ignored::Stale);
        let Some(index) = self.index_of(answer.visit) else { return stale };
        let Some(call) = call_at(self.program, self.token(index).at) else { return stale };
        match self.token(index).wait {
            Wait::Call { attempt, .. } if attempt == answer.attempt => {}
            _ => return stale,
        }
        match answer.result {
            Ok(result) => self.succeeded(index, call, result),
            Err(error) => self.failed(index, call, answer.attempt, error),
        }
        Outcome::Applied
    }

    fn succeeded(&mut self, index: usize, call: &program::Call, result: Value) {
        self.set(call.result.as_ref(), result);
        self.state.undo.extend(call.compensate);
        self.leave(index);
    }

    fn failed(&mut self, index: usize, call: &program::Call, attempt: u32, error: CallError) {
        let words = format!("{} failed in attempt {attempt}: {}", call.target, error.message);
        let backoff_ms = backoff_ms(call, attempt, self.token(index).visit, &self.state.id);
        // The number of the attempt grows even if only an operator may start the next attempt. So a repeated answer is stale.
        if let Wait::Call { attempt, due_ms, .. } = &mut self.state.tokens[index].wait {
            (*attempt, *due_ms) = (attempt.saturating_add(1), self.now_ms.saturating_add(backoff_ms));
        }
        if error.again == Again::Maybe && attempt < call.attempts {
            self.state.error = Some(words);
            self.close(self.token(index).visit, How::Retried);
            self.open(index);
        } else {
            // An attempt without an answer may have taken effect. A parked call keeps its token, whose attempt number shows this.
            let may_have_happened = error.again != Again::Never || attempt > 1;
            if may_have_happened && call.on_failure != OnFailure::Park {
                self.state.undo.extend(call.compensate);
            }
            self.exhausted(index, call.on_failure, call.result.as_ref(), words);
        }
    }

    /// Applies the consequence of a last failure. A failed compensation always parks: going on would hide it.
    pub fn exhausted(&mut self, index: usize, on: OnFailure, result: Option<&String>, words: String) {
        self.close(self.token(index).visit, How::Failed);
        match on {
            OnFailure::Fail | OnFailure::Continue if self.state.ending.is_some() => {
                self.open(index);
                self.park_call(index, words);
            }
            // The child has ended: a retry enters the node again, and starts another one.
            OnFailure::Park if self.token(index).wait == Wait::Child => {
                self.state.tokens[index].wait = Wait::Ready;
                self.park(words);
            }
            OnFailure::Park => {
                self.open(index);
                self.park_call(index, words);
            }
            OnFailure::Fail => {
                // The caller has decided about the compensation of a failed call. So this call must not be
                // treated as one that is dropped in flight.
                if let Wait::Call { .. } = self.token(index).wait {
                    self.state.tokens[index].wait = Wait::Ready;
                }
                self.begin_ending(Ending::Failed, words);
            }
            OnFailure::Continue => {
                self.state.error = Some(words);
                self.set(result, Value::Null);
                self.leave(index);
            }
        }
    }
}

impl Run<'_> {
    /// Parks the instance at a call whose attempts are used up. A retry begins the next attempt at once, and no other call.
    fn park_call(&mut self, index: usize, words: String) {
        if let Wait::Call { due_ms, .. } = &mut self.state.tokens[index].wait {
            *due_ms = 0;
        }
        self.park(words);
    }
}

/// The time before the next attempt: doubled each time, and between half of it and all of it, so that instances that failed together do
/// not return together. The share follows from instance, visit and attempt, so that a repeated step has the same result.
fn backoff_ms(call: &program::Call, attempt: u32, visit: u64, instance: &str) -> u64 {
    let doubled = call.backoff_ms.saturating_mul(1 << attempt.saturating_sub(1).min(32));
    let longest = doubled.min(call.backoff_max_ms);
    let seed = fnv1a(FNV_BASIS, instance.as_bytes()) ^ (visit << 16) ^ u64::from(attempt);
    longest / 2 + mix(seed) % (longest / 2 + 1)
}
