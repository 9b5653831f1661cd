//! Holds one step's state, and the changes that all inputs share.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::expression::{Expression, STEPS_MAX, Scope};
use crate::instance::{Effect, How, State, Status, Token, Wait, Work};
use crate::program::Program;
use crate::step::{Ignored, Outcome};

/// Nodes that one step enters at most. The rest follows in the next step, so that a long repetition is saved between.
const MOVES_MAX: usize = 1000;

/// The weight of effects in the outbox above which tokens stay: 2 MiB of the 8 MiB of a state. The tokens move on when effects
/// are done.
const OUTBOX_WEIGHT_MAX: usize = 512;

pub(super) struct Run<'a> {
    pub program: &'a Program,
    pub state: State,
    pub now_ms: u64,
    /// The number of visits before this step. A call of a later visit cannot have begun.
    pub visits_before: u64,
    outbox_weight: usize,
    /// The steps of jq programs so far.
    pub steps: Cell<u64>,
}

impl<'a> Run<'a> {
    pub fn new(program: &'a Program, state: State, now_ms: u64) -> Self {
        let visits_before = state.visits;
        let outbox_weight = state.outbox.iter().map(Effect::weight).sum();
        Self { program, state, now_ms, visits_before, outbox_weight, steps: Cell::new(0) }
    }

    /// Moves tokens until each waits. The jq programs of all moves share the bound of one program: the rest follows in the next step.
    pub fn advance(&mut self) {
        for _ in 0..MOVES_MAX {
            let is_over = self.is_outbox_full() || self.steps.get() >= STEPS_MAX;
            if !self.state.status.is_active() || is_over {
                return;
            }
            let ready = self.state.tokens.iter().position(|token| token.wait == Wait::Ready);
            let Some(index) = ready else { return };
            if let Err(words) = self.enter(index) {
                self.park(words);
            }
        }
    }

    /// Whether effects must be done before tokens move on.
    pub fn is_outbox_full(&self) -> bool {
        self.outbox_weight >= OUTBOX_WEIGHT_MAX
    }

    /// Stops the instance until an operator acts.
    pub fn park(&mut self, words: String) {
        self.state.status = Status::Parked;
        self.state.error = Some(words);
    }

    /// A new number of a visit.
    pub fn next_visit(&mut self) -> u64 {
        self.state.visits += 1;
        self.state.visits
    }

    /// Lets a token stay at its node, in a new visit.
    pub fn stay(&mut self, index: usize, wait: Wait) -> u64 {
        let visit = self.next_visit();
        self.state.tokens[index].visit = visit;
        self.state.tokens[index].wait = wait;
        self.open(index);
        visit
    }

    /// Begins the visit of a token in the history.
    pub fn open(&mut self, index: usize) {
        self.begin(index, self.token(index).visit);
    }

    /// Adds a visit without a stay to the history.
    pub fn record(&mut self, index: usize, visit: u64) {
        self.begin(index, visit);
        self.close(visit, How::Done);
    }

    fn begin(&mut self, index: usize, visit: u64) {
        let (at, entered_ms) = (self.token(index).at, self.since_start_ms());
        self.state.history.open(visit, at, entered_ms);
    }

    /// Ends the visit of a token in the history, unless it has ended.
    pub fn close(&mut self, visit: u64, how: How) {
        let left_ms = self.since_start_ms();
        self.state.history.close(visit, left_ms, how);
    }

    fn since_start_ms(&self) -> i64 {
        self.now_ms.cast_signed().wrapping_sub(self.state.started_ms.cast_signed())
    }

    /// Moves a token behind its node.
    pub fn leave(&mut self, index: usize) {
        if self.token(index).wait != Wait::Ready {
            self.close(self.token(index).visit, How::Done);
        }
        let next = self.program.node(self.state.tokens[index].at).map(|node| node.next);
        self.go(index, next.unwrap_or(usize::MAX));
    }

    /// Moves a token to a node.
    pub fn go(&mut self, index: usize, at: usize) {
        self.state.tokens[index].at = at;
        self.state.tokens[index].wait = Wait::Ready;
    }

    /// The index of the token in a visit.
    pub fn index_of(&self, visit: u64) -> Option<usize> {
        self.state.tokens.iter().position(|token| token.visit == visit)
    }

    pub fn scope(&self) -> Scope<'_> {
        Scope {
            instance: &self.state.id,
            key: self.state.key.as_deref(),
            now_ms: self.now_ms,
            data: &self.state.data,
            steps: &self.steps,
        }
    }

    /// The value of an expression on the data. Without an expression: all data.
    pub fn input(&self, expression: Option<&Expression>) -> Result<Value, String> {
        expression.map_or_else(
            || Ok(self.state.data.clone()),
            |expression| expression.value(&self.state.data, self.scope()),
        )
    }

    /// Sets a field of the data.
    pub fn set(&mut self, field: Option<&String>, value: Value) {
        let Some(field) = field else { return };
        if self.state.data.is_null() {
            self.state.data = Value::Object(Map::new());
        }
        // The data is an object: `start` and `set` steps refuse everything else.
        if let Some(data) = self.state.data.as_object_mut() {
            data.insert(field.clone(), value);
        }
    }

    /// Adds an effect to the outbox.
    pub fn effect(&mut self, work: impl FnOnce(&State, u64) -> Work) {
        self.state.effects += 1;
        let number = self.state.effects;
        let work = work(&self.state, number);
        let effect = Effect { number, work };
        self.outbox_weight += effect.weight();
        self.state.outbox.push_back(effect);
    }

    pub fn token(&self, index: usize) -> &Token {
        &self.state.tokens[index]
    }

    pub fn drained(&mut self, done: &[u64]) -> Outcome {
        let before = self.state.outbox.len();
        self.state.outbox.retain(|effect| !done.contains(&effect.number));
        self.outbox_weight = self.state.outbox.iter().map(Effect::weight).sum();
        if self.state.outbox.len() == before {
            Outcome::Ignored(Ignored::Duplicate)
        } else {
            Outcome::Applied
        }
    }
}
