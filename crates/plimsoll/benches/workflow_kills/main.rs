//! Kills the processes of the workflow engine, and checks that every acknowledged signal is applied once.
//!
//! ```sh
//! cargo xtask bench workflow-kills            # or: cargo bench -p plimsoll --bench workflow_kills -- [OPTIONS]
//!     --kills N     the number of kills, over both stores (200)
//!     --seed N      the seed of their kinds and times (a new one each time)
//!     --out DIR     the directory of results, ledgers and logs (target/bench-workflow-kills)
//!     --store NAME  only this store: mongodb or postgres
//!     --lease SPAN  the length of the engines' leases (2s)
//! cargo xtask bench workflow-processes        # or: cargo bench -p plimsoll --bench workflow_kills -- --processes 1,2,4 [OPTIONS]
//!     --processes A,B   compare these numbers of processes instead of a campaign
//!     --load SPAN, --clients N, --rounds N   the length of each load (10s), threads of clients (16), and turns (3)
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
use std::time::Duration;

use clap::Parser;
use plimsoll_measure::duration::Span;

use campaign::Plan;
use campaign::kind::Backend;
use campaign::processes::{self, Comparison, Turn};

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
    /// Compare these numbers of processes on one store instead of a campaign.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=8))]
    processes: Vec<u8>,
    /// The length of each load of the comparison.
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    load: Span,
    /// The number of client threads in the comparison.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// The number of turns with each number of processes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Set by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(Words::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(4),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: Words) -> anyhow::Result<bool> {
    let Words { kills, seed, out, store, lease, .. } = words;
    if words.processes.is_empty() {
        return campaign::run(&Plan { kills, seed, out, store, lease });
    }
    let turns = processes::compare(&Comparison {
        processes: words.processes.into_iter().map(usize::from).collect(),
        load: Duration::from_nanos(words.load.as_ns()),
        clients: words.clients.into(),
        rounds: words.rounds,
        lease,
        stores: store.map_or(Backend::ALL.to_vec(), |one| vec![one]),
        out,
    })?;
    Ok(turns.iter().all(Turn::holds))
}
