//! Runs our own client as the load engine does: a task on a single-threaded runtime, with a time limit for each command.

use std::time::Duration;

use plimsoll_wire::{Address, ConnectOptions, Connection, WriteBatch, WriteKind, WriteReply, WriteSpec};
use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::client::{Client, Insert};
use crate::document::{DATABASE, Maker};
use crate::workload::Order;

/// The time limit of a command when the scenario sets none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The runtime, and the connection unless a task uses it.
pub(crate) struct Lean {
    runtime: Runtime,
    writer: Option<Writer>,
}

struct Writer {
    connection: Connection,
    batch: WriteBatch,
    reply: WriteReply,
    maker: Maker,
}

impl Lean {
    pub(crate) fn connect(address: &Address) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let options = ConnectOptions { timeout: Some(TIMEOUT), ..ConnectOptions::new(address.clone()) };
        let connection = runtime.block_on(Connection::connect(&options))?;
        let spec = WriteSpec::new(WriteKind::Insert, DATABASE, Client::Lean.name());
        let batch = WriteBatch::new(&spec, &connection.limits())?;
        let writer = Writer { connection, batch, reply: WriteReply::new(), maker: Maker::new()? };
        Ok(Lean { runtime, writer: Some(writer) })
    }
}

impl Insert for Lean {
    fn insert(&mut self, order: Order) -> Result<(), Failure> {
        let writer = self.writer.take().ok_or("the connection was lost before")?;
        let task = self.runtime.spawn(writer.write(order));
        self.writer = Some(self.runtime.block_on(task)??);
        Ok(())
    }
}

impl Writer {
    async fn write(mut self, order: Order) -> Result<Self, Failure> {
        for _ in 0..order.commands {
            self.batch.clear();
            for _ in 0..order.documents {
                self.batch.push(|out| out.extend_from_slice(self.maker.next()))?;
            }
            self.connection.write(&mut self.batch, &mut self.reply).await;
            if !self.reply.is_acknowledged() {
                return Err(format!("not acknowledged: {:?}", self.reply.first_error()).into());
            }
        }
        Ok(self)
    }
}
