//! Leads one instance through inputs, without a worker.

use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{Act, Body, Signal, StartRequest, State, Status, TaskStatus, Work};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::{Again, Answer, CallError, Ignored, Input, Outcome, calls, start, step};
use serde_json::Value;

/// An instance on its own.
pub struct Life {
    pub program: Program,
    pub state: State,
    pub now_ms: u64,
    sent: usize,
}

impl Life {
    pub fn begin(program: Program, input: Value) -> Self {
        let request = StartRequest {
            id: "i".into(),
            definition: String::new(),
            key: None,
            parent: None,
            depth: 0,
            input,
        };
        let state = start(&program, request, 1000).unwrap();
        Self { program, state, now_ms: 1000, sent: 0 }
    }

    pub fn read(text: &str, input: Value) -> Self {
        Self::begin(read(text).unwrap().1, input)
    }

    pub fn step(&mut self, input: Input) -> Outcome {
        // Every state survives its encoding.
        let state = State::decode(&self.state.encode().unwrap()).unwrap();
        assert_eq!(state, self.state);
        let (state, outcome) = step(&self.program, state, input, self.now_ms);
        self.state = state;
        outcome
    }

    pub fn send(&mut self, body: Body) -> Outcome {
        self.sent += 1;
        self.step(Input::Signal(Signal::new("i", format!("s{}", self.sent), body, self.now_ms)))
    }

    pub fn named(&mut self, name: &str, body: Value) -> Outcome {
        self.send(Body::Named { name: name.into(), body })
    }

    pub fn act(&mut self, by: &str, act: Act) -> Outcome {
        let visit = self.visit_of("task");
        self.send(Body::Act { visit, by: by.into(), roles: vec!["underwriter".into()], act })
    }

    pub fn visit_of(&self, kind: &str) -> u64 {
        self.state.tokens.iter().find(|token| token.wait.kind() == kind).unwrap().visit
    }

    /// Answers the only pending call.
    pub fn answer(&mut self, function: &str, result: Result<Value, Again>) {
        let pending = calls(&self.program, &self.state, self.now_ms);
        let call = pending.iter().find(|call| call.target.to_string() == function);
        let call = call.unwrap_or_else(|| panic!("no call of {function} in {pending:?}")).clone();
        let result = result.map_err(|again| CallError { message: "broken".into(), again });
        let answer = Answer { visit: call.visit, attempt: call.attempt, result };
        assert_eq!(self.step(Input::Called(answer.clone())), Outcome::Applied);
        assert_eq!(self.step(Input::Called(answer)), Outcome::Ignored(Ignored::Stale));
    }

    pub fn status_and(&self, field: &str) -> (Status, Value) {
        (self.state.status, self.state.data[field].clone())
    }

    pub fn rows(&self) -> Vec<(TaskStatus, Option<String>, Option<String>)> {
        let rows = self.state.outbox.iter().filter_map(|effect| match &effect.work {
            Work::Task(row) => Some((row.status, row.assignee.clone(), row.refused.clone())),
            _ => None,
        });
        rows.collect()
    }
}
