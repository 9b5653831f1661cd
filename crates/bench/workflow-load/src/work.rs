//! Compiles the unit of a load: its definitions, and the part that the client plays in an instance.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use plimsoll_measure::clock::wall_ms;
use plimsoll_scenario::Unit;
use plimsoll_workflow::definition::{Definition, Repeat, Set, Step, Wait};
use plimsoll_workflow::explain::{Reason, explain};
use plimsoll_workflow::file;
use plimsoll_workflow::instance::{Act, Body, Signal, State};
use plimsoll_workflow::port::Record;
use plimsoll_workflow::program::{Kind, Program};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::unit::{self, SIGNAL};

/// The shipped flows. A flow comes before the flows that it starts.
const FLOWS: [&str; 4] = [
    include_str!("../flows/quote-or-apl-cancel.yaml"),
    include_str!("../flows/quotation-confirm.yaml"),
    include_str!("../flows/convert-to-policy.yaml"),
    include_str!("../flows/external-resume.yaml"),
];
/// The signals of an instance that waits out of order, in the order of its waits.
const SEQUENCE: [&str; 3] = ["first", "second", "third"];
/// The person who completes tasks.
const PERSON: &str = "client";

/// A compiled unit.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The definition of its instances, then those that they start.
    pub(crate) definitions: Vec<Definition>,
    /// The compiled first definition.
    program: Program,
    /// The client's part.
    pub(crate) part: Part,
}

/// The part that the client plays in an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Waits for the end.
    Watch,
    /// Does not wait for the end.
    Leave,
    /// Sends one signal once the instance waits for it.
    Signal,
    /// Sends all signals at once, the last one first.
    Early,
    /// Sends every signal that the instance waits for, and completes its tasks.
    Answer,
    /// Sends one signal to one of the receiving instances.
    Deliver {
        /// The number of receiving instances.
        receivers: u32,
        /// The time until the signal is due.
        delay_ms: u64,
    },
}

impl Work {
    /// The request of the client, for an example of a failure.
    pub(crate) fn command(&self) -> String {
        let request = match self.part {
            Part::Deliver { .. } => "signal",
            _ => "start",
        };
        format!("{request} an instance of {}", self.name())
    }

    /// Compiles a unit. Paths of its files are relative to `base`.
    ///
    /// # Errors
    /// When the file of a definition cannot be read, or is no definition.
    pub(crate) fn build(unit: &Unit, base: &Path) -> anyhow::Result<Self> {
        let (definitions, part) = match unit {
            Unit::RoundTrip => (vec![unit::Unit::RoundTrip.definition()], Part::Signal),
            Unit::Steps => (vec![unit::Unit::Steps.definition()], Part::Watch),
            Unit::Timer => (vec![unit::Unit::Timer.definition()], Part::Watch),
            Unit::Start => (vec![unit::Unit::Steps.definition()], Part::Leave),
            Unit::OutOfOrder => (vec![out_of_order()], Part::Early),
            Unit::Signal { receivers, delay } => {
                let delay_ms = delay.map_or(0, |delay| delay.as_ns() / 1_000_000);
                (vec![receiver()], Part::Deliver { receivers: (*receivers).max(1), delay_ms })
            }
            Unit::Definition(name) => (definitions(name, base)?, Part::Answer),
        };
        let first = definitions.first().context("unit.definition: a unit has a definition")?;
        let program = Program::compile(first)
            .map_err(|problems| anyhow::anyhow!("unit.definition: {}", problems[0].words))?;
        Ok(Self { definitions, program, part })
    }

    /// The name of the definition.
    pub(crate) fn name(&self) -> &str {
        &self.program.version.name
    }

    /// The signals that the client sends right after the start.
    pub(crate) fn at_once(&self, instance: &str) -> Vec<Signal> {
        let signal = |name: &&str| Signal::named(instance, *name, *name, Value::Null, wall_ms());
        match self.part {
            Part::Early => SEQUENCE.iter().rev().map(signal).collect(),
            _ => Vec::new(),
        }
    }

    /// The signals that a stored instance waits for. Every call gives a signal the same id.
    pub(crate) fn answers(&self, record: &Record) -> Vec<Signal> {
        match self.part {
            // Only the wait for the signal has no due time.
            Part::Signal if record.due_ms.is_none() => {
                vec![Signal::named(&record.id, "1", SIGNAL, Value::Null, wall_ms())]
            }
            Part::Answer => self.explained(record),
            _ => Vec::new(),
        }
    }

