//! Defines the arguments of `suite`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plimsoll_series::suite::typed::Existing;

/// Make the tests of a table. Each run is a process of its own: what happens to one ends no other.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// A file, .csv or .yaml, or the name of a shipped suite.
    #[arg(required_unless_present = "resume")]
    pub file: Option<String>,
    /// Make the runs that are missing in this directory of an earlier suite; of a complete one print its summary again.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "out", "server", "repetitions", "only", "list"])]
    pub resume: Option<PathBuf>,
    /// When going on, make those again that failed or hung.
    #[arg(long, requires = "resume")]
    pub retry: bool,
    /// Only these tests.
    #[arg(long, value_name = "TEST,TEST…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// How often each test is run, instead of what its row says.
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// Where tests whose rows name no server send their load.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// What happens to a collection that is not empty, where rows do not say.
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(["refuse", "drop"]).try_map(|rule| rule.parse::<Existing>()))]
    pub existing: Option<Existing>,
    /// How often the watchdog looks at a run.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub watch: plimsoll_measure::duration::Span,
    /// After so many looks without progress a run is taken for hung, and ended.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hung_after: u32,
    /// Print the runs in their order, and do nothing.
    #[arg(long)]
    pub list: bool,
    /// The suite directory itself.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print suite.json on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}
