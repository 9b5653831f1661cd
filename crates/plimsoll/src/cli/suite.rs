//! Defines the arguments of `suite`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plimsoll_series::suite::typed::Existing;

/// Run the tests of a table. Each run is its own process: a crash of one ends no other.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// A .csv or .yaml file, or the name of a shipped suite.
    #[arg(required_unless_present = "resume")]
    pub file: Option<String>,
    /// Run the missing tests in this directory of an earlier suite; print the summary of a complete suite
    /// again.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "out", "server", "repetitions", "only", "list", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// With --resume: repeat runs that failed or hung.
    #[arg(long, requires = "resume")]
    pub retry: bool,
    /// Run only these tests; `*` stands for any letters, as in '*-smoke'.
    #[arg(long, value_name = "TEST,TEST…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The number of repetitions of each test, instead of those in its row.
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// The server of tests whose rows name none.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// The treatment of a collection that is not empty, where rows do not set it.
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(["refuse", "drop"]).try_map(|rule| rule.parse::<Existing>()))]
    pub existing: Option<Existing>,
    /// The interval at which the watchdog checks a run.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub watch: plimsoll_measure::duration::Span,
    /// The number of checks without progress after which a run counts as hung and is ended.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hung_after: u32,
    /// End with code 5 if the verdict of a run is INVALID.
    #[arg(long)]
    pub fail_on_invalid: bool,
    /// Print the runs in their order, without running them.
    #[arg(long)]
    pub list: bool,
    /// Print the resolved scenario, three sample documents and the expected time and disk use of each test,
    /// and the runs in their order with the expected time of all. Contacts no server and writes no file.
    #[arg(long, conflicts_with_all = ["list", "json", "quiet"])]
    pub dry_run: bool,
    /// The suite directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print only suite.json on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print only errors.
    #[arg(long, short)]
    pub quiet: bool,
}
