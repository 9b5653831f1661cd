//! Runs the raw insert loop with the load engine's client: some connections on one thread, each with a command in
//! flight.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use plimsoll_measure::clock;
use plimsoll_stores::document::identity::Identity;
use plimsoll_wire::{
    ConnectOptions, Connection, W, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec,
};
use tokio::runtime::Runtime;

use crate::Failure;
use crate::row::Turn;
use crate::testbed::DB;

/// Connections, and prepared documents without their ids.
pub(crate) struct Raw {
    runtime: Runtime,
    lanes: Vec<Lane>,
    documents: Vec<Vec<u8>>,
    batch: usize,
    next: u64,
}

struct Lane {
    connection: Connection,
    command: WriteBatch,
    reply: WriteReply,
}

impl Raw {
    /// `documents` are used in turn; each lacks only its `_id`.
    pub(crate) fn connect(
        address: &str,
        collection: &str,
        connections: usize,
        documents: Vec<Vec<u8>>,
        batch: usize,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut spec = WriteSpec::new(WriteKind::Insert, DB, collection);
        spec.ordered = false;
        spec.write_concern = Some(WriteConcern { w: W::Majority, j: Some(true), timeout_ms: Some(30_000) });
        let options = ConnectOptions {
            timeout: Some(Duration::from_secs(30)),
            ..ConnectOptions::new(address.parse()?)
        };
        let mut lanes = Vec::new();
        for _ in 0..connections {
            let connection = runtime.block_on(Connection::connect(&options))?;
            let command = WriteBatch::new(&spec, &connection.limits())?;
            lanes.push(Lane { connection, command, reply: WriteReply::new() });
        }
        Ok(Self { runtime, lanes, documents, batch, next: 0 })
    }

    /// Inserts this many documents.
    pub(crate) fn insert(&mut self, events: u64) -> Result<Turn, Failure> {
        let Self { runtime, lanes, documents, batch, next } = self;
        let (begun, cpu_ns, end) = (clock::now(), clock::process_cpu_ns(), *next + events);
        runtime.block_on(async {
            let (mut idle, mut aloft) = (std::mem::take(lanes), FuturesUnordered::new());
            loop {
                while *next < end
                    && let Some(mut lane) = idle.pop()
                {
                    lane.fill(documents, (end - *next).min(*batch as u64), next);
                    aloft.push(lane.write());
                }
                let Some(lane) = aloft.next().await else { break };
                if !lane.reply.is_acknowledged() {
                    return Err(format!("a write failed: {:?}", lane.reply.first_error()).into());
                }
                idle.push(lane);
            }
            *lanes = idle;
            Ok::<(), Failure>(())
        })?;
        let (wall_ns, cpu_ns) = (clock::now().since(begun), clock::process_cpu_ns() - cpu_ns);
        Ok(Turn { events, wall_ns, cpu_ns, ..Turn::default() })
    }
}

impl Lane {
    async fn write(mut self) -> Self {
        self.connection.write(&mut self.command, &mut self.reply).await;
        self
    }

    fn fill(&mut self, documents: &[Vec<u8>], events: u64, next: &mut u64) {
        self.command.clear();
        for _ in 0..events {
            let id = Identity { topic: 1, partition: 0, offset: *next }.to_bytes();
            let document = &documents[(*next % documents.len() as u64) as usize];
            *next += 1;
            let pushed = self.command.push(|out| {
                let len = document.len() + b"\x05_id\0\x10\0\0\0\0".len() + id.len();
                out.extend_from_slice(&(len as i32).to_le_bytes());
                out.extend_from_slice(b"\x05_id\0\x10\0\0\0\0");
                out.extend_from_slice(&id);
                out.extend_from_slice(&document[4..]);
            });
            debug_assert!(pushed.is_ok(), "the documents are small");
        }
    }
}
