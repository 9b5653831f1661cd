//! Resolves a scenario into a plan.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use bson::Document;
use plimsoll_host::fault::Fault as Injection;
use plimsoll_http::Request;
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::objective::{Metric, Objective};
use plimsoll_load::phase::{Documents, Load, Phase};
use plimsoll_load::retry::Retry;
use plimsoll_measure::expectation::{self, Wanted};
use plimsoll_measure::metric::Subject;
use plimsoll_measure::rule::Rule;
use plimsoll_mongo::scenario::{Client, Operation as Command};
use plimsoll_mongo::setup::{Context as SetupContext, index_key};

use crate::operation::Operation;
use crate::{self as scenario, Loaded, Unit};

mod operations;
mod phase;
mod search;

use operations::operations;
use phase::build_phase;
pub use search::Searched;

/// A resolved scenario.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Operations by index, with their names.
    pub operations: Vec<(String, Operation)>,
    /// The phases.
    pub phases: Vec<Phase>,
    /// The expectations at the end.
    pub expectations: Vec<Wanted>,
    /// The objective of the load line.
    pub objective: Objective,
    /// The index of the load that a search or a ladder varies, in the last phase. `None` if the phase has
    /// several loads and none is named.
    pub varied: Option<usize>,
    /// The keys of the indexes to create before each phase.
    pub indexes: Vec<Vec<Document>>,
    /// All faults of the run. The phases refer to them by index.
    pub injections: Vec<Aimed>,
}

/// A fault and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aimed {
    /// The victim of the fault.
    pub victim: scenario::Victim,
    /// The index of the server, from 0.
    pub server: usize,
    /// The fault.
    pub fault: Injection,
}

impl Plan {
    /// Resolves a scenario.
    ///
    /// # Errors
    /// When the scenario is invalid. The error names the first invalid key.
    pub fn build(loaded: &Loaded) -> anyhow::Result<Self> {
        let scenario = &loaded.scenario;
        if scenario.phases.is_empty() {
            bail!("phases: a scenario needs at least one phase");
        }
        check_power_loss(scenario)?;
        let operations = operations(scenario)?;
        let phases = scenario.phases.iter().enumerate();
        let phases = phases.map(|(index, phase)| build_phase(scenario, index, phase, &operations));
        let phases: Vec<_> = phases.collect::<anyhow::Result<_>>()?;
        check_receipts(&phases, &operations)?;
        check_retry(scenario, &operations)?;
        let names: Vec<_> = operations.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self {
            expectations: expectations(&scenario.expect, &phases, &names)?,
            objective: objective(&scenario.line.objective)?,
            varied: search::varied(&phases, scenario.line.load.as_deref())?,
            operations,
            phases,
            indexes: indexes(loaded)?,
            injections: injections(scenario),
        })
    }

    /// The names of the operations, by index.
    pub fn names(&self) -> Vec<String> {
        self.operations.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The commands by index, for a plan on a database.
    pub fn database(&self) -> Vec<(String, Command)> {
        let of = |(name, work): &(String, Operation)| Some((name.clone(), work.database()?.clone()));
        self.operations.iter().filter_map(of).collect()
    }

    /// The requests by index, for a plan on a service.
    pub fn service(&self) -> Vec<(String, Request)> {
        let of = |(name, work): &(String, Operation)| Some((name.clone(), work.service()?.clone()));
        self.operations.iter().filter_map(of).collect()
    }

    /// The units by index, for a plan on the workflow engine.
    pub fn units(&self) -> Vec<(String, Unit)> {
        let of = |(name, work): &(String, Operation)| Some((name.clone(), work.unit()?.clone()));
        self.operations.iter().filter_map(of).collect()
    }

    /// The number of documents that all phases create. `None` if a phase creates documents without a limit.
    pub fn documents(&self) -> Option<u64> {
        let makes = |phase: &&Phase| phase.loads.iter().any(|load| load.documents == Documents::Made);
        self.phases.iter().filter(makes).map(|phase| phase.stop.documents).sum()
    }

    /// The largest number of connections of any phase.
    pub fn connections(&self) -> u32 {
        let phase = |phase: &Phase| phase.loads.iter().map(|load| load.arrivals.connections()).sum();
        self.phases.iter().map(phase).max().unwrap_or(1)
    }
}

