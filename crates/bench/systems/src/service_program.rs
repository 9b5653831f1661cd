//! Runs the program of a service, `plimsoll serve NAME`, to check its settings and to fill its database.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use plimsoll_load::worker::Control;
use plimsoll_process::log::Follow;
use plimsoll_process::{Child, Lifetime};
use plimsoll_scenario::ServiceSpec;

use plimsoll_run::console::Console;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::reexec;
use plimsoll_run::run_dir;
use plimsoll_run::system::Fill;

/// The interval at which a fill checks for messages and for the user's request to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Checks the settings of a service. Returns them with every default, as YAML.
///
/// # Errors
/// When a setting is invalid. The error repeats the service's hint.
pub fn check(spec: &ServiceSpec) -> anyhow::Result<String> {
    let mut command = reexec::command();
    command.args(["serve", &spec.name, "--config", "/dev/stdin", "--check"]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().context("start this program again to check the service's settings")?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that refuses its arguments reads no input; its message gives the reason.
        let _ = stdin.write_all(spec.settings_text()?.as_bytes());
    }
    let output = child.wait_with_output().context("wait for the check of the service's settings")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let reason = printed.trim().trim_start_matches("plimsoll: ");
    ensure!(output.status.success(), "service.{}.settings: {reason}", spec.name);
    String::from_utf8(output.stdout).context("read the service's settings")
}

/// A service and the data for its fill.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// The service's name.
    pub name: &'a str,
    /// The data.
    pub fill: &'a Fill,
    /// The URI of the database server.
    pub uri: &'a str,
    /// The run directory, with the settings file.
    pub run: &'a Path,
}

/// Fills the database of a service.
///
/// # Errors
/// When the service refuses the fill, or the user stops it.
pub fn fill(filling: Filling<'_>, console: &dyn Console, control: &Control) -> Outcome<()> {
    let log = filling.run.join(run_dir::SERVICE_FILL_LOG);
    let file = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let mut messages = Follow::from_end(&log);
    let child = start(filling, file)?;
    let status = loop {
        let ended = child.wait(LOOK_EVERY);
        messages.fresh().lines().for_each(|line| console.say(line));
        if let Some(status) = ended {
            break status;
        }
        if control.is_stopped() {
            child.kill().context("end the fill")?;
            let interrupted =
                anyhow!("the fill of the service's database was interrupted: there are no results");
            return Err(interrupted).deserves(Exit::Interrupted);
        }
    };
    if !status.success() {
        let reason = reexec::last_words(&log).unwrap_or_else(|| status.to_string());
        return Err(anyhow!("fill the service's database: {reason}")).deserves(Exit::Server);
    }
    fs::remove_file(&log).with_context(|| format!("remove {}", log.display()))?;
    Ok(())
}

fn start(filling: Filling<'_>, log: File) -> anyhow::Result<Child> {
    let errors = log.try_clone().context("share the log of the fill")?;
    let mut command = reexec::command();
    command.args(["serve", filling.name, "--server", filling.uri, "--log", "error"]);
    command.arg("--config").arg(filling.run.join(run_dir::SERVICE_SETTINGS));
    command.arg("--fill").arg(filling.fill.order.to_string());
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    Child::run(command, Lifetime::Bound).context("start this program again to fill the service's database")
}
