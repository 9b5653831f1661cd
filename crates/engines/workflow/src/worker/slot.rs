//! Holds one instance in a worker's memory, and steps it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::registry::Registry;
use crate::expression::STEPS_MAX;
use crate::instance::{APPLIED_MAX, Body, DeadReason, Signal, State, Status};
use crate::program::Program;
use crate::step::{
    Answer, Call, Ignored, Input, Outcome, call_at, calls_except, counted, has_calls, migrate,
};

/// An instance in memory.
pub(super) struct Slot {
    pub generation: u64,
    pub partition: u16,
    pub loaded: Option<Loaded>,
    pub is_loading: bool,
    /// Signals to apply, in order.
    pub signals: VecDeque<Signal>,
    /// Their weight.
    pub waiting: usize,
    /// The weight of the state.
    pub weight: usize,
    pub answers: VecDeque<Answer>,
    /// Signals that are here or not removed from the store yet.
    pub known: BTreeSet<String>,
    /// Applied signals of which this worker does not know whether they are removed.
    pub unconfirmed: BTreeSet<String>,
    /// The last alarm.
    pub alarm_ms: Option<u64>,
    /// Signals that the next commit consumes, and those of the commit in flight.
    pub consumed: Vec<String>,
    pub committing: Option<Vec<String>>,
    /// Signals that the state has forgotten and that the next commit lets the store recognise.
    pub forgotten: Vec<String>,
    /// Refused signals. They become dead letters after a commit has confirmed that the state is not out of date: the clock of a process that has
    /// lost the instance may be slow.
    pub refused: Vec<(Signal, DeadReason)>,
    /// Whether a signal was ignored or refused, and the next commit must confirm the state.
    pub is_doubtful: bool,
    /// The refused signals that the commit in flight confirms.
    pub confirming: Vec<(Signal, DeadReason)>,
    /// The time between the last failed change and its repetition. 0: the last change has won.
    pub pause_ms: u64,
    /// Nothing happens to the instance before this moment.
    pub paused_until_ms: u64,
    /// Whether the state has changes that are not stored.
    pub is_dirty: bool,
    /// Whether a call's result is among the changes: it must be stored before the next call.
    pub has_result: bool,
    /// Until this moment a commit waits for a call that began with the change.
    pub hold_until_ms: Option<u64>,
    pub is_draining: bool,
    /// The number of the last effect of the draining in flight.
    pub draining_upto: u64,
    /// No effect is tried again before this moment.
    pub drain_at_ms: u64,
    /// Effects with a greater number are new: they do not wait for that moment.
    pub drain_new_after: u64,
    /// The idempotency keys of calls in flight, by visit and attempt.
    pub calls: BTreeMap<(u64, u32), String>,
    /// Whether calls wait in the worker's queue.
    pub is_queued: bool,
    /// Whether changes wait in the worker's list of commits.
    pub is_listed: bool,
    /// Whether a signal waits for the next commit.
    pub is_blocked: bool,
    /// The message of a panic, for the quarantine.
    pub poison: Option<String>,
    /// The steps of jq programs in this turn.
    spent: u64,
    /// Whether the definitions were loaded since a migration named an unknown version.
    pub has_asked: bool,
}

/// A state in memory.
pub(super) struct Loaded {
    pub program: Arc<Program>,
    pub state: State,
    /// The stored version.
    pub version: u64,
}

/// The oldest applied signal of a state that remembers as many as it can.
struct Oldest {
    id: String,
    is_kept: bool,
}

impl Oldest {
    fn of(state: &State) -> Option<Self> {
        let id = state.applied.front().filter(|_| state.applied.len() >= APPLIED_MAX)?;
        Some(Self { id: id.clone(), is_kept: state.kept.iter().any(|signal| signal.id == *id) })
    }

    /// Its id, if the next state has forgotten it. An end turns kept signals into dead letters, which may be sent again.
    fn forgotten_by(self, next: &State) -> Option<String> {
        let is_buried = self.is_kept && next.status.is_ended();
        (next.applied.front() != Some(&self.id) && !is_buried).then_some(self.id)
    }
}