/// The index keys of every phase, in order.
fn indexes(loaded: &Loaded) -> anyhow::Result<Vec<Vec<Document>>> {
    let run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };
    let context = SetupContext { seed: loaded.scenario.seed, run, base: &loaded.base };
    let phases = loaded.scenario.phases.iter().enumerate();
    let of = |(number, phase): (usize, &scenario::Phase)| {
        let place = format!("phases.{number}");
        let keys = phase.indexes.iter().map(|key| index_key(&place, key, context));
        Ok(keys.collect::<Result<_, _>>()?)
    };
    phases.map(of).collect()
}

/// Every fault of every phase, in order.
fn injections(scenario: &scenario::Scenario) -> Vec<Aimed> {
    let faults = scenario.phases.iter().flat_map(|phase| &phase.faults);
    faults
        .map(|fault| Aimed { victim: fault.victim, server: fault.server, fault: fault.inject.clone() })
        .collect()
}

/// Refuses a loss of power of a service, which keeps its data in the server.
fn check_power_loss(scenario: &scenario::Scenario) -> anyhow::Result<()> {
    let mut faults = scenario.phases.iter().flat_map(|phase| &phase.faults);
    if faults.any(|fault| fault.victim == scenario::Victim::Service && fault.inject.needs_power_loss()) {
        bail!(
            "faults: a service has nothing to lose without power; use `kill`, or leave out `victim: service`"
        );
    }
    Ok(())
}