    /// The answers to every wait for a signal or a person.
    fn explained(&self, record: &Record) -> Vec<Signal> {
        let Ok(state) = State::decode(&record.body) else { return Vec::new() };
        let reasons = explain(Some(&self.program), &state).reasons;
        let body = |reason: &Reason| match reason.kind.as_str() {
            "signal" => Some(Body::Named { name: reason.missing.clone()?, body: Value::Null }),
            "task" => {
                let act = Act::Complete { payload: Value::Null };
                Some(Body::Act { visit: reason.visit?, by: PERSON.to_owned(), roles: self.roles(), act })
            }
            _ => None,
        };
        let signal = |reason: &Reason| {
            Some(Signal::new(&record.id, reason.visit?.to_string(), body(reason)?, wall_ms()))
        };
        reasons.iter().filter_map(signal).collect()
    }

    /// The roles of all tasks.
    fn roles(&self) -> Vec<String> {
        let roles = self.program.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Task(task) => Some(task.roles.clone()),
            _ => None,
        });
        roles.flatten().collect()
    }
}

/// A definition that waits in order for signals that come out of order.
fn out_of_order() -> Definition {
    SEQUENCE.iter().fold(Definition::new("out-of-order"), |definition, name| definition.wait(*name))
}

/// A jq program that notes the number of a signal by its sender. The numbers below `top` were applied, apart from the missing ones. A number that
/// was applied before counts as `again`. So the data names every applied signal, and stays small while signals come nearly in order.
const NOTE: &str = "(.seen // {}) as $all | .last.from as $from | .last.number as $number \
    | ($all[$from] // {top: 0, missing: [], again: 0}) as $seen \
    | {seen: ($all + {($from): ( \
        if $number >= $seen.top then {top: ($number + 1), missing: ($seen.missing + [range($seen.top; $number)]), again: $seen.again} \
        elif ($seen.missing | any(. == $number)) then ($seen + {missing: ($seen.missing - [$number])}) \
        else ($seen + {again: ($seen.again + 1)}) end)})}";

/// A definition that notes its signals forever.
fn receiver() -> Definition {
    let wait = Wait { signal: SIGNAL.to_owned(), result: Some("last".to_owned()), ..Wait::default() };
    let note = Step::Set(Set { value: NOTE.to_owned(), ..Set::default() });
    let steps = vec![Step::Wait(wait), note];
    Definition::new("receiver").then(Step::Repeat(Repeat { steps, ..Repeat::default() }))
}

/// The body of a sender's signal to a receiver.
pub(crate) fn numbered(from: &str, number: u64) -> Value {
    json!({"from": from, "number": number})
}

/// The signals of one sender that a receiver has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Received {
    /// The largest applied number, plus one.
    pub(crate) top: u64,
    /// The numbers below `top` that were not applied.
    missing: BTreeSet<u64>,
    /// Repeated applications.
    pub(crate) again: u64,
}

impl Received {
    /// Whether a signal was applied.
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.top && !self.missing.contains(&number)
    }
}

/// The signals that a receiver has applied, by sender. A state that cannot be read has none.
pub(crate) fn received(record: &Record) -> BTreeMap<String, Received> {
    let seen =
        State::decode(&record.body).ok().and_then(|mut state| state.data.get_mut("seen").map(Value::take));
    seen.and_then(|seen| serde_json::from_value(seen).ok()).unwrap_or_default()
}

