//! Defines the arguments that several commands share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;
use plimsoll_measure::run::Verdict;
use plimsoll_run::exit::{Exit, worst};
use plimsoll_run::options::LoadOptions;
use plimsoll_run::server_provenance::HostedAs;
use plimsoll_run::system::Registry;
use plimsoll_series::ab::comparing::Judging;

use crate::terminal::console;

/// Options of every command that sends load.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// The server: a mongodb:// URI, `mongod` (from the PATH), `embedded` or `embedded:relaxed`.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// Spread the load over these independent servers: URIs or host:port, separated by commas.
    #[arg(long, value_name = "HOST,HOST…", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Start this many embedded servers and spread the load over them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub count: usize,
    /// Replace a value of the scenario, for example --set phases.0.stop.duration=5s
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
    /// Seed of all randomness.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Send only this part of the load, for example 0/4.
    #[arg(long, value_name = "i/n", default_value = "0/1")]
    pub shard: String,
    /// The run directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Keep the embedded server's storage in the run directory for a later audit; for a matrix also the
    /// collections.
    #[arg(long)]
    pub keep: bool,
    /// Skip the calibration before and after the load. It saves two seconds each, but omits the headroom and
    /// the latency floor, and comparisons know less about the drift of the machine.
    #[arg(long, alias = "no-canary", env = "PLIMSOLL_NO_CALIBRATION", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub no_calibration: bool,
    /// The strictness about the verdict.
    #[command(flatten)]
    pub strictness: StrictnessArgs,
    /// Print only run.json (for a matrix: matrix.json) on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print only errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// For a suite: the provenance of the server at the address.
    #[arg(long, value_name = "JSON", hide = true)]
    pub hosted_as: Option<HostedAs>,
    /// For a suite: the run is a warm-up, and has no verdict.
    #[arg(long, hide = true)]
    pub as_warm_up: bool,
}

impl LoadArgs {
    /// The options of the load, without those for printing the result, which only the command line has.
    pub fn options(&self, systems: Registry) -> LoadOptions {
        LoadOptions {
            server: self.server.clone(),
            hosts: self.hosts.clone(),
            count: self.count,
            overrides: self.overrides.clone(),
            seed: self.seed,
            shard: self.shard.clone(),
            out: self.out.clone(),
            keep: self.keep,
            calibrate: !self.no_calibration,
            hosted_as: self.hosted_as.clone(),
            warm_up: self.as_warm_up,
            registry: systems,
            console: console(self.is_quiet()),
        }
    }

    /// Whether only errors and the result are printed.
    pub const fn is_quiet(&self) -> bool {
        self.quiet || self.json
    }
}

/// The exit of a result whose verdict is INVALID.
#[derive(Clone, Copy, Debug, Args)]
pub struct StrictnessArgs {
    /// End with code 5 if the verdict is INVALID: the numbers are less reliable than they look.
    #[arg(long)]
    pub fail_on_invalid: bool,
}

impl StrictnessArgs {
    /// The exit of a result with this verdict.
    pub fn exit(self, exit: Exit, verdict: Verdict) -> Exit {
        let is_invalid = self.fail_on_invalid && verdict == Verdict::Invalid;
        worst([exit, if is_invalid { Exit::Invalid } else { Exit::Held }])
    }
}

/// Options of a verdict.
#[derive(Clone, Debug, Args)]
pub struct JudgeArgs {
    /// The metric that decides, for example insert.response_ns.p99; by default throughput, or p99 where the
    /// schedule sets the rate.
    #[arg(long, value_name = "METRIC")]
    pub primary: Option<String>,
    /// The smallest difference that counts as better or worse.
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = effect)]
    pub min_effect: f64,
}

impl JudgeArgs {
    /// The options for the comparison itself.
    pub fn judging(&self) -> Judging {
        Judging { primary: self.primary.clone(), min_effect: self.min_effect }
    }
}

/// Parses a percentage into a share: `3%` gives 0.03.
fn effect(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("{text}: write a percentage from 0% to 100%, for example 3%"))
}
