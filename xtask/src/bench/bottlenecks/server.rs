//! Starts the embedded server with any of its options.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use plimsoll_install::Cache;

/// The start of the name of its directory in the cache, and the program in it.
const DIRECTORY: &str = "secantus-mdb-";
const PROGRAM: &str = "bin/secantusd-rs";
/// The time limit of a start.
const START_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The time since this program first read the clock.
pub(super) fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(start);
    START.elapsed()
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask measures nothing of the project's; `measure::clock` is not its dependency"
)]
fn start() -> Instant {
    Instant::now()
}

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts it on a new storage, and waits until it listens.
    pub(super) fn start(storage: &Path, args: &[&str]) -> Result<Self> {
        let program = program()?;
        let log = storage.with_extension("log");
        let output = fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let mut command = Command::new(&program);
        command.args(["--port", "0", "--storage-path"]).arg(storage).args(args);
        command.arg("--config").arg(storage.with_extension("toml"));
        fs::write(storage.with_extension("toml"), "").context("write an empty configuration")?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("run {}", program.display()))?;
        let mut server = Self { process, port: 0 };
        server.port = server.listens(&log)?;
        Ok(server)
    }

    fn listens(&mut self, log: &Path) -> Result<u16> {
        let until = now() + START_MAX;
        loop {
            let text = fs::read_to_string(log).unwrap_or_default();
            let port =
                |line: &str| line.split_once("listening on ")?.1.trim().rsplit(':').next()?.parse().ok();
            if let Some(port) = text.lines().find_map(port) {
                return Ok(port);
            }
            ensure!(self.process.try_wait()?.is_none(), "the server ended at once: {text}");
            ensure!(now() < until, "the server did not listen within {START_MAX:?}: {text}");
            thread::sleep(POLL);
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its storage is removed with the results of the search.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The newest installed server.
fn program() -> Result<PathBuf> {
    let cache = Cache::locate()?;
    let entries = fs::read_dir(cache.root()).with_context(|| format!("list {}", cache.root().display()))?;
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(DIRECTORY)) && path.join(PROGRAM).is_file()
    };
    match entries.flatten().map(|entry| entry.path()).filter(named).max() {
        Some(directory) => Ok(directory.join(PROGRAM)),
        None => bail!("the embedded server is not installed: run `cargo xtask setup`"),
    }
}
