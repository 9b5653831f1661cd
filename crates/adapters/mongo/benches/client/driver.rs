//! Runs the official driver: a tokio runtime, a connection pool, and a monitor in the background.
//!
//! It gets raw documents, its cheapest input. It works in a separate task: in the main thread of the default runtime, each
//! reply would cost a thread switch.

use bson::RawDocumentBuf;
use mongodb::Collection;
use plimsoll_wire::Address;
use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::client::{Client, Insert};
use crate::document::{DATABASE, Maker};
use crate::workload::Order;

/// The runtime, and the writer unless a task uses it.
pub(crate) struct Driver {
    runtime: Runtime,
    writer: Option<Writer>,
}

struct Writer {
    collection: Collection<RawDocumentBuf>,
    maker: Maker,
}

impl Driver {
    /// Creates the client; it connects with the first operation.
    pub(crate) fn connect(client: Client, mut runtime: Builder, address: &Address) -> Result<Self, Failure> {
        let runtime = runtime.enable_all().build()?;
        let uri = format!("mongodb://{address}/?directConnection=true");
        let driver = runtime.block_on(mongodb::Client::with_uri_str(uri))?;
        let collection = driver.database(DATABASE).collection(client.name());
        Ok(Driver { runtime, writer: Some(Writer { collection, maker: Maker::new()? }) })
    }
}

impl Insert for Driver {
    fn insert(&mut self, order: Order) -> Result<(), Failure> {
        let writer = self.writer.take().ok_or("the writer was lost before")?;
        let task = self.runtime.spawn(writer.write(order));
        self.writer = Some(self.runtime.block_on(task)??);
        Ok(())
    }
}

impl Writer {
    async fn write(mut self, order: Order) -> Result<Self, Failure> {
        for _ in 0..order.commands {
            if order.documents == 1 {
                let document = self.document()?;
                self.collection.insert_one(document).await?;
            } else {
                let documents: Result<Vec<_>, Failure> =
                    (0..order.documents).map(|_| self.document()).collect();
                self.collection.insert_many(documents?).await?;
            }
        }
        Ok(self)
    }

    fn document(&mut self) -> Result<RawDocumentBuf, Failure> {
        Ok(RawDocumentBuf::from_bytes(self.maker.next().to_vec())?)
    }
}
