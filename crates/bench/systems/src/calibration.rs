//! Measures the tool itself: the round trip of an empty command, and its ceiling and its latency floor against a server that
//! answers at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bson::rawdoc;
use plimsoll_deployment::Deployment;
use plimsoll_host::null;
use plimsoll_ledger::Allocation;
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Finished, Progress, RunError};
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::clock_offset::{ClockOffset, ServerClock};
use plimsoll_measure::duration::Span;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::interval::Tally;
use plimsoll_mongo::setup::{Command, Setup};
use plimsoll_mongo::worker_ledger::WorkerLedger;
use plimsoll_run::system::Replay;
use plimsoll_wire::{Address, ConnectOptions, Connection};

use crate::client_engine::ClientEngine;
use plimsoll_scenario::plan;

mod rivals;
mod round_trips;

use rivals::Rivals;
pub use round_trips::RoundTrips;

/// Length of the load against the null server, in seconds. The first second only warms up.
const CEILING_S: u64 = 2;
/// The maximum number of judged seconds of a replay.
const FLOOR_S_MAX: u64 = 5;
/// The number of operations that a p99 needs.
const OPERATIONS_OF_P99: f64 = 1_100.0;
/// The maximum number of documents of one operation against the null server. Larger batches cost the same per document, but more
/// memory.
const BATCH_MAX: u64 = 10_000;
/// The maximum size of the documents of one operation against the null server, in bytes.
const BATCH_BYTES_MAX: u64 = 16 << 20;
/// Exchanges that bound the offset of a server's clock.
const CLOCK_EXCHANGES: usize = 10;
/// The number of fictitious documents for operations by receipt.
const PRETENDED: u64 = 1000;

/// Median round trip of an empty command once the times have settled, in nanoseconds. `None` if the server does not answer.
pub async fn ping_ns(options: &ConnectOptions) -> Option<u64> {
    let mut connection = Connection::connect(options).await.ok()?;
    let mut trips = RoundTrips::default();
    while !trips.are_enough() {
        let sent = clock::now();
        connection.ping().await.ok()?;
        trips.add(clock::now().since(sent));
    }
    trips.median_ns()
}

/// The server's clock and process, without an address. Its offset is bounded by the `localTime` of its answers to `hello`. `None` if
/// the server does not answer or gives no time.
pub async fn server_clock(options: &ConnectOptions) -> Option<ServerClock> {
    let mut connection = Connection::connect(options).await.ok()?;
    let (mut bounds, mut process) = (None::<ClockOffset>, None);
    for _ in 0..CLOCK_EXCHANGES {
        let asked_ms = clock::wall_ms();
        let answer = connection.command("admin", &rawdoc! {"hello": 1}).await.ok()?;
        let answered_ms = clock::wall_ms();
        let server_ms = u64::try_from(answer.get_datetime("localTime").ok()?.timestamp_millis()).ok()?;
        let bound = ClockOffset::of(asked_ms, server_ms, answered_ms);
        bounds = Some(bounds.map_or(bound, |known| known.narrowed(bound)));
        let version = answer.get_document("topologyVersion").ok();
        process = version.and_then(|version| Some(version.get_object_id("processId").ok()?.to_hex()));
    }
    Some(ServerClock { address: String::new(), process, offsets: vec![bounds?] })
}

/// The tool's ceiling with this load against a server that acknowledges at once: (operations, documents) per second. The load is
/// closed, with as many writers as it has connections. The null server stands for each of `servers`.
///
/// A batch is limited by the phase's share of documents, by `BATCH_MAX` and by `BATCH_BYTES_MAX`. For a load with larger batches,
/// the rate of operations is computed from the rate of documents. In a mix with other operations that is impossible, and the rate
/// of operations is zero.
///
/// # Errors
/// When the null server cannot be started, or the load cannot be sent.
pub fn ceiling(
    setup: &Arc<Setup>,
    phase: &Phase,
    servers: usize,
    workers: usize,
    control: &Control,
) -> anyhow::Result<(f64, f64)> {
    let batch_max = batch_max(setup, phase);
    let (_server, mut engine) = against_null(setup, (servers, workers), batch_max, (0, Spin::Off))?;
    let (operations, documents) = reached(phase, |phase, sink| engine.run(phase, control, &mut [], sink))?;
    Ok((own_operations(setup, phase, batch_max, operations, documents), documents))
}

/// The latency floor of a database's load.
///
/// # Errors
/// When the null server cannot be started, or the load cannot be sent.
pub fn floor(
    setup: &Arc<Setup>,
    replay: &Replay<'_>,
    (servers, workers): (usize, usize),
    control: &Control,
) -> anyhow::Result<Latency> {
    let batch_max = batch_max(setup, replay.phase);
    let answers = (replay.answer_bytes, replay.spin);
    let (_server, mut engine) = against_null(setup, (servers, workers), batch_max, answers)?;
    replayed(replay, |phase, sink| engine.run(phase, control, &mut [], sink))
}

