//! Resolves a phase with its loads and faults into the form that the engine runs.

use anyhow::{Context, bail};
use plimsoll_load::fault::{FAULTS_MAX, Planned};
use plimsoll_load::phase::{Connections, Documents, Load, Phase, Timing};
use plimsoll_load::stop::Stop;
use plimsoll_measure::metric::{Tags, is_reserved};
use plimsoll_mongo::scenario::Client;

use crate as scenario;
use crate::operation::Operation;

pub(super) fn build_phase(
    scenario: &scenario::Scenario,
    index: usize,
    phase: &scenario::Phase,
    operations: &[(String, Operation)],
) -> anyhow::Result<Phase> {
    let name = phase.name.clone().unwrap_or_else(|| format!("phase {}", index + 1));
    let loads = phase.load.iter().map(|(name, load)| build_load(scenario, name, load, phase, operations));
    let loads: Vec<_> = loads.collect::<anyhow::Result<_>>().with_context(|| format!("phases.{index}"))?;
    let built = Phase {
        name,
        key: Some(index),
        stop: ending(phase.stop, &loads),
        loads,
        drain: phase.drain,
        unreachable_for: scenario.unreachable_for,
        seed: scenario.seed,
        retry: scenario.retry,
        limits: Vec::new(),
        faults: faults(phase, scenario.phases[..index].iter().map(|phase| phase.faults.len()).sum()),
    };
    built.check().with_context(|| format!("phases.{index}"))?;
    Ok(built)
}

/// The stop condition of a phase. If every load has an end, the phase lasts as long as its longest load.
fn ending(stop: Stop, loads: &[Load]) -> Stop {
    let ends: Option<Vec<_>> = loads.iter().map(|load| load.end(stop)).collect();
    Stop { duration: ends.and_then(|ends| ends.into_iter().max()), ..stop }
}

/// The faults of a phase. The first fault has the key `key`, and each further fault the next number. A
/// repeated fault without a limit occurs at most `FAULTS_MAX` times.
fn faults(phase: &scenario::Phase, key: usize) -> Vec<Planned> {
    let planned = |(index, fault): (usize, &scenario::Fault)| Planned {
        name: fault.inject.name(),
        key: key + index,
        at: fault.at,
        lasts: fault.inject.lasts(),
        every: fault.every,
        times: fault.times.unwrap_or(if fault.every.is_some() { FAULTS_MAX as u32 } else { 1 }),
        spacing: fault.spacing,
    };
    phase.faults.iter().enumerate().map(planned).collect()
}

fn build_load(
    scenario: &scenario::Scenario,
    name: &str,
    load: &scenario::Load,
    phase: &scenario::Phase,
    operations: &[(String, Operation)],
) -> anyhow::Result<Load> {
    let index = |name: &str| operations.iter().position(|(known, _)| known == name).unwrap_or(0);
    let mix = match load.mix.is_empty() {
        true => vec![(index(name), 1.0)],
        false => load.mix.iter().map(|(name, weighted)| (index(name), weighted.weight)).collect(),
    };
    let inserts = mix.iter().any(|(index, _)| operations[*index].1.makes());
    let resolved = load.arrivals.resolve();
    let timing = Timing {
        start: load.start.unwrap_or_default().0,
        stop: resolved.stop.and(load.stop),
        graceful_stop: load.graceful_stop.map(|time| time.0),
        think: load.think,
        rate_floor: load.rate_floor.or(phase.rate_floor.filter(|_| resolved.arrivals.is_open())),
    };
    let own = load.mix.iter().map(|(name, weighted)| (index(name), &weighted.tags));
    let single = load.mix.is_empty().then(|| (index(name), &load.tags)).into_iter();
    let tags = own.chain(single).map(|(operation, own)| Ok((operation, tags(name, &load.tags, own)?)));
    Ok(Load {
        name: name.to_owned(),
        mix,
        mix_by: load.mix_by,
        arrivals: resolved.arrivals,
        connections: connections(scenario, name, load)?,
        overdue: load.overdue,
        documents: if inserts { Documents::Made } else { Documents::Used },
        timing,
        tags: tags.collect::<anyhow::Result<_>>()?,
    })
}

/// Whether a load keeps its connections or opens one for each operation, which only the lean client can.
fn connections(
    scenario: &scenario::Scenario,
    name: &str,
    load: &scenario::Load,
) -> anyhow::Result<Connections> {
    let own = load.connections.map(|own| own.per_operation);
    if !own.unwrap_or(scenario.connections.per_operation) {
        return Ok(Connections::Kept);
    }
    if scenario.workflow.is_some() {
        bail!("load.{name}.connections: the workflow engine keeps its connections: leave it out");
    }
    if scenario.http.is_some() {
        bail!(
            "load.{name}.connections: HTTP/1.1 has its own key for this: set `requests_per_connection: 1` under `http.limits`"
        );
    }
    if scenario.client == Client::Driver {
        bail!(
            "load.{name}.connections.per_operation: the official driver keeps a pool of connections; use client: lean"
        );
    }
    Ok(Connections::PerOperation)
}

/// The tags of an operation: those of its load, overridden by its own.
fn tags(load: &str, shared: &Tags, own: &Tags) -> anyhow::Result<Tags> {
    let tags: Tags = shared.iter().chain(own).map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(name) = tags.keys().find(|name| is_reserved(name)) {
        bail!("load.{load}.tags: every operation has the tag `{name}` already; choose another name");
    }
    Ok(tags)
}