/// The work that follows from stepping a slot.
#[derive(Default)]
pub(super) struct Stepped {
    /// Signals to remove.
    pub remove: Vec<String>,
    /// Signals that become dead letters.
    pub bury: Vec<(Signal, DeadReason)>,
    /// Migrations to versions that only another program can use.
    pub postpone: Vec<Signal>,
    /// The message of a panic.
    pub panic: Option<String>,
    /// Whether a signal waits for the commit.
    pub is_blocked: bool,
    /// The steps of jq programs.
    pub spent: u64,
    /// Whether a migration waits until the definitions are loaded.
    pub must_ask: bool,
    /// Whether the bound of steps has left work to the next turn.
    pub is_cut: bool,
}

impl Slot {
    pub fn new(generation: u64, partition: u16) -> Self {
        Self {
            generation,
            partition,
            loaded: None,
            is_loading: false,
            signals: VecDeque::new(),
            waiting: 0,
            weight: 1,
            answers: VecDeque::new(),
            known: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            alarm_ms: None,
            consumed: Vec::new(),
            committing: None,
            forgotten: Vec::new(),
            refused: Vec::new(),
            is_doubtful: false,
            confirming: Vec::new(),
            pause_ms: 0,
            paused_until_ms: 0,
            is_dirty: false,
            has_result: false,
            hold_until_ms: None,
            is_draining: false,
            draining_upto: 0,
            drain_at_ms: 0,
            drain_new_after: u64::MAX,
            calls: BTreeMap::new(),
            is_queued: false,
            is_listed: false,
            is_blocked: false,
            poison: None,
            spent: 0,
            has_asked: false,
        }
    }

    /// Adds a signal, unless it is here. Returns whether it is new.
    pub fn add(&mut self, signal: Signal) -> bool {
        if !self.known.insert(signal.id.clone()) {
            return false;
        }
        let at = self.signals.partition_point(|other| other.order() <= signal.order());
        self.waiting += signal.weight();
        self.signals.insert(at, signal);
        true
    }

    /// Takes an answer. Ignores the answer of an earlier life of the instance: it may belong to another call
    /// with the same number.
    pub fn answered(&mut self, key: &str, answer: Answer) {
        let called = self.calls.get(&(answer.visit, answer.attempt));
        if called.is_some_and(|called| called == key) {
            self.answers.push_back(answer);
        }
    }

    /// Whether nothing happens to the instance in this worker.
    pub fn is_idle(&self) -> bool {
        !self.is_loading
            && !self.is_queued
            && !self.is_doubtful
            && !self.is_dirty
            && !self.is_draining
            && self.committing.is_none()
            && self.signals.is_empty()
            && self.answers.is_empty()
            && self.known.is_empty()
            && self.calls.is_empty()
    }

    /// Applies the signals, answers and moments that wait for the instance, until jq programs have taken `steps_max` steps.
    pub fn work(&mut self, registry: &Registry, now_ms: u64, steps_max: u64) -> Stepped {
        self.spent = 0;
        let stepped = self.work_within(registry, now_ms, steps_max);
        Stepped { spent: self.spent, ..stepped }
    }

