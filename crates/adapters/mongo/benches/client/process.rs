//! Starts a client's process and sends it orders.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use plimsoll_wire::Address;

use crate::Failure;
use crate::client::Client;
use crate::workload::{Cost, Order};

/// A client that waits for orders. Its process ends when the value is dropped.
pub(crate) struct Process {
    client: Client,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the client and waits until it is connected.
    pub(crate) fn start(client: Client, address: &Address) -> Result<Self, Failure> {
        let mut child = client
            .program(address)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the {} client cannot be run: {error}", client.name()))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("the client has no output")?);
        let mut process = Process { client, child, orders, answers };
        process.answer()?;
        Ok(process)
    }

    /// Sends the client an order and returns its cost.
    pub(crate) fn ask(&mut self, order: Order) -> Result<Cost, Failure> {
        let orders = self.orders.as_mut().ok_or("the client takes no orders any more")?;
        writeln!(orders, "{} {}", order.commands, order.documents)?;
        self.answer()?.parse()
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("the {} client ended; see its messages above", self.client.name()).into());
        }
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The client ends when its input ends. A failure has been reported before.
        self.orders = None;
        let _ = self.child.wait();
    }
}
