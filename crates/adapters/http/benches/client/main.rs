//! Measures the CPU time per request of each HTTP load tool, against the null server, in one run.
//!
//! ```sh
//! cargo xtask bench http                      # or: cargo bench -p plimsoll-http --bench client -- [OPTIONS]
//!     --rounds N    number of rounds (5)
//!     --seconds N   sending time of each tool in a round (4)
//!     --json        print JSON instead of the table
//!     --tools DIR   where a tool is installed (in DIR/bin) besides the PATH; more than once
//! ```
//!
//! Each tool keeps 50 connections busy with `GET /` as fast as answers arrive (closed loop): this client under the load engine,
//! with every instant recorded in the engine's histograms and the status of every answer checked; wrk on one thread; oha; k6 with
//! the shortest possible script, and bodies discarded. Each is a separate process. Its cost is the CPU time of the whole process,
//! with its start and the kernel's work for it, divided by its own count of sent requests; the server counts whether they
//! arrived. The null server runs on one thread of the measuring process and is not counted. Tools take turns within a round; each
//! round starts with another tool. Missing tools are listed; `cargo xtask bench http --install` installs oha and k6.
//!
//! Goal: 8 µs per request. The highest rate is not a goal: with two cores, the server takes one of them.

mod arguments;
mod cpu;
mod ours;
mod rounds;
mod show;
mod tool;

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
