//! Runs the kill campaign: kills the engine, the broker and the MongoDB server of pipelines, and checks that
//! nothing is lost or duplicated.
//!
//! ```sh
//! cargo xtask bench kills                     # or: cargo bench -p plimsoll --bench kills -- [OPTIONS]
//!     --kills N     the number of kills, over all profiles (100)
//!     --seed N      the seed of their times (a new one each time)
//!     --out DIR     the directory of results and logs (target/bench-kills)
//!     --only NAME   only these rows, repeated
//! ```
//!
//! Each profile is a pipeline of the program as a user runs it, from a source that is filled continuously.
//! Its engine, a real broker and a real server are killed with -9 at random moments: three of four while it
//! works, the others during its recovery. At the end the destination is compared with the source, offset by
//! offset. Then a setting removes each guard, and the same kills must lose or duplicate something: otherwise
//! the audit would prove nothing.
//!
//! Ends with 0 if nothing was lost, nothing was duplicated against a guarantee, and every missing guard was
//! noticed; with 4 otherwise.

mod campaign;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use plimsoll_measure::clock;

use campaign::Plan;

/// Kills pipelines, and audits their destinations.
#[derive(Parser)]
struct Words {
    /// The number of kills, over all profiles.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// The seed of their times.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The directory of results and logs.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/bench-kills"))]
    out: PathBuf,
    /// Run only these rows.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Set by cargo.
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
