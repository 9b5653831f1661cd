//! Emits the nodes of each kind of step.

use super::compile::{Compiler, ms};
use super::limits::{ATTEMPTS_MAX, BRANCHES_MAX, DEPTH_MAX};
use super::{Call, Child, Kind, Target, Task, Timer, Url, Wait};
use crate::definition::{self, Http, Join, Service, Step, Undo};

/// The longest time of one attempt, if the definition gives none.
const TIMEOUT_MS: u64 = 30_000;

impl Compiler {
    /// Emits steps in order. `place` is the list's place in the file, `path` the names around it.
    pub(super) fn steps(&mut self, place: &str, path: &str, steps: &[Step], depth: usize) {
        if depth > DEPTH_MAX {
            return self
                .problem(place, format!("steps are nested more than {DEPTH_MAX} deep: nest them less"));
        }
        for (index, step) in steps.iter().enumerate() {
            let kind = step.kind();
            let place = format!("{place}[{index}].{kind}");
            let path = step.path(path, index);
            let problems = self.problems.len();
            if let Some(name) = step.name() {
                self.step_name(&format!("{place}.name"), name);
            }
            // Two steps with one name have one path, too: one problem is enough.
            if self.problems.len() == problems {
                self.step_path(&place, &path);
            }
            self.step(&place, &path, step, depth);
        }
    }

    fn step(&mut self, place: &str, path: &str, step: &Step, depth: usize) {
        match step {
            Step::Service(step) => self.service(place, path, step),
            Step::Http(step) => self.http(place, path, step),
            Step::Task(step) => self.task(place, path, step),
            Step::Wait(step) => self.wait(place, path, step),
            Step::Timer(step) => self.timer(place, path, step),
            Step::Fork(step) => self.fork(place, path, step, depth),
            Step::Repeat(step) => self.repeat(place, path, step, depth),
            Step::Branch(step) => self.branch(place, path, step, depth),
            Step::Workflow(step) => self.child(place, path, step),
            Step::ContinueWith(step) => {
                self.name(&format!("{place}.definition"), &step.definition);
                let input = self.expression(&format!("{place}.input"), step.input.as_ref());
                self.push(path, Kind::Continue { definition: step.definition.clone(), input });
            }
            Step::Set(step) => {
                if let Some(value) = self.expression(&format!("{place}.value"), Some(&step.value)) {
                    self.push(path, Kind::Set(value));
                }
            }
            Step::Fail(step) => {
                self.push(path, Kind::Fail(step.error.clone()));
            }
        }
    }

    fn service(&mut self, place: &str, path: &str, step: &Service) {
        self.name(&format!("{place}.function"), &step.function);
        let call = self.service_call(place, step);
        let at = self.push(path, Kind::Call(call));
        self.compensate(place, path, step.compensate.as_deref(), at);
    }

    fn http(&mut self, place: &str, path: &str, step: &Http) {
        let call = self.http_call(place, step);
        let at = self.push(path, Kind::Call(call));
        self.compensate(place, path, step.compensate.as_deref(), at);
    }

    fn service_call(&mut self, place: &str, step: &Service) -> Call {
        let input = self.expression(&format!("{place}.input"), step.input.as_ref());
        let attempts = self.attempts(place, step.retries);
        Call {
            target: Target::Function(step.function.clone()),
            input,
            result: step.result.clone(),
            timeout_ms: step.timeout.map_or(TIMEOUT_MS, ms),
            attempts,
            backoff_ms: ms(step.retries.backoff),
            backoff_max_ms: ms(step.retries.backoff_max),
            on_failure: step.on_failure,
            compensate: None,
        }
    }

