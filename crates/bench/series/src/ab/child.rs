//! Runs one side of a comparison as a child process that ends with this process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use plimsoll_process::{Child, Lifetime};

use super::prepare::Prepared;
use plimsoll_run::options::LoadOptions;
use plimsoll_run::reexec;

/// How often a run is looked at, and the wish to stop passed on.
const LOOK: Duration = Duration::from_millis(50);

/// What is run, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The scenario as it was named.
    pub scenario: &'a str,
    /// The run directory.
    pub path: &'a Path,
    /// What the run has to itself, as `--set` takes it.
    pub own: Option<&'a str>,
    /// Whether nothing is said on the way.
    pub quiet: bool,
}

impl Run<'_> {
    /// Starts it out of the terminal's reach, so that Ctrl-C comes to it through us and once only.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(&self, side: &Prepared) -> anyhow::Result<Child> {
        let binary = side.side.binary.as_deref();
        let mut command = binary.map_or_else(reexec::command, Command::new);
        let own = self.own.into_iter().flat_map(|own| ["--set", own]).map(str::to_owned);
        command.arg("run").arg(self.scenario).arg("--out").arg(self.path);
        reexec::give(&mut command, words(&side.options).into_iter().chain(own));
        command.args(self.quiet.then_some("--quiet"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let start = || format!("start {}", binary.unwrap_or(reexec::program()).display());
        Child::run(command, Lifetime::Asked).with_context(start)
    }
}

/// Words of the command line as `plimsoll run` takes them.
fn words(options: &LoadOptions) -> Vec<String> {
    let server = options.server.iter().flat_map(|server| ["--server".to_owned(), server.clone()]);
    let hosts = (!options.hosts.is_empty()).then(|| ["--hosts".to_owned(), options.hosts.join(",")]);
    let count = (options.count > 1).then(|| ["--count".to_owned(), options.count.to_string()]);
    let seed = options.seed.map(|seed| ["--seed".to_owned(), seed.to_string()]);
    let overrides = options.overrides.iter().flat_map(|it| ["--set".to_owned(), it.clone()]);
    let pairs = [hosts, count, seed].into_iter().flatten().flatten();
    let no_calibration = (!options.calibrate).then(|| "--no-calibration".to_owned());
    server.chain(pairs).chain(overrides).chain(no_calibration).collect()
}

/// Waits for a run to end, and passes the wish to stop on to it, once. The code that it ended with.
///
/// # Errors
/// When it cannot be told.
pub fn wait(child: &Child, flag: &AtomicBool) -> anyhow::Result<Option<u8>> {
    let mut is_told = false;
    loop {
        if let Some(status) = child.wait(LOOK) {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()));
        }
        if flag.load(Ordering::Relaxed) && !is_told {
            is_told = true;
            child.interrupt().context("ask a run to end")?;
        }
    }
}
