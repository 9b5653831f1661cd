//! Defines the arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use plimsoll_measure::size::Bytes;

/// Run a service, to use it or to measure it. The service prints its URL when it is ready. On SIGTERM or
/// Ctrl-C it finishes the accepted requests and ends; a second signal ends it at once.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The service.
    #[arg(value_name = "SERVICE")]
    pub service: String,
    /// The address to listen on; port 0 takes any free port. A non-local address needs `security` in the settings.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// The database: a mongodb:// URI, or a server to start: `mongod` (from the PATH), `embedded` or
    /// `embedded:relaxed`; by default `database.uri` of the settings, or else a started `mongod` or embedded server.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// The data directory of a started server; by default a temporary directory, which is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub storage: Option<PathBuf>,
    /// The storage engine's cache of a started server, such as 512MB; by default the server's own.
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<Bytes>,
    /// The settings file, as YAML; the guide of the service lists its keys.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Replace a value of the settings, for example --set readings.design=bucket
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
    /// The level of the log on standard error.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub log: LogLevel,
    /// Print the settings with all defaults as YAML, without starting the service.
    #[arg(long)]
    pub print_settings: bool,
    /// For a run: check the settings, print them with all defaults as YAML, and do nothing.
    #[arg(long, hide = true)]
    pub check: bool,
    /// For a run: fill the database as this JSON says, and exit.
    #[arg(long, value_name = "JSON", hide = true)]
    pub fill: Option<String>,
}

/// The level of the log.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum LogLevel {
    /// Errors.
    Error,
    /// Warnings, too.
    Warn,
    /// The start and the end, too.
    Info,
    /// Everything.
    Debug,
}