    fn http_call(&mut self, place: &str, step: &Http) -> Call {
        if !step.url.starts_with("http://") && !step.url.starts_with("https://") {
            let words = "write an address that begins with http:// or https://";
            self.problem(format!("{place}.url"), words);
        } else if self.is_new
            && let Err(words) = Url::of(&step.url)
        {
            self.problem(format!("{place}.url"), words);
        }
        if self.is_new {
            self.headers(place, step);
        }
        let input = self.expression(&format!("{place}.input"), step.input.as_ref());
        let attempts = self.attempts(place, step.retries);
        let headers = step.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Call {
            target: Target::Http { method: step.method, url: step.url.clone(), headers },
            input,
            result: step.result.clone(),
            timeout_ms: step.timeout.map_or(TIMEOUT_MS, ms),
            attempts,
            backoff_ms: ms(step.retries.backoff),
            backoff_max_ms: ms(step.retries.backoff_max),
            on_failure: step.on_failure,
            compensate: None,
        }
    }

    /// Checks the headers of a new definition.
    fn headers(&mut self, place: &str, step: &Http) {
        for (name, value) in &step.headers {
            if let Some(words) = definition::header_fault(name, value) {
                self.problem(format!("{place}.headers.{name}"), words);
            }
        }
    }

    fn attempts(&mut self, place: &str, retries: definition::Retries) -> u32 {
        if !(1..=ATTEMPTS_MAX).contains(&retries.attempts) {
            let words = format!("write a number of attempts from 1 to {ATTEMPTS_MAX}");
            self.problem(format!("{place}.retries.attempts"), words);
        }
        retries.attempts
    }

    fn compensate(&mut self, place: &str, path: &str, undo: Option<&Undo>, at: usize) {
        if let Some(undo) = undo {
            let entry = (format!("{place}.compensate"), format!("{path}/compensate"), undo.clone(), at);
            self.pending.push(entry);
        }
    }

    /// Emits the compensations and the node that takes the next one; returns that node.
    pub(super) fn compensations(&mut self) -> usize {
        let pending = std::mem::take(&mut self.pending);
        let undo = self.nodes.len() + pending.len();
        for (place, path, step, undone) in pending {
            let (kind, nested) = match &step {
                Undo::Service(step) => ("service", step.compensate.is_some()),
                Undo::Http(step) => ("http", step.compensate.is_some()),
            };
            let place = format!("{place}.{kind}");
            if nested {
                self.problem(format!("{place}.compensate"), "a compensation has no compensation: remove it");
            }
            let call = match &step {
                Undo::Service(step) => self.service_call(&place, step),
                Undo::Http(step) => self.http_call(&place, step),
            };
            let at = self.push(&path, Kind::Call(call));
            self.lead(at, undo);
            if let Some(Kind::Call(call)) = self.nodes.get_mut(undone).map(|node| &mut node.kind) {
                call.compensate = Some(at);
            }
        }
        self.push("", Kind::Undo)
    }

    fn task(&mut self, place: &str, path: &str, step: &definition::Task) {
        let payload = self.expression(&format!("{place}.payload"), step.payload.as_ref());
        let validate = self.expression(&format!("{place}.validate"), step.validate.as_ref());
        let task = Task {
            title: step.title.clone().unwrap_or_else(|| path.to_owned()),
            roles: step.roles.clone(),
            payload,
            validate,
            result: step.result.clone(),
            timeout_ms: step.timeout.map(ms),
            on_timeout: step.on_timeout,
        };
        self.push(path, Kind::Task(task));
    }

    fn wait(&mut self, place: &str, path: &str, step: &definition::Wait) {
        self.name(&format!("{place}.signal"), &step.signal);
        let wait = Wait {
            signal: step.signal.clone(),
            result: step.result.clone(),
            timeout_ms: step.timeout.map(ms),
            on_timeout: step.on_timeout,
        };
        self.push(path, Kind::Wait(wait));
    }

    fn timer(&mut self, place: &str, path: &str, step: &definition::Timer) {
        let timer = match (step.after, &step.until, &step.cron) {
            (Some(after), None, None) => Some(Timer::After(ms(after))),
            (None, Some(until), None) => {
                self.expression(&format!("{place}.until"), Some(until)).map(Timer::Until)
            }
            (None, None, Some(cron)) => self.cron(&format!("{place}.cron"), cron).map(Timer::Cron),
            _ => return self.problem(place, "a timer needs exactly one of `after`, `until` and `cron`"),
        };
        if let Some(timer) = timer {
            self.push(path, Kind::Timer(timer));
        }
    }

