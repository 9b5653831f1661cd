//! Kills the processes of the workflow engine, and checks that every acknowledged signal is applied once.
//!
//! ```sh
//! cargo xtask bench workflow-kills            # or: cargo bench -p plimsoll --bench workflow_kills -- [OPTIONS]
//!     --kills N     the number of kills, over both stores (200)
//!     --seed N      the seed of their kinds and times (a new one each time)
//!     --out DIR     the directory of results, ledgers and logs (target/bench-workflow-kills)
//!     --store NAME  only this store: mongodb or postgres
//!     --lease SPAN  the length of the engines' leases (2s)
//! ```
//!
//! Each round has a new server, two services and a worker as processes, and clients that send over HTTP. A kill is one of: an engine with
//! -9; an engine that is paused until others have taken over its partitions, and resumed (a zombie); the server with -9; a network that
//! a proxy cuts, resets or silences. Afterwards the instances are compared with the ledger of the acknowledged requests.
//!
//! The same `--out` again continues after the last complete round. Ends with 0 if every round holds, and with 4 otherwise.

mod campaign;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use plimsoll_measure::duration::Span;

use campaign::Plan;
use campaign::kind::Backend;

/// Kills the workflow engine, and audits its instances.
#[derive(Parser)]
struct Words {
    /// The number of kills, over both stores.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    kills: u32,
    /// The seed of their kinds and times.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The directory of results, ledgers and logs.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/bench-workflow-kills"))]
    out: PathBuf,
    /// Only this store.
    #[arg(long, value_enum)]
    store: Option<Backend>,
    /// The length of the engines' leases.
    #[arg(long, value_name = "SPAN", default_value = "2s")]
    lease: Span,
    /// Set by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let Words { kills, seed, out, store, lease, bench: _ } = Words::parse();
    match campaign::run(&Plan { kills, seed, out, store, lease }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(4),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
