//! Nothing lost, nothing doubled: pipelines while their engine, their broker and their MongoDB server are killed.
//!
//! ```sh
//! cargo xtask bench kills                     # or: cargo bench -p plimsoll --bench kills -- [OPTIONS]
//!     --kills N     how many kills, over all profiles (100)
//!     --seed N      when they happen (a new one each time)
//!     --out DIR     where results and logs are kept (target/bench-kills)
//!     --only NAME   only these rows, again and again
//! ```
//!
//! Each profile is a pipeline of the program as a user runs it, from a source that is filled all the while. Its engine, a real
//! broker and a real server are killed with -9 at random moments, three of four while it is at work, the others anywhere on the
//! way back. In the end the destination is held against the source, offset by offset. Then each guard is taken away by a setting,
//! and the same kills must be seen to lose or to double something: an audit that finds nothing then would prove nothing here.
//!
//! Ends with 0 if nothing was lost, nothing was doubled that may not be, and every missing guard was noticed; with 4 otherwise.

mod campaign;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use plimsoll_measure::clock;

use campaign::Plan;

/// Kills pipelines, and audits what they wrote.
#[derive(Parser)]
struct Words {
    /// How many kills, over all profiles.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// When they happen.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where results and logs are kept.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/bench-kills"))]
    out: PathBuf,
    /// Only these rows.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Said by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let Words { kills, seed, out, only, bench: _ } = Words::parse();
    let plan = Plan { kills, seed: seed.unwrap_or_else(clock::wall_ms), out, only };
    match campaign::run(&plan) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(4),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