    fn fork(&mut self, place: &str, path: &str, step: &definition::Fork, depth: usize) {
        if !(1..=BRANCHES_MAX).contains(&step.branches.len()) {
            let words = format!("a fork needs a branch, and {BRANCHES_MAX} at most");
            return self.problem(format!("{place}.branches"), words);
        }
        let fork = self.push(path, Kind::Fork { branches: Vec::new(), join: step.join });
        let mut branches = Vec::new();
        for (index, steps) in step.branches.iter().enumerate() {
            branches.push(self.nodes.len());
            let path = format!("{path}/{index}");
            self.steps(&format!("{place}.branches[{index}]"), &path, steps, depth + 1);
            self.push(&format!("{path}/join"), Kind::Join);
        }
        self.lead_here(fork);
        if let Some(node) = self.nodes.get_mut(fork) {
            node.kind = Kind::Fork { branches, join: step.join };
        }
    }

    fn repeat(&mut self, place: &str, path: &str, step: &definition::Repeat, depth: usize) {
        let condition = self.expression(&format!("{place}.while"), step.condition.as_ref());
        if step.max.is_none() && !step.steps.iter().any(waits) {
            let words = "the repetition never waits and never ends: add `max`, or a step that waits";
            self.problem(place, words);
        }
        let test = self.push(path, Kind::Repeat { condition, max: step.max, body: self.nodes.len() + 1 });
        self.steps(&format!("{place}.steps"), path, &step.steps, depth + 1);
        let back = self.push(&format!("{path}/again"), Kind::Jump);
        self.lead(back, test);
        self.lead_here(test);
    }

    fn branch(&mut self, place: &str, path: &str, step: &definition::Branch, depth: usize) {
        let choice = self.push(path, Kind::Jump);
        let (mut cases, mut ends) = (Vec::new(), Vec::new());
        for (index, case) in step.cases.iter().enumerate() {
            let case_place = format!("{place}.cases[{index}]");
            let condition = self.expression(&format!("{case_place}.if"), Some(&case.condition));
            cases.extend(condition.map(|condition| (condition, self.nodes.len())));
            let path = format!("{path}/{index}");
            self.steps(&format!("{case_place}.steps"), &path, &case.steps, depth + 1);
            ends.push(self.push(&format!("{path}/end"), Kind::Jump));
        }
        self.lead_here(choice);
        self.steps(&format!("{place}.else"), &format!("{path}/else"), &step.otherwise, depth + 1);
        for end in ends {
            self.lead_here(end);
        }
        if let Some(node) = self.nodes.get_mut(choice) {
            node.kind = Kind::Branch(cases);
        }
    }

    fn child(&mut self, place: &str, path: &str, step: &definition::Child) {
        self.name(&format!("{place}.definition"), &step.definition);
        let input = self.expression(&format!("{place}.input"), step.input.as_ref());
        let child = Child {
            definition: step.definition.clone(),
            input,
            result: step.result.clone(),
            on_failure: step.on_failure,
        };
        self.push(path, Kind::Child(child));
    }
}

/// Whether a step waits on every path through it.
fn waits(step: &Step) -> bool {
    match step {
        Step::Service(_)
        | Step::Http(_)
        | Step::Task(_)
        | Step::Wait(_)
        | Step::Timer(_)
        | Step::Workflow(_) => true,
        Step::Fork(step) => match step.join {
            Join::All => step.branches.iter().any(|steps| steps.iter().any(waits)),
            // The first branch that ends ends the fork.
            Join::Any => step.branches.iter().all(|steps| steps.iter().any(waits)),
        },
        Step::Branch(step) => {
            step.otherwise.iter().any(waits) && step.cases.iter().all(|case| case.steps.iter().any(waits))
        }
        Step::Repeat(_) | Step::ContinueWith(_) | Step::Set(_) => false,
        Step::Fail(_) => true,
    }
}
