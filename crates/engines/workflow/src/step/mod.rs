//! Decides the next state of an instance: a pure and total function of state, input and moment.

mod call;
mod ending;
mod enter;
mod migrate;
mod run;
mod signal;
mod start;
mod task;
mod timeout;

use serde_json::Value;

pub(crate) use call::call_at;
pub use call::{Call, calls, calls_except, has_calls};
pub use migrate::{migrate, missing};
pub use start::{ID_BYTES_MAX, StartError, is_derived, is_id, is_internal, start};

use crate::instance::{DeadReason, Signal, State};
use crate::program::Program;
use run::Run;

/// An event in the life of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A signal.
    Signal(Signal),
    /// The answer of a call.
    Called(Answer),
    /// A moment has passed: timers and timeouts fire.
    Due,
    /// Effects are done.
    Drained {
        /// Their numbers.
        done: Vec<u64>,
    },
}

/// The answer of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The visit of the calling token.
    pub visit: u64,
    /// The attempt.
    pub attempt: u32,
    /// The result, or the failure.
    pub result: Result<Value, CallError>,
}

/// The failure of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The reason.
    pub message: String,
    /// Whether a further attempt may succeed.
    pub again: Again,
}

/// Whether a further attempt may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// A further attempt may succeed.
    Maybe,
    /// A further attempt fails too: the callee refused the request itself.
    Never,
    /// The call took effect, and its answer is unusable. A further attempt has the same answer, and the compensation is due.
    Unusable,
}

/// The consequence of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state changed.
    Applied,
    /// The state is the same, and the input is of no more use.
    Ignored(Ignored),
    /// The state is the same, and the signal becomes a dead letter.
    Refused(DeadReason),
}

/// The reason why an input changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The signal was applied before.
    Duplicate,
    /// The wait that it answers is over.
    Stale,
    /// No moment has passed.
    NotDue,
}

/// The next state and the consequence of an input. Pending calls follow from the state ([`calls`]), and so do pending effects (its outbox).
pub fn step(program: &Program, state: State, input: Input, now_ms: u64) -> (State, Outcome) {
    let (state, outcome, _) = counted(program, state, input, now_ms);
    (state, outcome)
}

/// The same, with the steps of the jq programs that it evaluated.
pub(crate) fn counted(program: &Program, state: State, input: Input, now_ms: u64) -> (State, Outcome, u64) {
    let mut run = Run::new(program, state, now_ms);
    let outcome = match input {
        Input::Signal(signal) => run.signal(signal),
        Input::Called(answer) => run.called(answer),
        Input::Due => run.due(),
        Input::Drained { done } => run.drained(&done),
    };
    if outcome == Outcome::Applied {
        run.advance();
        run.state.changed_ms = now_ms;
    }
    (run.state, outcome, run.steps.get())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::expression::STEPS_MAX;
    use crate::file::read;
    use crate::instance::{StartRequest, Status};

    #[test]
    fn the_programs_of_one_step_share_a_bound_and_the_rest_follows() {
        let text = "name: a\nsteps:\n- wait: {signal: go}\n- repeat: {max: 100, steps: [{set: {value: '.n += ([range(5000)] | length)'}}]}\n";
        let program = read(text).unwrap().1;
        let (id, definition) = ("i".to_owned(), "a".to_owned());
        let request =
            StartRequest { id, definition, key: None, parent: None, depth: 0, input: json!({"n": 0}) };
        let mut state = start(&program, request, 0).unwrap();
        let mut input = Input::Signal(Signal::named("i", "s", "go", Value::Null, 0));
        let mut count = 0;
        while state.status == Status::Running {
            let (next, outcome, steps) = counted(&program, state, input, 0);
            assert_eq!(outcome, Outcome::Applied);
            assert!(steps < 2 * STEPS_MAX, "{steps} steps");
            assert!(next.status.is_ended() || next.due_ms() == Some(0), "the rest is due at once");
            (state, input, count) = (next, Input::Due, count + 1);
        }
        assert!(state.status == Status::Done && state.data["n"] == 500_000, "{state:?}");
        assert!(count > 1);
    }
}
