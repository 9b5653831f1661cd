//! What a pipeline costs beside the bare tools, in one table: the same machine, the same run, by turns.
//!
//! ```sh
//! cargo xtask bench pipeline                 # or: cargo bench -p plimsoll --bench pipeline -- [OPTIONS]
//!     --rounds N       how often each subject is measured (9)
//!     --only A,B       some of the rows: generator, consume, copy, copy-default, insert, connect, security, vector, embed, steady
//!     --steady SPAN    how long the steady run lasts (10m); 0s leaves it out
//!     --install        fetch the peer, Kafka Connect's MongoDB connector, into the cache first
//!     --out DIR        where table.txt, results.json and steady.csv are written
//! ```
//!
//! Each row has some subjects, the first of which the others are measured beside. Every round measures each of them once, in another
//! order each time, so that what the machine does besides hits all alike. Ratios are taken within a round; shown are the median
//! round, the least and the most. CPU is that of the client's process, threads and kernel included; the broker and the server, which
//! share the machine, are not in it. What is counted lies between the first events that arrived and the last, so that joining a group,
//! or the start of a Java machine, is not in it.
//!
//! p99.9 stands where a pipeline of this process moved the events: of the sink, and from the source's append to the acknowledgement
//! where the events were not in a topic long before. What others published stands below a row, with their machine; ours is at the top.
//!
//! Goals stand beside what was measured: a goal is met if its median round is, and in how many rounds it held is said. Not a goal: the
//! highest rate of the broker or the server.

mod arguments;
mod checks;
mod plan;

mod place;

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
use place::Place;
use plan::Plan;
use results::Results;
use row::Row;

/// That of the program, for everything that is measured here.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Any failure ends the program with its words.
type Failure = Box<dyn Error + Send + Sync>;

/// Makes a row ready: starts what it needs first and fills its topics.
type Make = fn(&Place, &Plan) -> Result<Option<Row>, Failure>;

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
/// The name of the run that is no row.
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
    let place = Place::find()?;
    if arguments.install {
        connector::install(&place)?;
    }
    let mut results = Results::open(&place, &arguments)?;
    for (name, make) in ROWS.into_iter().filter(|(name, _)| arguments.wants(name)) {
        eprintln!("{name}: getting ready");
        match make(&place, &arguments.plan)? {
            Some(mut row) => results.add_row(name, row.measure(arguments.plan.rounds)?)?,
            None => results.leave_out(name)?,
        }
    }
    if arguments.wants(STEADY) && arguments.plan.steady_s > 0 {
        let steady = steady::run(&place, &arguments.plan, results.directory())?;
        results.add_steady(steady)?;
    }
    results.close()
}
