//! Lists the clients by name and runs each in its own process.

use std::env;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::Command;

use plimsoll_host::Cache;
use plimsoll_measure::clock;
use plimsoll_wire::Address;
use tokio::runtime::Builder;

use crate::Failure;
use crate::arguments::SERVE;
use crate::bare::Bare;
use crate::driver::Driver;
use crate::lean::Lean;
use crate::workload::{Cost, Order};

/// A client that inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A blocking socket and one frame: the lower bound for the cost of an insert.
    Bare,
    /// Our own client.
    Lean,
    /// The official driver for Rust on tokio's default runtime.
    Driver,
    /// The same driver on a single-threaded runtime, where it costs least.
    DriverOneThread,
    /// The official driver for Python.
    Pymongo,
}

/// Inserts as an order requires.
pub(crate) trait Insert {
    /// Carries out the order; an error if anything was not acknowledged.
    fn insert(&mut self, order: Order) -> Result<(), Failure>;
}

impl Client {
    /// All clients, in the order of the tables.
    pub(crate) const ALL: [Client; 5] =
        [Client::Bare, Client::Lean, Client::Driver, Client::DriverOneThread, Client::Pymongo];

    /// The name for reports, arguments and collections.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Bare => "bare",
            Client::Lean => "lean",
            Client::Driver => "driver",
            Client::DriverOneThread => "driver_one_thread",
            Client::Pymongo => "pymongo",
        }
    }

    /// Finds a client by name.
    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let found = Self::ALL.into_iter().find(|client| client.name() == name);
        found.ok_or_else(|| format!("there is no client named {name:?}").into())
    }

    /// The command that starts this client's process.
    pub(crate) fn program(self, address: &Address) -> Result<Command, Failure> {
        if self == Client::Pymongo {
            return pymongo(address);
        }
        let mut command = Command::new(env::current_exe()?);
        command.args([SERVE, self.name(), &address.to_string()]);
        Ok(command)
    }

    /// Runs this client until standard input ends.
    pub(crate) fn serve(self, address: &Address) -> Result<(), Failure> {
        match self {
            Client::Bare => serve(Bare::connect(address)?),
            Client::Lean => serve(Lean::connect(address)?),
            Client::Driver => serve(Driver::connect(self, Builder::new_multi_thread(), address)?),
            Client::DriverOneThread => serve(Driver::connect(self, Builder::new_current_thread(), address)?),
            Client::Pymongo => Err("PyMongo is a program of its own".into()),
        }
    }
}

fn pymongo(address: &Address) -> Result<Command, Failure> {
    let python = Cache::locate()?.root().join("python/bin/python");
    if !python.is_file() {
        return Err(format!("{} does not exist: run `cargo xtask setup` first", python.display()).into());
    }
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/client/pymongo_client.py"));
    command.arg(address.to_string());
    Ok(command)
}

/// Reads orders and answers with their costs.
fn serve(mut client: impl Insert) -> Result<(), Failure> {
    println!("ready");
    for line in io::stdin().lock().lines() {
        let order: Order = line?.parse()?;
        let (cpu, wall) = (clock::process_cpu_ns(), clock::now());
        client.insert(order)?;
        let cost = Cost { cpu_ns: clock::process_cpu_ns() - cpu, wall_ns: clock::now().since(wall) };
        println!("{} {}", cost.cpu_ns, cost.wall_ns);
        io::stdout().flush()?;
    }
    Ok(())
}
