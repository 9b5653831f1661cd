//! Opens tasks and applies the actions of people.

use serde_json::Value;

use super::Outcome;
use super::run::Run;
use crate::instance::{Act, DeadReason, TaskRow, TaskStatus, Token, Wait, Work};
use crate::program::{Kind, Task};

impl<'a> Run<'a> {
    pub fn open_task(&mut self, index: usize, task: &Task) -> Result<(), String> {
        // A failing payload must not open the task. Other branches may change the data while it is open.
        let payload = task.payload.as_ref().map(|payload| self.input(Some(payload))).transpose()?;
        let due_ms = task.timeout_ms.map(|timeout| self.now_ms.saturating_add(timeout));
        self.stay(index, Wait::Task { due_ms, assignee: None, payload });
        self.write_task(&self.token(index).clone(), TaskStatus::Open, None);
        Ok(())
    }

    /// Writes the row of a token's task.
    pub fn write_task(&mut self, token: &Token, status: TaskStatus, refused: Option<String>) {
        let Some(task) = self.task_at(token.at) else { return };
        let Wait::Task { due_ms, assignee, payload } = token.wait.clone() else { return };
        let payload =
            payload.or_else(|| task.payload.as_ref().and_then(|payload| self.input(Some(payload)).ok()));
        let changed_ms = self.now_ms;
        self.effect(|state, number| {
            Work::Task(TaskRow {
                id: state.visit_id(token.visit),
                version: number,
                instance: state.id.clone(),
                key: state.key.clone(),
                visit: token.visit,
                title: task.title.clone(),
                roles: task.roles.clone(),
                payload: payload.unwrap_or(Value::Null),
                status,
                assignee,
                refused,
                due_ms,
                changed_ms,
            })
        });
    }

    fn task_at(&self, at: usize) -> Option<&'a Task> {
        match &self.program.node(at)?.kind {
            Kind::Task(task) => Some(task),
            _ => None,
        }
    }

    pub fn act(&mut self, visit: u64, by: &str, roles: &[String], act: &Act) -> Outcome {
        let stale = Outcome::Refused(DeadReason::Stale);
        let Some(index) = self.index_of(visit) else { return stale };
        let Some(task) = self.task_at(self.token(index).at) else { return stale };
        let Wait::Task { due_ms, assignee, payload } = self.token(index).wait.clone() else { return stale };
        let decided = allowed(task, by, roles).and_then(|()| self.decide(task, by, assignee.as_deref(), act));
        match decided {
            Ok(Decided::Assigned(assignee)) => {
                self.state.tokens[index].wait = Wait::Task { due_ms, assignee, payload };
                self.write_task(&self.token(index).clone(), TaskStatus::Open, None);
            }
            Ok(Decided::Completed(payload)) => {
                self.write_task(&self.token(index).clone(), TaskStatus::Completed, None);
                self.set(task.result.as_ref(), payload);
                self.leave(index);
            }
            Err(words) => self.write_task(&self.token(index).clone(), TaskStatus::Open, Some(words)),
        }
        Outcome::Applied
    }

    fn decide(&self, task: &Task, by: &str, assignee: Option<&str>, act: &Act) -> Result<Decided, String> {
        let taken = |by: &str| assignee.filter(|assignee| *assignee != by);
        match act {
            Act::Assign { to } => match taken(to) {
                Some(other) => Err(format!("the task is assigned to {other}: reassign it")),
                None => Ok(Decided::Assigned(Some(to.clone()))),
            },
            Act::Reassign { to } => Ok(Decided::Assigned(Some(to.clone()))),
            Act::Release => Ok(Decided::Assigned(None)),
            Act::Complete { payload } => match taken(by) {
                Some(other) => {
                    Err(format!("the task is assigned to {other}: reassign it before {by} completes it"))
                }
                None => self.valid(task, payload).map(|()| Decided::Completed(payload.clone())),
            },
        }
    }

    fn valid(&self, task: &Task, payload: &Value) -> Result<(), String> {
        let Some(validate) = &task.validate else { return Ok(()) };
        match validate.value(payload, self.scope())? {
            Value::Bool(true) => Ok(()),
            Value::String(words) => Err(words),
            _ => Err(format!("the payload does not satisfy `{validate:?}`")),
        }
    }
}

enum Decided {
    Assigned(Option<String>),
    Completed(Value),
}

fn allowed(task: &Task, by: &str, roles: &[String]) -> Result<(), String> {
    if task.roles.is_empty() || roles.iter().any(|role| task.roles.contains(role)) {
        return Ok(());
    }
    Err(format!("{by} has none of the roles {}", task.roles.join(", ")))
}