/// Refuses unsafe retries: a retried batch must skip the documents that the server already has.
fn check_retry(scenario: &scenario::Scenario, operations: &[(String, Operation)]) -> anyhow::Result<()> {
    if matches!(scenario.retry, None | Some(Retry::None)) {
        return Ok(());
    }
    if scenario.client == Client::Driver {
        bail!(
            "retry: the official driver's own retries are off, so that clients are comparable; use client: lean"
        );
    }
    let commands = operations.iter().filter_map(|(name, work)| Some((name, work.database()?)));
    for (name, operation) in commands {
        match operation {
            Command::Insert(insert) if insert.ordered && insert.batch > 1 => bail!(
                "retry: operation `{name}` inserts in order, and a retry would stop at the first document \
                 that already exists; use `ordered: false` or `retry: none`"
            ),
            Command::Transaction(_) => bail!(
                "retry: operation `{name}` is a transaction, which is not sent again; use `retry: none`"
            ),
            Command::ListAppend(_) => {
                bail!("retry: operation `{name}` must not append an element twice; use `retry: none`")
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses an operation by receipt if no earlier phase inserts documents.
fn check_receipts(phases: &[Phase], operations: &[(String, Operation)]) -> anyhow::Result<()> {
    let mut inserted = false;
    for phase in phases {
        let used =
            phase.loads.iter().flat_map(|load| &load.mix).map(|(operation, _)| &operations[*operation]);
        let used: Vec<_> = used.collect();
        let inserts = |(_, operation): &&(String, Operation)| operation.makes();
        if let Some((name, _)) = used.iter().find(|(_, operation)| !inserted && operation.needs_receipts()) {
            bail!(
                "operation `{name}` names documents by receipt, but no earlier phase inserts any: add a phase before"
            );
        }
        inserted |= used.iter().copied().any(|operation| inserts(&operation));
    }
    Ok(())
}

fn expectations(
    typed: &BTreeMap<String, Vec<Rule>>,
    phases: &[Phase],
    names: &[String],
) -> anyhow::Result<Vec<Wanted>> {
    let subjects: Vec<Subject<'_>> = phases.iter().flat_map(|phase| phase.subjects(names)).collect();
    let all = typed.iter().flat_map(|(metric, list)| list.iter().map(move |rule| (metric, rule)));
    all.map(|(metric, rule)| Ok(expectation::read(metric, rule, &subjects)?)).collect()
}

fn objective(typed: &BTreeMap<String, Vec<String>>) -> anyhow::Result<Objective> {
    if typed.is_empty() {
        return Ok(Objective::standard());
    }
    let mut bounds = Vec::new();
    for (metric, expressions) in typed {
        let metric = match metric.as_str() {
            "response" => Metric::Response,
            "service" => Metric::Service,
            "errors" => Metric::Errors,
            other => bail!("line.objective.{other}: use response, service or errors"),
        };
        for expression in expressions {
            bounds.push((
                metric,
                expression.parse().with_context(|| format!("line.objective.{}", metric.name()))?,
            ));
        }
    }
    let objective = Objective { bounds };
    objective.check().context("line.objective")?;
    Ok(objective)
}

/// Parses the share of this process, as `i/n`.
///
/// # Errors
/// When the text has another form, or i is not below n.
pub fn shard(text: &str) -> anyhow::Result<Share> {
    let read = || {
        let (index, of) = text.split_once('/')?;
        let share = Share { index: index.parse().ok()?, of: of.parse().ok()? };
        (share.of > 0 && share.of <= 10_000 && share.index < share.of).then_some(share)
    };
    read().with_context(|| format!("--shard {text}: write i/n with i from 0 and below n, for example 0/4"))
}

/// The same load with closed arrivals of `writers` writers, without pauses.
pub fn closed(load: &Load, writers: u32) -> Load {
    load.arriving(Arrivals::Closed { writers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(assignments: &[&str]) -> anyhow::Result<Plan> {
        let assignments: Vec<_> = assignments.iter().map(|&text| text.to_owned()).collect();
        Plan::build(&scenario::load("bulk-baseline", &assignments, None)?)
    }

    #[test]
    fn the_baseline_sends_500_documents_an_operation() {
        let plan = build(&[]).unwrap();
        assert_eq!(plan.documents_per_operation(), 500.0);
        assert_eq!(plan.names(), ["insert"]);
    }

    #[test]
    fn an_invalid_scenario_is_refused_with_its_place() {
        for (assignment, part) in [
            ("phases=[]", "at least one phase"),
            ("phases.0.stop={}", "phases.0: stop: a phase without an end"),
            (
                "phases.0.load.insert.arrivals={closed: {writers: 0}}",
                "phases.0: load.insert.arrivals: 0 connections",
            ),
            (
                "phases.0.load.find={operation: {find: {}}, arrivals: {closed: {writers: 1}}}",
                "no earlier phase inserts",
            ),
            (
                "phases.0.load.insert={mix: {a: {weight: 1, operation: {insert: {}}}}, mix_by: time, arrivals: {constant: {rate: 5}}}",
                "load.insert.mix_by: `time` needs arrivals",
            ),
            ("expect={insert.respons: ['p(99)<1']}", "unknown metric `respons`"),
            (
                "phases.0.load.insert={operation: {insert: {}}, arrivals: {closed: {writers: 1}}, connections: {per_operation: \
                 true}}\nclient=driver",
                "load.insert.connections.per_operation: the official driver keeps a pool",
            ),
            ("line={objective: {latency: ['p(99)<1']}}", "use response, service or errors"),
        ] {
            let assignments: Vec<_> = assignment.split('\n').collect();
            let message = format!("{:#}", build(&assignments).unwrap_err());
            assert!(message.contains(part), "{assignment}: {message}");
        }
    }

    #[test]
    fn a_shard_is_below_the_number_of_shards() {
        assert_eq!(shard("1/4").unwrap(), Share { index: 1, of: 4 });
        for text in ["4/4", "1", "a/b", "0/0"] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}
