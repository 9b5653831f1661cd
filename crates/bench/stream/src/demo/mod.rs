//! A pipeline at work, for who has never seen one: everything is started here, something is killed on the way, and what
//! arrived is held against what was sent.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_run::console::Console;

use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir::fresh;
use plimsoll_run::server_provisioning::cache;

use play::Play;
pub use script::Kill;
use script::Script;
use stage::{Stage, check_installed};

mod script;

mod play;

mod child;
mod stage;
mod words;

/// A demonstration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long events come.
    pub length: Span,
    /// Events a second.
    pub rate: u32,
    /// Killed besides the pipeline.
    pub kill: Option<Kill>,
    /// Its directory; a new one below plimsoll-runs if absent.
    pub out: Option<PathBuf>,
}

/// Shows a pipeline at work until the script is over or `flag` is set; gives the result in words.
///
/// # Errors
/// What is not installed, could not be started, or ended before its time.
pub fn demo(
    settings: &Settings,
    flag: &AtomicBool,
    console: &'static dyn Console,
) -> Outcome<(Exit, String)> {
    let script = Script::of(settings.length, settings.rate, settings.kill).deserves(Exit::Usage)?;
    let cache = cache().deserves(Exit::Server)?;
    check_installed(&cache).deserves(Exit::Server)?;
    let dir = directory(settings).deserves(Exit::Usage)?;
    console.say("starting a broker and a MongoDB server on this machine; they end with the demonstration");
    let stage = Stage::set(&cache, &dir, settings.rate, console).deserves(Exit::Server)?;
    console.say(&words::begins(&script, &stage));
    let mut play = Play::begin(stage, flag)?;
    let Some(played) = play.perform(&script)? else {
        play.end()?;
        console.say("interrupted: everything is stopped, and nothing was proven");
        return Ok((Exit::Interrupted, String::new()));
    };
    let report = play.audited()?;
    let text = format!("{}The files are in {}\n", words::proven(&played, &report), dir.display());
    Ok((if report.holds() { Exit::Held } else { Exit::Integrity }, text))
}

/// The directory of the demonstration, as a whole path: the programs that are started read their files there.
fn directory(settings: &Settings) -> anyhow::Result<PathBuf> {
    let path = settings.out.clone().unwrap_or_else(|| fresh("demo", clock::wall_ms()));
    if std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty: name another directory with --out", path.display());
    }
    let here = || format!("make the directory {}; name another place with --out", path.display());
    std::fs::create_dir_all(&path).with_context(here)?;
    path.canonicalize().with_context(here)
}

/// Whether the user wants it to end.
fn is_over(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}
