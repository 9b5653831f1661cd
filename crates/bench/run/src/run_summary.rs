//! Builds the summary of a run: cost, headroom, verdict and conclusions.

use plimsoll_host::{machine, process};
use plimsoll_load::rate_floor::ACHIEVED_MIN;
use plimsoll_load::runtime::Spin;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::line::Line;
use plimsoll_measure::outcome::Rejection;
use plimsoll_measure::run::{
    Answers, Client, Expectation, FORMAT, Operation, Run, ScenarioFacts, ServerCost, Verdict,
};
use plimsoll_measure::sample::{ServerSample, growth};

use crate::bottleneck;
use crate::exit::{Exit, worst};
use crate::session::{Session, id};
use plimsoll_scenario::Plan;

/// The minimum operations for comparing a rate with the ceiling.
const OPERATIONS_MIN: u64 = 10;
/// A load of at least this many nanoseconds needs no `OPERATIONS_MIN`, because the measurement of the ceiling
/// takes as long.
const LOAD_NS_MIN: u64 = 1_000_000_000;
/// Below this headroom the tool, not the server, may limit the load.
const HEADROOM_MIN: f64 = 2.0;

/// The reason why a warm-up is neither a success nor a failure.
const WARM_UP: &str =
    "it is the warm-up of a suite's test, which has no verdict: it prepares the server for the measured run";

/// The results of a run that this process measured, or of joined shards.
#[derive(Debug)]
pub struct Account<'a> {
    /// Facts that are not summed. They include the client's identity, but not its cost.
    pub known: Run,
    /// The summary of its operations.
    pub summary: &'a Summary,
    /// Every server sample.
    pub samples: &'a [ServerSample],
    /// The plan.
    pub plan: &'a Plan,
    /// The reason why it ended.
    pub ended: Ended,
    /// Whether the user asked the run to stop.
    pub stopped: bool,
    /// CPU time of the system's processes under load, in nanoseconds. `None` if unknown.
    pub server_cpu_ns: Option<u64>,
    /// Whether the client reports the number of bytes on the wire.
    pub tells_bytes: bool,
    /// Whether the tool limited a part of the load.
    pub limited: bool,
}

/// The summary of a run.
pub fn conclude(session: &Session, command: &str, integrity: Option<Integrity>, line: Option<Line>) -> Run {
    complete(account(session, command, integrity, line))
}

/// The measurements of a session, for its summary.
fn account<'a>(
    session: &'a Session,
    command: &str,
    integrity: Option<Integrity>,
    line: Option<Line>,
) -> Account<'a> {
    let (search, answers) = (line.is_some() || session.ladder.is_some(), session.system.answers());
    let expectations = expectations(
        &session.summary,
        integrity.as_ref(),
        &answers,
        search,
        is_complete(session.ended, session.stopped),
    );
    let (collection_before, collection_after) = session.system.inspections();
    let [collections_before, collections_after] = session.system.collections_behind();
    let known = Run {
        format: FORMAT,
        id: id(session.run),
        command: command.to_owned(),
        started: clock::utc(session.started_ms),
        started_ms: session.started_ms,
        start_at_ms: session.start_at_ms,
        warm_up: session.warm_up,
        began_ms: session.began_ms,
        interrupted: session.ended >= Ended::Unreachable || session.stopped,
        aborted: session.control.aborted().map(|(_, reason)| reason),
        scenario: scenario(session),
        server: session.system.facts().clone(),
        environment: machine::environment(session.sinks.dir.path()),
        spread: session.spread.clone(),
        answers,
        client: tool(session),
        integrity,
        expectations,
        bottleneck: if line.is_none() && session.ladder.is_none() { bottleneck::of(session) } else { None },
        line,
        ladder: session.ladder.clone(),
        collection_before,
        collection_after,
        collections_before,
        collections_after,
        workflow: session.system.workflow(),
        ..Run::default()
    };
    Account {
        known,
        summary: &session.summary,
        samples: &session.samples,
        plan: &session.plan,
        ended: session.ended,
        stopped: session.stopped,
        server_cpu_ns: session.server_cpu_ns(),
        tells_bytes: session.system.tells_bytes(),
        limited: false,
    }
}

