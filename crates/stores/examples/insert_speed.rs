//! What the insert sink costs beside a bare loop of insert commands: documents a second and CPU of this process, the same
//! documents, server, connections and batches.
//!
//! `cargo run --release -p plimsoll-stores --example insert_speed -- [HOST:PORT] [ROUNDS]`
//!
//! Without an address it starts the embedded server in its relaxed profile. Rounds of both take turns; medians are printed, and
//! the median of the ratios of neighbours. It writes to the database `plimsoll_insert_speed` and drops it.

use std::time::Duration;

use bson::{doc, rawdoc};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use plimsoll_measure::clock;
use plimsoll_pipeline::{Batch, Partition, Record, Sink, SinkFactory, Verdict};
use plimsoll_server::embedded::{self, Options};
use plimsoll_server::{Cache, Profile};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::document::identity::Identity;
use plimsoll_stores::scenario::Insert;
use plimsoll_wire::{
    ConnectOptions, Connection, W, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec,
};
use tokio::runtime::Runtime;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DB: &str = "plimsoll_insert_speed";
const CONNECTIONS: usize = 4;
const BATCH: u64 = 500;
const BATCHES: u64 = 60;
const DOCUMENT_BYTES: usize = 512;

/// What a round took, for each document.
#[derive(Clone, Copy)]
struct Cost {
    documents_per_s: f64,
    cpu_ns: f64,
}

/// One figure of a round.
type Of = fn(&Cost) -> f64;

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let server = match words.next() {
        Some(address) => (address, None),
        None => {
            let options =
                Options { profile: Profile::Relaxed, cache_bytes: Some(512 << 20), ..Options::default() };
            let server = embedded::start(&Cache::locate()?, &options)?;
            (server.address().to_string(), Some(server))
        }
    };
    let rounds: usize = words.next().map_or(Ok(15), |word| word.parse())?;
    let (address, _server) = server;
    let mut bare = Bare::connect(&address)?;
    let mut ours = Ours::connect(&address)?;
    let (mut with_bare, mut with_ours) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let costs = (measured(|| bare.round())?, measured(|| ours.round())?);
        bare.drop_all()?;
        // The first round opens files and grows buffers.
        if round > 0 {
            with_bare.push(costs.0);
            with_ours.push(costs.1);
        }
    }
    show(&with_bare, &with_ours);
    Ok(())
}

fn measured(round: impl FnOnce() -> Result<(), Failure>) -> Result<Cost, Failure> {
    let (cpu, start) = (clock::process_cpu_ns(), clock::now());
    round()?;
    let documents = (BATCH * BATCHES) as f64;
    let seconds = clock::now().since(start) as f64 / 1e9;
    let cpu_ns = (clock::process_cpu_ns() - cpu) as f64 / documents;
    Ok(Cost { documents_per_s: documents / seconds, cpu_ns })
}