/// A null server, and an engine that has this null server in place of every server.
fn against_null(
    setup: &Arc<Setup>,
    (servers, workers): (usize, usize),
    batch_max: u64,
    (answer_bytes, spin): (usize, Spin),
) -> anyhow::Result<(null::Server, ClientEngine)> {
    let options = null::Options { answer_bytes, ..null::Options::default() };
    let server = null::Server::start(options).context("start the null server")?;
    let address = Address { host: server.address().ip().to_string(), port: server.address().port() };
    let deployment = Arc::new(Deployment::single(address, Duration::from_secs(10)));
    let allocation = Allocation::new(setup.block(), workers as u64, None).context("allocate numbers")?;
    let ledgers = (0..workers as u64).map(|worker| {
        let mut ledger = WorkerLedger::new(allocation, worker, None);
        // Operations by receipt need some document to name.
        ledger.pretend(PRETENDED);
        ledger.limit_batches(batch_max);
        ledger
    });
    let deployments = vec![deployment; servers];
    let engine = ClientEngine::new(setup, &deployments, ledgers.collect(), Share::WHOLE, spin)?;
    Ok((server, engine))
}

/// The rate that `run` reaches with the load of a phase: (operations, documents) per second. The load is closed, with as many
/// writers as it has connections.
///
/// # Errors
/// When the load cannot be sent.
pub fn reached(
    phase: &Phase,
    run: impl FnOnce(&Phase, &mut dyn FnMut(Progress)) -> Result<Finished, RunError>,
) -> anyhow::Result<(f64, f64)> {
    let loads = phase.loads.iter().map(|load| plan::closed(load, load.arrivals.connections())).collect();
    let stop = Stop { duration: Some(Span::from_secs(CEILING_S)), ..Stop::default() };
    let closed = Phase { loads, stop, faults: Vec::new(), ..phase.clone() };
    let (mut operations, mut documents, mut ns) = (0, 0, 0);
    run(&closed, &mut |progress| {
        let Progress::Second(second) = progress else { return };
        if second.from_ns >= 1_000_000_000 && second.to_ns <= CEILING_S * 1_000_000_000 {
            operations += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
            documents += second.tallies.iter().map(|tally| tally.documents).sum::<u64>();
            ns += second.to_ns - second.from_ns;
        }
    })?;
    let seconds = (ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    Ok((operations as f64 / seconds, documents as f64 / seconds))
}

/// The response times after the first second that `run` measures with a phase's own loads, while other threads use as many cores as the
/// server did.
///
/// # Errors
/// When the load cannot be sent.
pub fn replayed(
    replay: &Replay<'_>,
    run: impl FnOnce(&Phase, &mut dyn FnMut(Progress)) -> Result<Finished, RunError>,
) -> anyhow::Result<Latency> {
    let stop = Stop { duration: Some(Span::from_secs(floor_s(replay.phase))), ..Stop::default() };
    let phase = Phase { stop, faults: Vec::new(), ..replay.phase.clone() };
    let mut all = Tally::default();
    let _rivals = Rivals::start(replay.cores);
    run(&phase, &mut |progress| {
        let Progress::Second(second) = progress else { return };
        if second.from_ns >= SECOND_NS {
            second.tallies.iter().for_each(|tally| all.merge(tally));
        }
    })?;
    Ok(all.response.latency())
}

/// The length of a replay, in seconds: the first second, then enough seconds for a p99, at most `FLOOR_S_MAX`.
fn floor_s(phase: &Phase) -> u64 {
    let per_s: f64 = phase.loads.iter().filter_map(|load| load.arrivals.peak()).sum();
    1 + ((OPERATIONS_OF_P99 / per_s.max(1.0)).ceil() as u64).clamp(1, FLOOR_S_MAX)
}

/// The largest batch against the null server: at most the documents of one connection in the phase, if known.
fn batch_max(setup: &Setup, phase: &Phase) -> u64 {
    let (_, bytes) = setup.source.as_ref().map_or((0, 0), |source| source.len_bounds());
    let by_bytes = BATCH_BYTES_MAX / (bytes as u64).max(1);
    by_bytes.min(each(phase).unwrap_or(u64::MAX)).clamp(1, BATCH_MAX)
}

/// The documents of one connection, if a number of documents ends the phase.
fn each(phase: &Phase) -> Option<u64> {
    let connections: u32 = phase.loads.iter().map(|load| load.arrivals.connections()).sum();
    phase.stop.documents.map(|documents| documents.div_ceil(u64::from(connections.max(1))))
}

/// Converts the rate of operations with at most `batch_max` documents to the rate of the load's own operations.
fn own_operations(setup: &Setup, phase: &Phase, batch_max: u64, operations: f64, documents: f64) -> f64 {
    let mixed = phase.loads.iter().flat_map(|load| &load.mix);
    let commands: Vec<&Command> = mixed.map(|(operation, _)| &setup.commands[*operation]).collect();
    let batch = |command: &Command| match command {
        Command::Insert { batch, .. } => u64::from(*batch),
        _ => 1,
    };
    match commands[..] {
        [insert @ Command::Insert { .. }] => documents / own_size(batch(insert), phase),
        _ if commands.iter().flat_map(|command| command.parts()).all(|part| batch(part) <= batch_max) => {
            operations
        }
        _ => 0.0,
    }
}

/// The mean number of documents per operation: the last operation of a connection may have fewer than a batch.
fn own_size(batch: u64, phase: &Phase) -> f64 {
    each(phase).map_or(batch as f64, |each| each as f64 / each.div_ceil(batch) as f64)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_ledger::Run;
    use plimsoll_load::arrivals::Arrivals;
    use plimsoll_mongo::setup::Context as SetupContext;

    use super::*;
    use plimsoll_scenario as scenario;
    use plimsoll_scenario::Plan;

    /// Inserts `documents` documents of `bytes` bytes in batches of `batch`, together with the loads in `more`.
    fn load(batch: u32, bytes: u32, documents: u64, more: &str) -> (Arc<Setup>, Phase) {
        let text = format!(
            "title: t\ncollection: a.b\ndocument: {{text: {{$text: {{bytes: {bytes}}}}}}}\nphases:\n  - load:\n      \
             insert: {{operation: {{insert: {{batch: {batch}}}}}, arrivals: {{closed: {{writers: 1}}}}}}\n{more}    \
             stop: {{documents: {documents}}}\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.yaml");
        std::fs::write(&path, text).unwrap();
        let loaded = scenario::load(path.to_str().unwrap(), &[], None).unwrap();
        let plan = Plan::build(&loaded).unwrap();
        let context = SetupContext { seed: 0, run: Run { time_s: 0, tag: [0; 3] }, base: Path::new(".") };
        let setup = Setup::build(&loaded.scenario.section(), &plan.database(), context).unwrap();
        (Arc::new(setup), plan.phases[0].clone())
    }

    /// The largest batch, and the rate of a load's own operations at a million measured documents per second.
    fn own(batch: u32, bytes: u32, documents: u64, more: &str) -> (u64, f64) {
        let (setup, phase) = load(batch, bytes, documents, more);
        let most = batch_max(&setup, &phase);
        (most, own_operations(&setup, &phase, most, 1e6 / f64::from(batch).min(most as f64), 1e6))
    }

    #[test]
    fn the_rate_of_batches_over_the_limit_follows_from_their_documents() {
        assert_eq!(own(1000, 100, 1_000_000, ""), (BATCH_MAX, 1000.0));
        assert_eq!(own(1_000_000, 100, 1_000_000, ""), (BATCH_MAX, 1.0));
        assert_eq!(own(1_000_000, 100, 20_000, ""), (BATCH_MAX, 50.0), "the phase has only 20,000 documents");
        assert_eq!(own(1_000_000, 100, 500, ""), (500, 2000.0), "the phase has only 500 documents");
        assert_eq!(
            own(1_000_000, 100, 1_500_000, ""),
            (BATCH_MAX, 1e6 / 750e3),
            "two batches, of which the second is half as large"
        );
        let find = "      find: {operation: {find: {filter: {text: x}}}, arrivals: {closed: {writers: 1}}}\n";
        assert_eq!(
            own(1_000_000, 100, 1_000_000, find).1,
            0.0,
            "the documents of two operations are indistinguishable"
        );
        assert_eq!(own(100, 100, 1_000, find).1, 1e4);
    }

    #[test]
    fn the_floor_counts_the_operations_of_the_open_schedule() {
        let (setup, phase) = load(1, 100, 1_000_000, "");
        let arrivals = Arrivals::Constant { rate: 500.0, connections: 4 };
        let phase = Phase { loads: vec![phase.loads[0].arriving(arrivals)], ..phase };
        let replay = Replay { phase: &phase, cores: 0.5, answer_bytes: 400, spin: Spin::Off };
        let floor = floor(&setup, &replay, (1, 1), &Control::default()).unwrap();
        // The schedule has 1,500; on a busy machine the last ones are cut off.
        assert!((1_000..=1_510).contains(&floor.count) && floor.p99.is_some_and(|ns| ns > 0), "{floor:?}");
    }

    #[test]
    fn large_documents_make_small_batches() {
        let (most, _) = own(1000, 1 << 20, 1000, "");
        assert!((8..=16).contains(&most), "{most}");
    }

    #[test]
    fn a_batch_of_a_million_does_not_need_the_memory_of_a_million() {
        let (setup, phase) = load(1_000_000, 600, 1_000_000, "");
        let (operations, documents) = ceiling(&setup, &phase, 1, 1, &Control::default()).unwrap();
        assert!(operations > 0.0 && documents > 0.0, "{operations} {documents}");
        // Whole batches of a million would complete rarely or never within the second.
        assert!((documents / operations - 1e6).abs() < 1.0, "{operations} {documents}");
    }
}