    fn work_within(&mut self, registry: &Registry, now_ms: u64, steps_max: u64) -> Stepped {
        let mut stepped = Stepped::default();
        if self.committing.is_some() {
            return stepped;
        }
        while self.spent < steps_max
            && let Some(answer) = self.answers.pop_front()
        {
            self.calls.remove(&(answer.visit, answer.attempt));
            match self.step(Input::Called(answer), now_ms) {
                Ok(Outcome::Applied) => self.has_result = true,
                Ok(_) => {}
                Err(panic) => return Stepped { panic: Some(panic), ..stepped },
            }
        }
        while self.spent < steps_max && !self.signals.is_empty() {
            if !self.may_forget_one() {
                stepped.remove.extend(self.unconfirmed.iter().cloned());
                stepped.is_blocked = true;
                break;
            }
            if let Some(migration) = self.unusable_migration(registry) {
                stepped.postpone.push(migration);
                continue;
            }
            if self.leads_to(|hash| registry.program(hash).is_none()) && !self.has_asked {
                (stepped.must_ask, stepped.is_blocked) = (true, true);
                break;
            }
            let Some(signal) = self.signals.pop_front() else { break };
            let weight = signal.weight();
            self.waiting = self.waiting.saturating_sub(weight);
            // The next migration asks again: its version may be younger than the answer.
            let is_migration = matches!(signal.body, Body::Migrate { .. });
            self.has_asked &= !is_migration;
            match self.apply(&signal, registry, now_ms) {
                Ok(Outcome::Applied) => self.consumed.push(signal.id),
                // The answer rests on changes that are not stored and may be lost.
                Ok(_) if self.is_dirty => {
                    self.waiting += weight;
                    self.has_asked |= is_migration;
                    self.signals.push_front(signal);
                    stepped.is_blocked = true;
                    break;
                }
                // These are true of every later state, too.
                Ok(Outcome::Ignored(Ignored::Duplicate)) => stepped.remove.push(signal.id),
                Ok(Outcome::Ignored(_)) if self.is_over() => stepped.remove.push(signal.id),
                Ok(Outcome::Refused(reason)) if self.is_over() => stepped.bury.push((signal, reason)),
                Ok(Outcome::Ignored(_)) => {
                    self.is_doubtful = true;
                    self.consumed.push(signal.id);
                }
                Ok(Outcome::Refused(reason)) => {
                    self.is_doubtful = true;
                    self.refused.push((signal, reason));
                }
                Err(panic) => {
                    stepped.bury.push((signal, DeadReason::Quarantined));
                    return Stepped { panic: Some(panic), ..stepped };
                }
            }
        }
        let is_due = |loaded: &Loaded| loaded.state.due_ms().is_some_and(|due_ms| due_ms <= now_ms);
        let is_due = self.loaded.as_ref().is_some_and(is_due);
        if self.spent >= steps_max {
            let has_signals = !self.signals.is_empty() && !stepped.is_blocked;
            stepped.is_cut = is_due || has_signals || !self.answers.is_empty();
        } else if is_due && let Err(panic) = self.step(Input::Due, now_ms) {
            stepped.panic = Some(panic);
        }
        stepped
    }

    /// Whether the next signal moves the instance to a version like this, by its hash: one that this process does not know, and that another
    /// process may have deployed, or one that only another program can use.
    fn leads_to(&self, is_such: impl Fn(&str) -> bool) -> bool {
        let next = self.signals.front().map(|signal| &signal.body);
        matches!(next, Some(Body::Migrate { to }) if is_such(&to.hash))
    }

    /// Takes the next signal if it moves the instance to a version that only another program can use.
    fn unusable_migration(&mut self, registry: &Registry) -> Option<Signal> {
        let is_unusable = self.leads_to(|hash| registry.fault(hash).is_some()) && self.may_migrate();
        let migration = if is_unusable { self.signals.pop_front() } else { None }?;
        self.waiting = self.waiting.saturating_sub(migration.weight());
        Some(migration)
    }

    /// Whether the next signal may still move the instance: to a version of its definition, unless the instance has ended or taken the signal
    /// before.
    fn may_migrate(&self) -> bool {
        let (Some(Loaded { state, .. }), Some(signal)) = (&self.loaded, self.signals.front()) else {
            return false;
        };
        let is_of_definition = matches!(&signal.body, Body::Migrate { to } if to.name == state.version.name);
        is_of_definition && !self.is_over() && !state.applied.contains(&signal.id)
    }

    /// Whether one more signal may push the oldest id out of the applied ones. An id whose signal may still be in the store must stay: the signal
    /// would be applied again.
    fn may_forget_one(&self) -> bool {
        let applied = self.loaded.as_ref().map(|loaded| &loaded.state.applied);
        let oldest =
            applied.filter(|applied| applied.len() >= APPLIED_MAX).and_then(|applied| applied.front());
        oldest.is_none_or(|oldest| !self.known.contains(oldest) && !self.unconfirmed.contains(oldest))
    }

    fn apply(&mut self, signal: &Signal, registry: &Registry, now_ms: u64) -> Result<Outcome, String> {
        match &signal.body {
            Body::Migrate { to } => Ok(self.migrate(signal, registry.program(&to.hash), now_ms)),
            _ => self.step(Input::Signal(signal.clone()), now_ms),
        }
    }