/// Computes the cost, the verdict and the conclusions.
pub fn complete(account: Account<'_>) -> Run {
    let mut run = Run {
        duration_s: account.summary.load_ns() as f64 / 1e9,
        phases: phases(&account),
        faults: account.summary.faults().to_vec(),
        operations: account.summary.operations(),
        client: client(&account),
        server_cost: server_cost(&account),
        ..account.known.clone()
    };
    if let Some(integrity) = &mut run.integrity {
        integrity.wrong_reads = run.operations.values().map(wrong_reads).sum();
    }
    (run.verdict, run.reasons) = verdict(&run, &account);
    run.conclusions = plimsoll_report::conclusions(&run);
    run
}

/// The exit code of a summary.
pub fn exit(run: &Run, ended: Ended, stopped: bool) -> Exit {
    let violated = run.integrity.as_ref().is_some_and(|integrity| !integrity.holds());
    let unheld = !run.warm_up && run.expectations.iter().any(|expectation| !expectation.held);
    let unread = run.integrity.as_ref().is_some_and(|integrity| !integrity.is_whole());
    let early = ended >= Ended::Unreachable || stopped;
    let aborted = matches!(ended, Ended::Threshold | Ended::NotReached);
    let fruitless = !early && !run.warm_up && fruitless(run).next().is_some();
    let no_line = run.line.as_ref().is_some_and(|line| line.rate.is_none()) && !early;
    let no_soak = run.line.as_ref().is_some_and(soak_failed) && !early;
    worst([
        if violated { Exit::Integrity } else { Exit::Held },
        if unread || ended == Ended::Unreachable { Exit::Server } else { Exit::Held },
        if unheld || no_line || no_soak || aborted || fruitless { Exit::Expectation } else { Exit::Held },
        if stopped { Exit::Interrupted } else { Exit::Held },
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

fn phases(account: &Account<'_>) -> Vec<plimsoll_measure::run::PhaseFacts> {
    let mut phases = account.summary.phases().to_vec();
    for phase in &mut phases {
        let inside = |at_ns: u64| (phase.from_s..=phase.to_s + 1.0).contains(&(at_ns as f64 / 1e9));
        let seen: Vec<_> = account.samples.iter().filter(|sample| inside(sample.at_ns)).cloned().collect();
        phase.checkpoints = growth(&seen, |sample| sample.checkpoints);
    }
    phases
}

/// The client without its cost.
fn tool(session: &Session) -> Client {
    let workers = session.system.workers();
    Client {
        workers: workers.count as u32,
        connections: session.connections as u32,
        rss_bytes_max: process::own().rss_bytes_max.unwrap_or(0),
        spin: workers.spin == Spin::On,
        calibration_ping_ns: session.pings_ns.clone(),
        server_clock: session.server_clock.clone(),
        calibration_null_per_s: session.ceilings.iter().map(|(operations, _)| *operations).collect(),
        floor_ns: session.floor.as_ref().map(|(floor, _)| floor.clone()),
        floor_bound_ns: session.floor.as_ref().and_then(|(_, bound_ns)| *bound_ns),
        ..Client::default()
    }
}

fn client(account: &Account<'_>) -> Client {
    let summary = account.summary;
    let (operations, documents) = summary.acknowledged();
    let per = |count: u64| (count > 0).then(|| summary.cpu_ns() as f64 / 1000.0 / count as f64);
    let (ceiling, achieved) = ceiling(account);
    let headroom = headroom(ceiling, achieved, operations, summary.load_ns());
    Client {
        cpu_us_per_operation: per(operations),
        cpu_us_per_document: per(documents),
        cpu_busiest_worker: summary.cpu_busiest(),
        switches_per_operation: switches(summary, operations),
        wire_bytes_per_document: wire_bytes(account, documents),
        null_server_per_s: ceiling,
        headroom,
        limited: account.limited
            || headroom.is_some_and(|headroom| headroom < HEADROOM_MIN)
            || account.known.client.high_floor().is_some(),
        reconnects: summary.reconnects(),
        ..account.known.client.clone()
    }
}

/// The tool's ceiling and the achieved rate, in operations per second. The ceiling is measured with the last phase, so a run of
/// several phases has no comparable ceiling.
fn ceiling(account: &Account<'_>) -> (Option<f64>, f64) {
    let ceiling = account.known.client.calibration_null_per_s.first().copied();
    if let Some(line) = &account.known.line {
        let most = line.probes.iter().map(|probe| probe.achieved).fold(0.0, f64::max);
        // The ceiling counts all loads together.
        return (ceiling, most / line.documents_per_operation.max(1.0) + account.plan.beside_per_s());
    }
    if let Some(ladder) = &account.known.ladder {
        let most = ladder.rungs.iter().map(|rung| rung.throughput).fold(0.0, f64::max);
        return (ceiling, most / account.plan.documents_per_operation().max(1.0));
    }
    let seconds = (account.summary.load_ns() as f64 / 1e9).max(f64::MIN_POSITIVE);
    let comparable = account.plan.phases.len() == 1;
    (ceiling.filter(|_| comparable), account.summary.acknowledged().0 as f64 / seconds)
}

fn server_cost(account: &Account<'_>) -> ServerCost {
    let (operations, documents) = account.summary.acknowledged();
    let cpu_ns = account.server_cpu_ns;
    let per = |count: u64| cpu_ns.filter(|_| count > 0).map(|cpu_ns| cpu_ns as f64 / 1000.0 / count as f64);
    ServerCost {
        cpu_us_per_operation: per(operations),
        cpu_us_per_document: per(documents),
        cores: cpu_ns.map(|cpu_ns| cpu_ns as f64 / account.summary.load_ns().max(1) as f64),
        rss_bytes_max: account.samples.iter().filter_map(|sample| sample.rss_bytes).max(),
        written_bytes_per_document: grown_per(account, documents, |sample| sample.disk_written_bytes),
        journal_bytes_per_document: grown_per(account, documents, |sample| sample.journal_bytes),
    }
}

fn switches(summary: &Summary, operations: u64) -> Option<f64> {
    summary.switches().filter(|_| operations > 0).map(|switches| switches as f64 / operations as f64)
}

fn wire_bytes(account: &Account<'_>, documents: u64) -> Option<f64> {
    let bytes = account.summary.tallies().map(|(_, tally)| tally.bytes_sent + tally.bytes_received);
    let known = documents > 0 && account.tells_bytes;
    known.then(|| bytes.sum::<u64>() as f64 / documents as f64)
}

/// The growth of a server counter from the first sample to the last, per document.
fn grown_per(
    account: &Account<'_>,
    documents: u64,
    counter: impl Fn(&ServerSample) -> Option<u64>,
) -> Option<f64> {
    let grown = growth(account.samples, counter)?;
    (documents > 0).then(|| grown as f64 / documents as f64)
}

/// Judges the expectations of a run. A search or a ladder overloads the system on purpose, so only
/// expectations of integrity count. An unreachable server makes the run invalid: its errors prove nothing.
pub fn expectations(
    summary: &Summary,
    integrity: Option<&Integrity>,
    answers: &[Answers],
    search: bool,
    is_complete: bool,
) -> Vec<Expectation> {
    let mut expectations = summary.expectations(integrity, answers, search);
    if !search && is_complete {
        expectations.extend(summary.unexpected_errors());
    }
    expectations
}

/// Whether neither the user nor the loss of the server cut the load short.
pub fn is_complete(ended: Ended, stopped: bool) -> bool {
    ended < Ended::Unreachable && !stopped
}

/// The operations that failed and never succeeded.
fn fruitless(run: &Run) -> impl Iterator<Item = &String> {
    let failed = run.operations.iter().filter(|(_, it)| it.count == 0 && !it.errors.is_empty());
    failed.map(|(name, _)| name)
}

/// The reads of an operation that contradict an acknowledged write or an earlier read.
fn wrong_reads(operation: &Operation) -> u64 {
    let classes = [Rejection::StaleRead, Rejection::NonMonotonicRead, Rejection::CorruptedRead];
    classes.iter().filter_map(|class| operation.errors.get(class.name())).sum()
}

/// Whether the objective did not hold in the long load after a search.
fn soak_failed(line: &Line) -> bool {
    line.soak.as_ref().is_some_and(|soak| !soak.held)
}

fn verdict(run: &Run, account: &Account<'_>) -> (Verdict, Vec<String>) {
    if run.warm_up {
        return (Verdict::Invalid, vec![WARM_UP.to_owned()]);
    }
    let failed = failed(run, account);
    if !failed.is_empty() {
        return (Verdict::Fail, failed);
    }
    let invalid = invalid(run, account);
    if invalid.is_empty() { (Verdict::Pass, invalid) } else { (Verdict::Invalid, invalid) }
}

fn failed(run: &Run, account: &Account<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    if run.integrity.as_ref().is_some_and(|integrity| !integrity.holds()) {
        reasons.push("the integrity of the documents is violated".to_owned());
    }
    let unheld = run.expectations.iter().filter(|expectation| !expectation.held);
    reasons.extend(unheld.map(|unheld| format!("{} {} did not hold", unheld.metric, unheld.expression)));
    reasons.extend(run.aborted.iter().map(|reason| format!("it ended early: {reason}")));
    if is_complete(account.ended, account.stopped) {
        reasons.extend(fruitless(run).map(|name| format!("{name}: no operation succeeded")));
    }
    if run.line.as_ref().is_some_and(|line| line.rate.is_none()) && !run.interrupted {
        reasons.push("no rate held the objective".to_owned());
    }
    if run.line.as_ref().is_some_and(soak_failed) && !run.interrupted {
        reasons.push("the objective did not hold during the soak".to_owned());
    }
    reasons
}

fn invalid(run: &Run, account: &Account<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    match account.ended {
        Ended::Unreachable => reasons.push("the server could not be reached any more".to_owned()),
        _ if account.stopped => reasons.push("the run was interrupted".to_owned()),
        _ => {}
    }
    reasons.extend(run.integrity.iter().flat_map(open_questions));
    if run.client.limited {
        reasons.push("the tool itself may have limited the load".to_owned());
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

/// The questions that the read-back leaves open.
fn open_questions(integrity: &Integrity) -> Vec<String> {
    if !integrity.is_known() {
        let reason = integrity.reason.clone().unwrap_or_default();
        return vec![format!("the documents could not be read back: {reason}")];
    }
    let mut open = Vec::new();
    if !integrity.is_whole() {
        open.push("the documents on a member of the replica set were not compared".to_owned());
    }
    if integrity.unchecked_transactions > 0 {
        open.push("transactions of unknown outcome were not checked".to_owned());
    }
    open
}

/// Ceiling ÷ achieved, both in operations per second. `None` if the rate has too little support: fewer than `OPERATIONS_MIN`
/// operations in less than `LOAD_NS_MIN`.
fn headroom(ceiling: Option<f64>, achieved: f64, operations: u64, load_ns: u64) -> Option<f64> {
    let is_rate = achieved > 0.0 && (operations >= OPERATIONS_MIN || load_ns >= LOAD_NS_MIN);
    ceiling.filter(|_| is_rate).map(|ceiling| ceiling / achieved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_were_not_checked_are_an_open_question() {
        let unchecked = Integrity { unchecked_transactions: 2, ..Integrity::default() };
        assert!(unchecked.holds());
        assert_eq!(open_questions(&unchecked), ["transactions of unknown outcome were not checked"]);
        assert!(open_questions(&Integrity::default()).is_empty());
    }

    #[test]
    fn a_rate_without_support_has_no_headroom() {
        let second = LOAD_NS_MIN;
        assert_eq!(headroom(Some(2.0), 6.0, 1, second / 6), None, "one operation in a sixth of a second");
        assert_eq!(headroom(Some(60.0), 6.0, 1, second), Some(10.0));
        assert_eq!(headroom(Some(60.0), 6.0, OPERATIONS_MIN, second / 6), Some(10.0));
        assert_eq!(headroom(Some(60.0), 0.0, 0, second), None);
        assert_eq!(headroom(None, 6.0, 100, second), None);
    }
}
