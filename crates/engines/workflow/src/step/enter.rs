//! Enters a node.

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::ID_BYTES_MAX;
use super::run::Run;
use crate::definition::Join;
use crate::expression::Expression;
use crate::instance::{Body, DEPTH_MAX, Ending, Loop, Parent, StartRequest, Status, Token, Wait, Work};
use crate::program::{Child, Kind, Timer};

impl Run<'_> {
    /// Lets a token do the work of its node.
    ///
    /// # Errors
    ///
    /// The reason why the work is impossible. The token stays.
    pub fn enter(&mut self, index: usize) -> Result<(), String> {
        let at = self.token(index).at;
        let node = self.program.node(at).ok_or_else(|| format!("the definition has no node {at}"))?;
        match &node.kind {
            Kind::Call(call) => {
                // A branch stores its input: other branches may change the data, but every attempt must have
                // the same input.
                let is_branch = self.token(index).parent.is_some();
                let is_own = call.input.is_some() || is_branch;
                let input = is_own.then(|| self.input(call.input.as_ref())).transpose()?;
                self.stay(index, Wait::Call { attempt: 1, due_ms: 0, input });
            }
            Kind::Task(task) => self.open_task(index, task)?,
            Kind::Wait(wait) => self.await_signal(index, wait),
            Kind::Timer(timer) => {
                let due_ms = self.moment(timer)?;
                self.stay(index, Wait::Timer { due_ms });
            }
            Kind::Fork { branches, .. } => self.fork(index, branches),
            Kind::Join => self.join(index)?,
            Kind::Repeat { condition, max, body } => {
                self.repeat(index, condition.as_ref(), *max, *body)?;
            }
            Kind::Branch(cases) => {
                let next = self.case(cases)?.unwrap_or(node.next);
                self.go(index, next);
            }
            Kind::Jump => self.leave(index),
            Kind::Child(child) => self.start_child(index, child)?,
            Kind::Continue { definition, input } => {
                self.start_next(index, definition, input.as_ref())?;
                self.leave(index);
            }
            Kind::Set(value) => {
                let data = self.input(Some(value))?;
                if !data.is_object() && !data.is_null() {
                    return Err(format!("`{value:?}` returned {data}: the data must be an object"));
                }
                self.state.data = data;
                self.leave(index);
            }
            Kind::Fail(error) => self.begin_ending(Ending::Failed, error.clone()),
            Kind::End => self.finish(Status::Done),
            Kind::Undo => self.undo(index),
        }
        Ok(())
    }

    fn await_signal(&mut self, index: usize, wait: &crate::program::Wait) {
        let due_ms = wait.timeout_ms.map(|timeout| self.now_ms.saturating_add(timeout));
        self.stay(index, Wait::Signal { due_ms });
        self.take_kept(index);
    }

    /// Lets a waiting token take the first kept signal with its name.
    pub fn take_kept(&mut self, index: usize) {
        let Some(wait) = self.wait_at(self.token(index).at) else { return };
        let named = |body: &Body| matches!(body, Body::Named { name, .. } if *name == wait.signal);
        let kept = self.state.kept.iter().position(|signal| named(&signal.body));
        if let Some(Body::Named { body, .. }) =
            kept.and_then(|at| self.state.kept.remove(at)).map(|signal| signal.body)
        {
            self.set(wait.result.as_ref(), body);
            self.leave(index);
        }
    }

    fn moment(&self, timer: &Timer) -> Result<u64, String> {
        match timer {
            Timer::After(ms) => Ok(self.now_ms.saturating_add(*ms)),
            Timer::Cron(cron) => {
                cron.next(self.now_ms).ok_or_else(|| "the schedule has no further moment".into())
            }
            Timer::Until(until) => {
                let value = self.input(Some(until))?;
                moment_of(&value).ok_or_else(|| {
                    format!("`{until:?}` returned {value}: return milliseconds since 1970, or a text such as 2026-11-26T15:00:00Z")
                })
            }
        }
    }

    fn fork(&mut self, index: usize, branches: &[usize]) {
        let parent = self.token(index).id;
        self.stay(index, Wait::Join { open: branches.len() });
        for at in branches {
            let id = self.next_visit();
            let token =
                Token { id, at: *at, visit: id, wait: Wait::Ready, parent: Some(parent), loops: Vec::new() };
            self.state.tokens.push(token);
        }
    }

    /// Ends a branch.
    fn join(&mut self, index: usize) -> Result<(), String> {
        let parent = self.token(index).parent;
        let fork = self.state.tokens.iter().position(|token| Some(token.id) == parent);
        let fork = fork.ok_or("the branch has no fork")?;
        let Some(Kind::Fork { join, .. }) = self.program.node(self.token(fork).at).map(|node| &node.kind)
        else {
            return Err("the branch has no fork".into());
        };
        let Wait::Join { open } = self.token(fork).wait else { return Err("the fork does not wait".into()) };
        let (parent, open) = (self.token(fork).id, open.saturating_sub(1));
        self.state.tokens[fork].wait = Wait::Join { open };
        self.state.tokens.remove(index);
        if open == 0 || *join == Join::Any {
            self.drop_branches(parent);
            if let Some(fork) = self.state.tokens.iter().position(|token| token.id == parent) {
                self.leave(fork);
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        index: usize,
        condition: Option<&Expression>,
        max: Option<u32>,
        body: usize,
    ) -> Result<(), String> {
        let at = self.token(index).at;
        let count = self.token(index).loops.last().filter(|last| last.at == at).map_or(0, |last| last.count);
        let holds = condition.map_or(Ok(true), |condition| condition.holds(self.scope()))?;
        let token = &mut self.state.tokens[index];
        if token.loops.last().is_some_and(|last| last.at == at) {
            token.loops.pop();
        }
        if holds && max.is_none_or(|max| count < max) {
            token.loops.push(Loop { at, count: count.saturating_add(1) });
            self.go(index, body);
        } else {
            self.leave(index);
        }
        Ok(())
    }

    fn case(&self, cases: &[(Expression, usize)]) -> Result<Option<usize>, String> {
        for (condition, at) in cases {
            if condition.holds(self.scope())? {
                return Ok(Some(*at));
            }
        }
        Ok(None)
    }

    fn start_child(&mut self, index: usize, child: &Child) -> Result<(), String> {
        let input = self.input(child.input.as_ref())?;
        let depth = self.next_depth(&input)?;
        let visit = self.stay(index, Wait::Child);
        let definition = child.definition.clone();
        self.effect(|state, _| {
            let parent = Some(Parent { instance: state.id.clone(), visit });
            let id = state.visit_id(visit);
            Work::Start(StartRequest { id, definition, key: state.key.clone(), parent, depth, input })
        });
        Ok(())
    }

    fn start_next(
        &mut self,
        index: usize,
        definition: &str,
        input: Option<&Expression>,
    ) -> Result<(), String> {
        let input = self.input(input)?;
        let depth = self.next_depth(&input)?;
        let visit = self.next_visit();
        self.record(index, visit);
        self.effect(|state, _| {
            let (id, definition) = (state.visit_id(visit), definition.to_owned());
            Work::Start(StartRequest { id, definition, key: state.key.clone(), parent: None, depth, input })
        });
        Ok(())
    }

    /// The depth of an instance that this one starts. Refuses a start that would fail later without a visible
    /// error.
    fn next_depth(&self, input: &Value) -> Result<u16, String> {
        if !matches!(input, Value::Object(_) | Value::Null) {
            return Err(format!("the input of a workflow must be an object, and is {input}"));
        }
        if self.state.visit_id(u64::MAX).len() > ID_BYTES_MAX {
            return Err("the ids of the started workflows become too long: start with a shorter id".into());
        }
        let depth = self.state.depth.saturating_add(1);
        if depth > DEPTH_MAX {
            return Err(format!(
                "workflows start each other more than {DEPTH_MAX} deep: check that they end"
            ));
        }
        Ok(depth)
    }
}

fn moment_of(value: &Value) -> Option<u64> {
    if let Some(text) = value.as_str() {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        return u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok();
    }
    value.as_u64().or_else(|| value.as_f64().filter(|ms| *ms >= 0.0).map(|ms| ms as u64))
}
