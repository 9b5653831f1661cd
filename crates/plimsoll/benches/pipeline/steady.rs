//! Runs the program at a steady rate from Kafka to MongoDB, effectively once, and checks whether its memory
//! is stable.
//!
//! It is a separate process, `plimsoll pipeline run`, which records its resident memory once a second; the
//! records come from this process.

mod memory;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_kafka::bench;
use plimsoll_kafka::topic::Topic;
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::stream::{Second, Stage, Stream};
use plimsoll_process::{Child, Lifetime};
use serde_json::{Value, json};

use crate::Failure;
use crate::connect;
use crate::marks::Marks;
use crate::plan::Plan;
use crate::testbed::{DB, LIMIT, Log, PARTITIONS, Store, Testbed};

pub(crate) use memory::Memory;

const NAME: &str = "steady";
/// The number of the topic in the documents' ids: no other topic of this program has it.
const TOPIC_NUMBER: u32 = 8;
/// The retention of the topic: the disk usage stays small in a long run.
const KEPT: [(&str, &str); 2] = [("retention.bytes", "134217728"), ("segment.bytes", "33554432")];
/// The records of this many milliseconds are made at once.
const SLICE_MS: u64 = 10;

/// The result of the steady run.
pub(crate) struct Steady {
    /// The description.
    pub(crate) setup: String,
    /// The length of the load, in seconds.
    pub(crate) seconds: u64,
    /// The number of records in the topic, and of documents at the end.
    pub(crate) sent: u64,
    /// Resident memory.
    pub(crate) memory: Memory,
    /// The times of the events, over the whole run.
    pub(crate) stages: Vec<Stage>,
}

/// Runs it; the seconds are written to `out`, if given.
pub(crate) fn run(testbed: &Testbed, plan: &Plan, out: Option<&Path>) -> Result<Steady, Failure> {
    let (log, store, home) = (testbed.broker()?, testbed.server()?, tempfile::tempdir()?);
    let topic =
        KEPT.into_iter().fold(Topic::new(NAME, PARTITIONS), |topic, (name, value)| topic.with(name, value));
    log.reset(&topic)?;
    let records = plan.steady_s * plan.steady_per_s;
    let program = Program::start(home.path(), &log, &store.borrow())?;
    let sent = bench::produce(&log.cluster(), NAME, records, &mut paced(plan.steady_per_s))?.records;
    arrival(&log, &mut store.borrow_mut(), &program, sent)?;
    let (seconds, stream) = program.end()?;
    if let Some(out) = out {
        fs::write(out.join("steady.csv"), csv(&seconds)?)?;
    }
    Ok(Steady {
        setup: format!(
            "{} records a second, JSON of 470 bytes, {PARTITIONS} partitions; `plimsoll pipeline run`, two worker threads; delivery is \
             from the producer's timestamp to the acknowledgement",
            plan.steady_per_s
        ),
        seconds: plan.steady_s,
        sent,
        memory: Memory::of(&seconds),
        stages: stream.last.stages,
    })
}

/// Makes records when they are due: those of 10 ms at once.
fn paced(per_s: u64) -> impl FnMut(u64, &mut Vec<u8>) {
    let (start, slice) = (clock::now(), (per_s * SLICE_MS / 1000).max(1));
    move |number, out| {
        if number.is_multiple_of(slice) {
            let due = u128::from(number) * u128::from(SECOND_NS) / u128::from(per_s);
            let passed = u128::from(clock::now().since(start));
            let wait = u64::try_from(due.saturating_sub(passed)).unwrap_or(u64::MAX);
            thread::sleep(Duration::from_nanos(wait));
        }
        connect::json(number, out);
    }
}

/// Waits until every sent record has arrived, once.
fn arrival(log: &Log, store: &mut Store, program: &Program, sent: u64) -> Result<(), Failure> {
    let began = clock::now();
    let mut marks = Marks::of(&log.extents(NAME)?, NAME, connect::our_name(TOPIC_NUMBER));
    loop {
        let come = marks.look(store)?;
        if come >= sent {
            return store.wait_for_count(NAME, sent);
        }
        if let Some(status) = program.child.ended() {
            return Err(format!("the program ended ({status}) with {come} of {sent} documents").into());
        }
        if u128::from(clock::now().since(began)) > LIMIT.as_nanos() {
            return Err(format!("only {come} of {sent} documents arrived").into());
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The running program. Dropping it ends it.
struct Program {
    child: Child,
    out: PathBuf,
}

impl Program {
    fn start(home: &Path, log: &Log, store: &Store) -> Result<Self, Failure> {
        // JSON is YAML.
        let pipeline = json!({
            "name": NAME,
            "guarantee": "effectively-once",
            "source": {"kafka": {"brokers": log.brokers(), "topic": NAME, "group": NAME, "start": "earliest"}},
            "sink": {"insert": {"uri": store.uri(), "collection": format!("{DB}.{NAME}"), "form": "json", "topics": {NAME: TOPIC_NUMBER}}},
        });
        let (file, out) = (home.join("pipeline.yaml"), home.join("run"));
        fs::write(&file, pipeline.to_string())?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["pipeline", "run"]).arg(file).arg("--out").arg(&out).arg("-q");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self { child: Child::run(command, Lifetime::Bound)?, out })
    }

    /// Drains the pipeline; returns its seconds and its summary.
    fn end(self) -> Result<(Vec<Second>, Stream), Failure> {
        self.child.terminate(LIMIT)?;
        let status = self.child.ended().ok_or("the program did not end in time")?;
        if !status.success() {
            return Err(format!("the program ended with {status}").into());
        }
        let seconds = fs::read_to_string(self.out.join("seconds.ndjson"))?;
        let seconds = seconds.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok((seconds, serde_json::from_str(&fs::read_to_string(self.out.join("pipeline.json"))?)?))
    }
}

/// The seconds as CSV, one line each.
fn csv(seconds: &[Second]) -> Result<Vec<u8>, Failure> {
    let mut out = b"elapsed_s,resident_bytes,cpu_ns,threads,written_events,in_flight_events\n".to_vec();
    for second in seconds {
        let Second { elapsed_ns, process, in_flight_events, counts, .. } = second;
        let elapsed_s = *elapsed_ns as f64 / 1e9;
        let written = counts.get("written_events").copied().unwrap_or_default();
        let (resident, cpu, threads) = (process.resident_bytes, process.cpu_ns, process.threads);
        writeln!(out, "{elapsed_s:.3},{resident},{cpu},{threads},{written},{in_flight_events}")?;
    }
    Ok(out)
}

impl Steady {
    pub(crate) fn json(&self) -> Value {
        json!({
            "setup": self.setup, "seconds": self.seconds, "sent": self.sent,
            "resident_memory": self.memory.json(), "stages": self.stages,
        })
    }
}
