//! Demonstrates a pipeline: starts everything it needs, kills processes during the load, and compares the
//! destination with the source.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_report::text::hanging;
use plimsoll_run::console::Console;

use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir::{fresh, occupied};
use plimsoll_run::server_provisioning::cache;

use demo_run::DemoRun;
use environment::{Environment, check_installed};
pub use script::Kill;
use script::Script;

mod script;

mod demo_run;

mod child;
mod environment;
mod messages;

/// Settings of the demonstration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The duration of the load.
    pub length: Span,
    /// Events a second.
    pub rate: u32,
    /// A further process to kill, besides the pipeline.
    pub kill: Option<Kill>,
    /// The directory; a new one below plimsoll-runs if absent.
    pub out: Option<PathBuf>,
}

/// Runs the demonstration to its end, or until `flag` is set; returns the result as text.
///
/// # Errors
/// A program is not installed, did not start, or ended early.
pub fn demo(
    settings: &Settings,
    flag: &AtomicBool,
    console: &'static dyn Console,
) -> Outcome<(Exit, String)> {
    let script = Script::of(settings.length, settings.rate, settings.kill).deserves(Exit::Usage)?;
    let cache = cache().deserves(Exit::Server)?;
    check_installed(&cache).deserves(Exit::Server)?;
    let dir = directory(settings).deserves(Exit::Usage)?;
    let say = |text: &str| console.say(&hanging(text, "", console.line_width()));
    say("starting a broker and a MongoDB server on this machine; they end with the demonstration");
    let environment = Environment::start(&cache, &dir, settings.rate, console).deserves(Exit::Server)?;
    say(&messages::plan(&script, &environment));
    let mut run = DemoRun::begin(environment, flag)?;
    let Some(result) = run.run(&script)? else {
        run.end()?;
        console.say("interrupted: everything is stopped, and nothing was proven");
        return Ok((Exit::Interrupted, String::new()));
    };
    let report = run.audit()?;
    let text = format!("{}The files are in {}\n", messages::result(&result, &report), dir.display());
    Ok((if report.holds() { Exit::Held } else { Exit::Integrity }, text))
}

/// The directory of the demonstration, as an absolute path: the started programs read their files there.
fn directory(settings: &Settings) -> anyhow::Result<PathBuf> {
    let path = settings.out.clone().unwrap_or_else(|| fresh("demo", clock::wall_ms()));
    if let Some(fault) = occupied(&path) {
        bail!("{fault}: name another directory with --out");
    }
    let here = || format!("make the directory {}; name another place with --out", path.display());
    std::fs::create_dir_all(&path).with_context(here)?;
    path.canonicalize().with_context(here)
}

/// Whether the user wants to stop.
fn is_over(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}
