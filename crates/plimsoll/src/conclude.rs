//! Puts the summary of a run together from what every room has to say.

use plimsoll_load::objective::ACHIEVED_MIN;
use plimsoll_load::runtime::Spin;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::line::Line;
use plimsoll_measure::run::{Client, Expectation, FORMAT, Run, ScenarioFacts, ServerCost, Verdict};
use plimsoll_measure::sample::{ServerSample, growth};
use plimsoll_server::{machine, process};

use crate::exit::{Exit, worst};
use crate::session::{Session, id};

/// Under this headroom the tool, not the server, may have held the load back.
const HEADROOM_MIN: f64 = 2.0;

/// The summary of a run.
pub fn conclude(session: &Session, command: &str, integrity: Option<Integrity>, line: Option<Line>) -> Run {
    let expectations = expectations(session, integrity.as_ref(), line.is_some() || session.ladder.is_some());
    let (collection_before, collection_after) = session.system.inspections();
    let mut run = Run {
        format: FORMAT,
        id: id(session.run),
        command: command.to_owned(),
        started: clock::utc(session.started_ms),
        started_ms: session.started_ms,
        duration_s: session.summary.load_ns() as f64 / 1e9,
        interrupted: session.ended >= Ended::Unreachable || session.control.is_stopped(),
        aborted: session.control.aborted().map(|(_, reason)| reason),
        scenario: scenario(session),
        server: session.system.facts().clone(),
        environment: machine::environment(session.readers.dir.path()),
        phases: phases(session),
        spread: session.spread.clone(),
        faults: session.summary.faults().to_vec(),
        operations: session.summary.operations(),
        answers: session.system.answers(),
        client: client(session, line.as_ref()),
        server_cost: server_cost(session),
        integrity,
        expectations,
        line,
        ladder: session.ladder.clone(),
        collection_before,
        collection_after,
        ..Run::default()
    };
    (run.verdict, run.reasons) = verdict(&run, session);
    run.conclusions = plimsoll_report::conclusions(&run);
    run
}

/// The exit code that a summary deserves.
pub fn exit(run: &Run, session: &Session) -> Exit {
    let violated = run.integrity.as_ref().is_some_and(|integrity| !integrity.holds());
    let unheld = run.expectations.iter().any(|expectation| !expectation.held);
    let unread = run.integrity.as_ref().is_some_and(|integrity| !integrity.is_known());
    let early = session.ended >= Ended::Unreachable || session.control.is_stopped();
    let aborted = matches!(session.ended, Ended::Threshold | Ended::NotReached);
    let no_line = run.line.as_ref().is_some_and(|line| line.rate.is_none()) && !early;
    worst([
        if violated { Exit::Integrity } else { Exit::Held },
        if unread || session.ended == Ended::Unreachable { Exit::Server } else { Exit::Held },
        if unheld || no_line || aborted { Exit::Expectation } else { Exit::Held },
        if session.control.is_stopped() { Exit::Interrupted } else { Exit::Held },
    ])
}

fn scenario(session: &Session) -> ScenarioFacts {
    ScenarioFacts {
        name: session.loaded.name.clone(),
        title: session.loaded.scenario.title.clone(),
        hash: session.loaded.hash(),
        seed: session.loaded.scenario.seed,
        shard: format!("{}/{}", session.shard.index, session.shard.of),
        client: session.system.client().to_owned(),
        collections: session.system.collections(),
    }
}

fn phases(session: &Session) -> Vec<plimsoll_measure::run::PhaseFacts> {
    let mut phases = session.summary.phases().to_vec();
    for phase in &mut phases {
        let inside = |at_ns: u64| (phase.from_s..=phase.to_s + 1.0).contains(&(at_ns as f64 / 1e9));
        let seen: Vec<_> = session.samples.iter().filter(|sample| inside(sample.at_ns)).cloned().collect();
        phase.checkpoints = growth(&seen, |sample| sample.checkpoints);
    }
    phases
}

fn client(session: &Session, line: Option<&Line>) -> Client {
    let (operations, documents) = session.summary.acknowledged();
    let per = |count: u64| (count > 0).then(|| session.summary.cpu_ns() as f64 / 1000.0 / count as f64);
    let (ceiling, achieved) = ceiling(session, line);
    let headroom = crate::canary::headroom(ceiling, achieved, operations, session.summary.load_ns());
    Client {
        workers: session.system.crew().workers as u32,
        connections: session.connections as u32,
        cpu_us_per_operation: per(operations),
        cpu_us_per_document: per(documents),
        cpu_busiest_worker: session.summary.cpu_busiest(),
        switches_per_operation: switches(session, operations),
        wire_bytes_per_document: wire_bytes(session, documents),
        rss_bytes_max: process::own().rss_bytes_max.unwrap_or(0),
        null_server_per_s: ceiling,
        headroom,
        limited: headroom.is_some_and(|headroom| headroom < HEADROOM_MIN),
        spin: session.system.crew().spin == Spin::On,
        reconnects: session.summary.reconnects(),
        canary_ping_ns: session.pings_ns.clone(),
        canary_null_per_s: session.ceilings.iter().map(|(operations, _)| *operations).collect(),
    }
}

