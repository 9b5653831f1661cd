//! Measures each client's CPU time per operation and per document, against the same server, in the same run.
//!
//! ```sh
//! cargo xtask bench client                    # or: cargo bench -p plimsoll-mongo --bench client -- [OPTIONS]
//!     --rounds N    number of rounds (5)
//!     --json        print JSON instead of the table
//! ```
//!
//! Five clients insert the same documents of 100 bytes, made in advance except for a fresh `_id` each: a bare blocking socket
//! that patches and resends one frame (the lower bound); the lean client as the load engine uses it (a task on a single-threaded
//! runtime); the official driver as its users run it (a task on tokio's default runtime, raw documents); the same driver on a
//! single-threaded runtime, where it costs least; and PyMongo (raw documents as well). Each is a separate process. Its cost is
//! the CPU time of the whole process, with its background threads and the kernel's work for it. The clients take turns in small
//! slices, so that a disturbance affects all of them. A ratio is taken within a round, and the median round is shown. "The
//! driver" of a ratio is the one on the default runtime.
//!
//! The server is the embedded one with the relaxed profile, because disk waits are not measured here.
//! `PLIMSOLL_BENCH_URI=mongodb://HOST:PORT` selects another server, without TLS and authentication. The database `plimsoll_bench`
//! is dropped at the end; on the user's server it must be empty before.
//!
//! Goals of the lean client: one insert takes 6 µs, at most 1.25 × the bare socket's CPU and 5 × less than the driver's; in
//! batches of 1000, a document takes 0.2 µs, 8 × less than the driver's. The highest rate is not a goal: here the server limits
//! it.

mod arguments;
mod place;

mod rounds;
mod workload;

mod process;

mod client;

mod bare;
mod driver;
mod lean;

mod document;

mod figures;
mod show;

use std::error::Error;
use std::process::ExitCode;

use arguments::{Arguments, Format};

/// Any failure ends the program with its message.
type Failure = Box<dyn Error + Send + Sync>;

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
    match Arguments::read(std::env::args().skip(1))? {
        Arguments::Serve { client, address } => client.serve(&address),
        Arguments::Measure { plan, format } => measure(&plan, format),
    }
}

fn measure(plan: &rounds::Plan, format: Format) -> Result<(), Failure> {
    let place = place::Testbed::find()?;
    let measured = rounds::run(plan, &place)?;
    let figures = figures::Figures::of(&measured);
    match format {
        Format::Table => print!("{}", show::table(&place, plan, &figures)),
        Format::Json => println!("{:#}", show::json(&place, plan, &figures)),
        Format::Verdict => println!("all clients and workloads run; a test measures nothing"),
    }
    Ok(())
}