/// The definition of this name or file, and those that it may start.
fn definitions(name: &str, base: &Path) -> anyhow::Result<Vec<Definition>> {
    let shipped = FLOWS.iter().map(|text| Ok(file::read(text)?.0)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(at) = shipped.iter().position(|flow| flow.name == name) {
        return Ok(shipped.into_iter().skip(at).collect());
    }
    let path = base.join(name);
    let text = std::fs::read_to_string(&path).with_context(|| {
        let names: Vec<_> = shipped.iter().map(|flow| flow.name.as_str()).collect();
        format!(
            "unit.definition: {} is no file, and the shipped ones are {}",
            path.display(),
            names.join(", ")
        )
    })?;
    let read = file::read(&text).with_context(|| format!("unit.definition: {}", path.display()))?;
    Ok(vec![read.0])
}

#[cfg(test)]
mod tests {
    use plimsoll_workflow::instance::{StartRequest, Status};
    use plimsoll_workflow::step::{Input, start, step};

    use super::*;

    fn work(unit: Unit) -> Work {
        Work::build(&unit, Path::new(".")).unwrap()
    }

    fn started(work: &Work) -> Record {
        let request = StartRequest {
            id: "i".into(),
            definition: work.name().into(),
            key: None,
            parent: None,
            depth: 0,
            input: Value::Null,
        };
        Record::of(&start(&work.program, request, 1).unwrap(), 1, 1, 0).unwrap()
    }

    #[test]
    fn an_example_of_a_failure_names_the_request_and_the_definition() {
        let timer = work(Unit::Timer);
        assert_eq!(timer.command(), format!("start an instance of {}", timer.name()));
        let signal = work(Unit::Signal { receivers: 1, delay: None });
        assert_eq!(signal.command(), format!("signal an instance of {}", signal.name()));
    }

    #[test]
    fn every_shipped_flow_is_a_definition_that_starts_only_later_ones() {
        for name in ["quote-or-apl-cancel", "quotation-confirm", "external-resume"] {
            let work = work(Unit::Definition(name.into()));
            assert_eq!((work.name(), &work.part), (name, &Part::Answer));
        }
        let all = work(Unit::Definition("quotation-confirm".into())).definitions;
        assert!(all.iter().any(|it| it.name == "convert-to-policy"));
    }

    #[test]
    fn a_missing_definition_is_refused_with_the_shipped_names() {
        let said =
            format!("{:#}", Work::build(&Unit::Definition("nothing".into()), Path::new("/x")).unwrap_err());
        assert!(said.contains("/x/nothing is no file") && said.contains("quotation-confirm"), "{said}");
    }

    #[test]
    fn a_receiver_waits_and_has_received_nothing() {
        let work = work(Unit::Signal { receivers: 0, delay: None });
        assert_eq!(work.part, Part::Deliver { receivers: 1, delay_ms: 0 });
        assert_eq!(received(&started(&work)), BTreeMap::new());
    }

    #[test]
    fn a_receiver_names_each_signal_that_it_applied() {
        let work = work(Unit::Signal { receivers: 1, delay: None });
        let mut state = State::decode(&started(&work).body).unwrap();
        for (at, (from, number)) in
            [("a", 0), ("a", 3), ("b", 0), ("a", 1), ("a", 3), ("a", 0)].into_iter().enumerate()
        {
            let signal = Signal::named("i", at.to_string(), SIGNAL, numbered(from, number), 1);
            state = step(&work.program, state, Input::Signal(signal), 1).0;
        }
        assert_eq!(state.status, Status::Running, "{:?}", state.error);
        let found = received(&Record::of(&state, 1, 1, 0).unwrap());
        let numbers = |from: &str| (0..6).filter(|number| found[from].has(*number)).collect::<Vec<_>>();
        assert_eq!((numbers("a"), found["a"].again), (vec![0, 1, 3], 2));
        assert_eq!((numbers("b"), found["b"].again), (vec![0], 0));
    }

    #[test]
    fn the_client_answers_the_wait_of_any_definition_with_the_same_id() {
        let dir = tempfile::tempdir().unwrap();
        let text = "name: a\nsteps:\n- wait: {signal: go}\n- task: {title: t, roles: [r]}\n";
        std::fs::write(dir.path().join("a.yaml"), text).unwrap();
        let work = Work::build(&Unit::Definition("a.yaml".into()), dir.path()).unwrap();
        let ids = || work.answers(&started(&work)).into_iter().map(|signal| signal.id).collect::<Vec<_>>();
        assert_eq!(ids().len(), 1);
        assert_eq!(ids(), ids());
        assert_eq!(work.roles(), ["r"]);
    }

    #[test]
    fn out_of_order_signals_begin_with_the_last_one() {
        let names: Vec<_> = work(Unit::OutOfOrder).at_once("i").into_iter().map(|signal| signal.id).collect();
        assert_eq!(names, ["third", "second", "first"]);
    }
}