    fn migrate(&mut self, signal: &Signal, to: Option<Arc<Program>>, now_ms: u64) -> Outcome {
        let refused = Outcome::Refused(DeadReason::Refused);
        let (Some(loaded), Some(to)) = (&mut self.loaded, to) else { return refused };
        if loaded.state.applied.contains(&signal.id) {
            return Outcome::Ignored(Ignored::Duplicate);
        }
        if loaded.state.status.is_ended() || loaded.state.version.name != to.version.name {
            return refused;
        }
        // A migration moves tokens, too.
        self.spent = self.spent.saturating_add(STEPS_MAX);
        let Ok(mut state) = migrate(&loaded.program, &to, loaded.state.clone(), now_ms) else {
            return refused;
        };
        let oldest = Oldest::of(&state);
        state.remember(signal.id.clone());
        self.forgotten.extend(oldest.and_then(|oldest| oldest.forgotten_by(&state)));
        (loaded.state, loaded.program) = (state, to);
        self.is_dirty = true;
        Outcome::Applied
    }

    /// Steps the state. A panic leaves no state: the store has it.
    pub fn step(&mut self, input: Input, now_ms: u64) -> Result<Outcome, String> {
        let Some(Loaded { program, state, version }) = self.loaded.take() else {
            return Ok(Outcome::Ignored(Ignored::Stale));
        };
        let oldest = Oldest::of(&state);
        let stepped = catch_unwind(AssertUnwindSafe(|| counted(&program, state, input, now_ms)));
        let (state, outcome, steps) = stepped.map_err(|panic| words(panic.as_ref()))?;
        self.spent = self.spent.saturating_add(steps);
        self.is_dirty |= outcome == Outcome::Applied;
        self.forgotten.extend(oldest.and_then(|oldest| oldest.forgotten_by(&state)));
        self.loaded = Some(Loaded { program, state, version });
        Ok(outcome)
    }

    /// The calls to begin now: none while a result is not stored.
    pub fn due_calls(&self, now_ms: u64) -> Vec<Call> {
        let calls = |loaded: &Loaded| {
            calls_except(&loaded.program, &loaded.state, now_ms, |visit, attempt| {
                self.is_known(visit, attempt)
            })
        };
        self.settled().map(calls).unwrap_or_default()
    }

    /// Whether there are calls to begin now.
    pub fn has_calls(&self, now_ms: u64) -> bool {
        let is_known = |visit, attempt| self.is_known(visit, attempt);
        self.settled().is_some_and(|loaded| has_calls(&loaded.state, now_ms, is_known))
    }

    /// The state, if its calls may begin.
    fn settled(&self) -> Option<&Loaded> {
        let must_store = self.is_dirty && self.stores_before_calls();
        let may_begin = !self.has_result && self.committing.is_none() && self.pause_ms == 0 && !must_store;
        self.loaded.as_ref().filter(|_| may_begin)
    }

    /// Whether a change must be stored before the calls that it leads to. A change that is lost is decided again. If the program reads
    /// the clock, the repeated step may lead to another call with another key. If a call has a compensation, nothing would
    /// undo the call without the stored change.
    fn stores_before_calls(&self) -> bool {
        self.loaded.as_ref().is_some_and(|Loaded { program, state, .. }| {
            let is_undone = |at| call_at(program, at).is_some_and(|call| call.compensate.is_some());
            program.reads_clock || state.tokens.iter().any(|token| is_undone(token.at))
        })
    }

    /// The number of the last effect that existed when effects were last drained, if the outbox still has effects up to it.
    pub fn left_behind(&self) -> Option<u64> {
        let state = &self.loaded.as_ref()?.state;
        state.outbox.iter().any(|effect| effect.number <= self.draining_upto).then_some(self.draining_upto)
    }

    /// Whether the instance waits after a failed change. If more time is left than the
    /// whole pause, the clock was set back, and the pause ends.
    pub fn is_paused(&self, now_ms: u64) -> bool {
        let left_ms = self.paused_until_ms.saturating_sub(now_ms);
        (1..=self.pause_ms).contains(&left_ms)
    }

    /// Whether a change must win before the instance's calls begin.
    pub fn must_prove(&self, now_ms: u64) -> bool {
        let is_known = |visit, attempt| self.is_known(visit, attempt);
        let loaded = self.loaded.as_ref().filter(|_| self.pause_ms > 0 && self.committing.is_none());
        loaded.is_some_and(|loaded| has_calls(&loaded.state, now_ms, is_known))
    }

    fn is_known(&self, visit: u64, attempt: u32) -> bool {
        self.calls.contains_key(&(visit, attempt))
    }

