//! Measures pipelines and other tools in turns, in one run on one machine, and shows both in one table.
//!
//! ```sh
//! cargo xtask bench pipeline                 # or: cargo bench -p plimsoll --bench pipeline -- [OPTIONS]
//!     --rounds N       the number of measurements of each subject (9)
//!     --only A,B       some of the rows: generator, consume, copy, copy-default, insert, connect, security, vector, embed, steady
//!     --steady SPAN    the length of the steady run (10m); 0s omits it
//!     --install        fetch the peer, Kafka Connect's MongoDB connector, into the cache first
//!     --out DIR        the directory of table.txt, results.json and steady.csv
//! ```
//!
//! Each row has some subjects; the first is the baseline. Every round measures each subject once, in a
//! different order, so that disturbances of the machine affect all alike. Ratios are taken within a round;
//! the table shows the median, the minimum and the maximum. CPU is that of the client's process, including
//! threads and kernel, without the broker and the server on the same machine. The measured time lies between
//! the first events that arrived and the last, so it excludes joining a group or starting a JVM.
//!
//! p99.9 is given if a pipeline of this process moved the events: for the sink, and for the time from the
//! source's append to the acknowledgement, unless the events were in a topic long before. Published figures
//! are below a row, with their machine; this machine is named at the top.
//!
//! Goals are shown with their measurements: a goal is met if its median round reaches it, and the number of
//! rounds that reached it is given. Not a goal: the highest rate of the broker or the server.

mod arguments;
mod checks;
mod plan;

mod testbed;

mod figures;
mod results;
mod row;
mod show;

mod canned;
mod marks;
mod running;
mod watch;

mod connect;
mod connector;
mod consume;
mod copy;
mod embed;
mod generator;
mod insert;
mod raw;
mod security;
mod steady;
mod vector;

use std::error::Error;
use std::process::ExitCode;

use mimalloc::MiMalloc;

use arguments::Arguments;
use plan::Plan;
use results::Results;
use row::Row;
use testbed::Testbed;

/// The program's allocator, for all measurements.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Any failure ends the program with its message.
type Failure = Box<dyn Error + Send + Sync>;

/// Prepares a row: starts its servers and fills its topics.
type Make = fn(&Testbed, &Plan) -> Result<Option<Row>, Failure>;

/// The rows, in the order of the table.
const ROWS: [(&str, Make); 9] = [
    ("generator", generator::row),
    ("consume", consume::row),
    ("copy", copy::row),
    ("copy-default", copy::default_row),
    ("insert", insert::row),
    ("connect", connect::row),
    ("security", security::row),
    ("vector", vector::row),
    ("embed", embed::row),
];
/// The name of the run that is not a row.
const STEADY: &str = "steady";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    if arguments.is_test {
        checks::run()?;
    }
    let testbed = Testbed::find()?;
    if arguments.install {
        connector::install(&testbed)?;
    }
    let mut results = Results::open(&testbed, &arguments)?;
    for (name, make) in ROWS.into_iter().filter(|(name, _)| arguments.wants(name)) {
        eprintln!("{name}: getting ready");
        match make(&testbed, &arguments.plan)? {
            Some(mut row) => results.add_row(name, row.measure(arguments.plan.rounds)?)?,
            None => results.leave_out(name)?,
        }
    }
    if arguments.wants(STEADY) && arguments.plan.steady_s > 0 {
        let steady = steady::run(&testbed, &arguments.plan, results.directory())?;
        results.add_steady(steady)?;
    }
    results.close()
}
