//! Measures the CPU time per request of each HTTP load tool, against the null server, in one run.
//!
//! ```sh
//! cargo xtask bench http                      # or: cargo bench -p plimsoll-http --bench client -- [OPTIONS]
//!     --rounds N    how many rounds (5)
//!     --seconds N   how long each tool sends in a round (4)
//!     --json        print JSON instead of the table
//!     --tools DIR   where a tool is installed (in DIR/bin) besides the PATH; more than once
//! ```
//!
//! Each tool keeps 50 connections busy with `GET /` as fast as answers come (closed): this client under the load engine, with
//! every instant recorded in the engine's histograms and the status of every answer checked; wrk on one thread; oha; k6 with
//! the shortest script there is, and bodies discarded. Each is a process of its own, and what counts is the CPU time of the
//! whole process, its start and the kernel's work for it included, divided by the requests that it says it has sent; that they
//! arrived is counted by the server. The null server is in the process that measures, on one thread, and is not counted.
//! Tools take turns within a round, another one first each time. Tools that are not installed are named; `cargo xtask bench
//! http --install` installs oha and k6.
//!
//! Goal: 8 µs a request. Not a goal: the highest rate, for on two cores the server has one of them.

mod arguments;
mod cpu;
mod ours;
mod rounds;
mod show;
mod tool;

use std::error::Error;
use std::process::ExitCode;

use arguments::{Arguments, Format};

/// Any failure ends the program with its words.
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
        Arguments::Serve { address, millis } => ours::serve(address, millis),
        Arguments::Measure { plan, format } => {
            let measured = rounds::run(&plan)?;
            match format {
                Format::Table => print!("{}", show::table(&plan, &measured)),
                Format::Json => println!("{:#}", show::json(&plan, &measured)),
                Format::Verdict => {
                    println!("the client runs and every request arrives; a test measures nothing")
                }
            }
            Ok(())
        }
    }
}