    /// Whether the instance has ended.
    fn is_over(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.state.status.is_ended())
    }

    /// Whether the state must be stored or confirmed now.
    pub fn is_ready(&self, now_ms: u64) -> bool {
        (self.is_dirty || self.is_doubtful)
            && self.committing.is_none()
            && (self.has_result || self.hold_until_ms.is_none_or(|until_ms| until_ms <= now_ms))
    }

    /// Whether the instance is in quarantine.
    pub fn is_quarantined(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.state.status == Status::Quarantined)
    }

    /// Puts the instance in quarantine, unless it has ended.
    pub fn quarantine(&mut self, words: String, now_ms: u64) {
        if let Some(loaded) = self.loaded.as_mut().filter(|loaded| !loaded.state.status.is_ended()) {
            loaded.state.status = Status::Quarantined;
            loaded.state.error = Some(words);
            loaded.state.changed_ms = now_ms;
            self.is_dirty = true;
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the step panicked: {}", text.unwrap_or_else(|| "without words".into()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::definition::Definition;
    use crate::instance::StartRequest;
    use crate::step::start;

    fn slot(applied: impl IntoIterator<Item = String>) -> Slot {
        let program = Arc::new(Program::compile(&Definition::new("a").wait("never")).unwrap());
        let (id, definition) = ("i".to_owned(), "a".to_owned());
        let request = StartRequest { id, definition, key: None, parent: None, depth: 0, input: Value::Null };
        let mut state = start(&program, request, 0).unwrap();
        state.applied = applied.into_iter().collect();
        let unconfirmed = state.applied.iter().cloned().collect();
        Slot { loaded: Some(Loaded { program, state, version: 1 }), unconfirmed, ..Slot::new(1, 0) }
    }

    fn signal(id: &str) -> Signal {
        Signal::named("i", id, "go", Value::Null, 0)
    }

    #[test]
    fn an_id_is_forgotten_only_after_its_signal_is_removed() {
        let registry = Registry::default();
        let mut slot = slot((0..APPLIED_MAX).map(|number| format!("old{number}")));
        slot.add(signal("new"));
        let stepped = slot.work(&registry, 0, u64::MAX);
        assert_eq!((stepped.remove.len(), slot.consumed.len()), (APPLIED_MAX, 0));
        slot.unconfirmed.clear();
        assert!(slot.work(&registry, 0, u64::MAX).remove.is_empty());
        assert_eq!(slot.consumed, ["new"]);
    }

    #[test]
    fn a_signal_is_taken_once_and_a_repeated_one_is_removed() {
        let registry = Registry::default();
        let mut slot = slot(["known".to_owned()]);
        assert!(slot.add(signal("known")) && !slot.add(signal("known")));
        assert_eq!(slot.work(&registry, 0, u64::MAX).remove, ["known"]);
        assert!(!slot.is_dirty);
    }

    #[test]
    fn an_answer_that_rests_on_unsaved_changes_waits_for_them() {
        let registry = Registry::default();
        let mut slot = slot([]);
        slot.add(signal("1"));
        slot.work(&registry, 0, u64::MAX);
        assert!(slot.is_dirty && slot.is_ready(0));
        // A retry of an instance that is not parked is refused, but only on the grounds of a stored state.
        slot.add(Signal::new("i", "2", Body::Retry, 0));
        assert!(slot.work(&registry, 0, u64::MAX).is_blocked);
        slot.is_dirty = false;
        slot.work(&registry, 0, u64::MAX);
        assert!(slot.refused.len() == 1 && slot.is_ready(0), "a commit confirms the state first");
    }

    #[test]
    fn no_call_begins_before_the_result_of_another_is_stored() {
        let program = Arc::new(Program::compile(&Definition::new("a").service("f").service("g")).unwrap());
        let (id, definition) = ("i".to_owned(), "a".to_owned());
        let request = StartRequest { id, definition, key: None, parent: None, depth: 0, input: Value::Null };
        let state = start(&program, request, 0).unwrap();
        let mut slot = Slot { loaded: Some(Loaded { program, state, version: 1 }), ..Slot::new(1, 0) };
        let first = slot.due_calls(0).remove(0);
        slot.answers.push_back(Answer { visit: first.visit, attempt: 1, result: Ok(Value::Null) });
        slot.work(&Registry::default(), 0, u64::MAX);
        assert_eq!(slot.due_calls(0), []);
        slot.has_result = false;
        assert_eq!(slot.due_calls(0)[0].target.to_string(), "g");
    }
}