/// The ceiling of the ruler and what was achieved, in operations per second. The ceiling is that of the last phase, so a
/// run of several phases has none to compare with.
fn ceiling(session: &Session, line: Option<&Line>) -> (Option<f64>, f64) {
    if let Some(line) = line {
        let most = line.probes.iter().map(|probe| probe.achieved).fold(0.0, f64::max);
        return (
            session.ceilings.first().map(|(operations, _)| *operations),
            most / line.documents_per_operation.max(1.0),
        );
    }
    if let Some(ladder) = &session.ladder {
        let most = ladder.rungs.iter().map(|rung| rung.throughput).fold(0.0, f64::max);
        let ceiling = session.ceilings.first().map(|(operations, _)| *operations);
        return (ceiling, most / session.plan.documents_per_operation().max(1.0));
    }
    let seconds = (session.summary.load_ns() as f64 / 1e9).max(f64::MIN_POSITIVE);
    let comparable = session.plan.phases.len() == 1;
    let ceiling = session.ceilings.first().filter(|_| comparable).map(|(operations, _)| *operations);
    (ceiling, session.summary.acknowledged().0 as f64 / seconds)
}

fn server_cost(session: &Session) -> ServerCost {
    let (operations, documents) = session.summary.acknowledged();
    let known = session.server_cpu_ns > 0 && !session.server_restarted;
    let per = |count: u64| (known && count > 0).then(|| session.server_cpu_ns as f64 / 1000.0 / count as f64);
    ServerCost {
        cpu_us_per_operation: per(operations),
        cpu_us_per_document: per(documents),
        cores: known.then(|| session.server_cpu_ns as f64 / session.summary.load_ns().max(1) as f64),
        rss_bytes_max: session.samples.iter().filter_map(|sample| sample.rss_bytes).max(),
        written_bytes_per_document: grown_per(session, documents, |sample| sample.disk_written_bytes),
        journal_bytes_per_document: grown_per(session, documents, |sample| sample.journal_bytes),
    }
}

fn switches(session: &Session, operations: u64) -> Option<f64> {
    session.summary.switches().filter(|_| operations > 0).map(|switches| switches as f64 / operations as f64)
}

fn wire_bytes(session: &Session, documents: u64) -> Option<f64> {
    let bytes = session.summary.tallies().map(|(_, tally)| tally.bytes_sent + tally.bytes_received);
    let known = documents > 0 && session.system.tells_bytes();
    known.then(|| bytes.sum::<u64>() as f64 / documents as f64)
}

/// By how much a counter of the server grew from its first look to its last, for each document.
fn grown_per(
    session: &Session,
    documents: u64,
    counter: impl Fn(&ServerSample) -> Option<u64>,
) -> Option<f64> {
    let grown = growth(&session.samples, counter)?;
    (documents > 0).then(|| grown as f64 / documents as f64)
}

/// A search or a ladder drives the load past what holds: of its expectations only those of integrity mean anything.
fn expectations(session: &Session, integrity: Option<&Integrity>, search: bool) -> Vec<Expectation> {
    session.summary.expectations(integrity, &session.system.answers(), search)
}

fn verdict(run: &Run, session: &Session) -> (Verdict, Vec<String>) {
    let failed = failed(run);
    if !failed.is_empty() {
        return (Verdict::Fail, failed);
    }
    let invalid = invalid(run, session);
    if invalid.is_empty() { (Verdict::Pass, invalid) } else { (Verdict::Invalid, invalid) }
}

fn failed(run: &Run) -> Vec<String> {
    let mut reasons = Vec::new();
    if run.integrity.as_ref().is_some_and(|integrity| !integrity.holds()) {
        reasons.push("the integrity of the documents is violated".to_owned());
    }
    let unheld = run.expectations.iter().filter(|expectation| !expectation.held);
    reasons.extend(unheld.map(|unheld| format!("{} {} did not hold", unheld.metric, unheld.expression)));
    reasons.extend(run.aborted.iter().map(|reason| format!("it ended early: {reason}")));
    if run.line.as_ref().is_some_and(|line| line.rate.is_none()) && !run.interrupted {
        reasons.push("no rate held the objective".to_owned());
    }
    reasons
}

fn invalid(run: &Run, session: &Session) -> Vec<String> {
    let mut reasons = Vec::new();
    match session.ended {
        Ended::Unreachable => reasons.push("the server could not be reached any more".to_owned()),
        _ if session.control.is_stopped() => reasons.push("the run was interrupted".to_owned()),
        _ => {}
    }
    if let Some(unread) = run.integrity.as_ref().filter(|integrity| !integrity.is_known()) {
        let reason = unread.reason.clone().unwrap_or_default();
        reasons.push(format!("the documents could not be read back: {reason}"));
    }
    let failed = run.operations.iter().filter(|(_, it)| it.due > 0 && it.count == 0 && it.skipped < it.due);
    reasons.extend(failed.map(|(name, _)| format!("{name}: no operation succeeded")));
    if run.client.limited {
        reasons.push("the tool itself may have held the load back".to_owned());
    }
    if run.line.is_none() {
        let short = run
            .operations
            .iter()
            .filter(|(_, it)| it.achieved.is_some_and(|achieved| achieved < ACHIEVED_MIN));
        reasons.extend(short.map(|(name, _)| format!("{name}: the rate was not reached")));
    }
    reasons
}