fn show(bare: &[Cost], ours: &[Cost]) {
    let each = |costs: &[Cost], of: Of| median(costs.iter().map(of).collect());
    let ratio = |of: Of| median(ours.iter().zip(bare).map(|(ours, bare)| of(ours) / of(bare)).collect());
    let speed: Of = |cost| cost.documents_per_s;
    let cpu: Of = |cost| cost.cpu_ns;
    println!(
        "documents of {DOCUMENT_BYTES} bytes, {BATCH} a command, {CONNECTIONS} connections, w: majority, j: true, {} rounds",
        ours.len()
    );
    let (bare_speed, ours_speed) = (each(bare, speed), each(ours, speed));
    println!("documents/s: bare {bare_speed:.0}, sink {ours_speed:.0}, ratio {:.3}", ratio(speed));
    println!(
        "CPU ns/document: bare {:.0}, sink {:.0}, ratio {:.3}",
        each(bare, cpu),
        each(ours, cpu),
        ratio(cpu)
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A document of the size, without `_id`.
fn document() -> Result<Vec<u8>, Failure> {
    let bytes = doc! {"key": "sk", "text": ""}.to_vec()?.len();
    Ok(doc! {"key": "sk", "text": "x".repeat(DOCUMENT_BYTES - bytes)}.to_vec()?)
}

/// The loop that a load generator has: connections, each with a command in flight.
struct Bare {
    runtime: Runtime,
    lanes: Vec<(Connection, WriteBatch, WriteReply)>,
    document: Vec<u8>,
    next: u64,
}

impl Bare {
    fn connect(address: &str) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut spec = WriteSpec::new(WriteKind::Insert, DB, "bare");
        spec.ordered = false;
        spec.write_concern = Some(WriteConcern { w: W::Majority, j: Some(true), timeout_ms: Some(10_000) });
        let options = ConnectOptions {
            timeout: Some(Duration::from_secs(10)),
            ..ConnectOptions::new(address.parse()?)
        };
        let mut lanes = Vec::new();
        for _ in 0..CONNECTIONS {
            let connection = runtime.block_on(Connection::connect(&options))?;
            let command = WriteBatch::new(&spec, &connection.limits())?;
            lanes.push((connection, command, WriteReply::new()));
        }
        Ok(Self { runtime, lanes, document: document()?, next: 0 })
    }

    fn round(&mut self) -> Result<(), Failure> {
        let Self { runtime, lanes, document, next } = self;
        runtime.block_on(async {
            let mut aloft = FuturesUnordered::new();
            let (mut idle, mut left) = (std::mem::take(lanes), BATCHES);
            loop {
                while left > 0
                    && let Some(mut lane) = idle.pop()
                {
                    left -= 1;
                    fill(&mut lane.1, document, next);
                    aloft.push(async move {
                        lane.0.write(&mut lane.1, &mut lane.2).await;
                        lane
                    });
                }
                let Some(lane) = aloft.next().await else { break };
                if !lane.2.is_acknowledged() {
                    return Err(format!("{:?}", lane.2.first_error()).into());
                }
                match left {
                    0 => lanes.push(lane),
                    _ => idle.push(lane),
                }
            }
            lanes.append(&mut idle);
            Ok(())
        })
    }

    /// Both collections are dropped, so that every round finds them as the first did.
    fn drop_all(&mut self) -> Result<(), Failure> {
        let Self { runtime, lanes, .. } = self;
        for collection in ["bare", "ours"] {
            runtime.block_on(lanes[0].0.command(DB, &rawdoc! {"drop": collection}))?;
        }
        Ok(())
    }
}

fn fill(command: &mut WriteBatch, document: &[u8], next: &mut u64) {
    command.clear();
    for _ in 0..BATCH {
        let id = Identity { topic: 1, partition: 0, offset: *next }.to_bytes();
        *next += 1;
        let pushed = command.push(|out| {
            let len = document.len() + 26;
            out.extend_from_slice(&(len as i32).to_le_bytes());
            out.extend_from_slice(b"\x05_id\0\x10\0\0\0\0");
            out.extend_from_slice(&id);
            out.extend_from_slice(&document[4..]);
        });
        debug_assert!(pushed.is_ok());
    }
}

/// The sink.
struct Ours {
    sink: Box<dyn Sink>,
    spare: Vec<Batch>,
    next: u64,
}

impl Ours {
    fn connect(address: &str) -> Result<Self, Failure> {
        let uri = format!("mongodb://{address}/?directConnection=true");
        let typed =
            Insert { form: Form::Bson, connections: CONNECTIONS, ..Insert::new(uri, format!("{DB}.ours")) };
        let sink = typed.build()?.build(0)?;
        let payload = document()?;
        let batch = |_| {
            let mut batch = Batch::new(Partition::new("t", 0));
            for _ in 0..BATCH {
                batch.push(Record { offset: 0, appended_ms: 0, key: None, payload: Some(&payload) });
            }
            batch
        };
        Ok(Self { sink, spare: (0..CONNECTIONS).map(batch).collect(), next: 0 })
    }

    fn round(&mut self) -> Result<(), Failure> {
        let (mut left, mut in_hand) = (BATCHES, 0);
        while left > 0 || in_hand > 0 {
            while let Some(mut batch) = self.spare.pop_if(|_| left > 0) {
                for event in batch.events_mut() {
                    event.offset = self.next;
                    self.next += 1;
                }
                self.sink.submit(batch);
                (left, in_hand) = (left - 1, in_hand + 1);
            }
            if let Some(settled) = self.sink.settle(Duration::from_millis(20)) {
                in_hand -= 1;
                if settled.verdict != Verdict::WRITTEN {
                    return Err(format!("{:?}", settled.verdict).into());
                }
                self.spare.push(settled.batch);
            }
        }
        Ok(())
    }
}
