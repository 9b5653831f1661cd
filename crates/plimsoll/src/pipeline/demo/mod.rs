//! A pipeline at work, for who has never seen one: everything is started here, something is killed on the way, and what
//! arrived is held against what was sent.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use plimsoll_measure::clock;

use crate::cli::PipelineDemoArgs;
use crate::terminal::{print, say};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir::fresh;
use plimsoll_run::server_provisioning::cache;

use play::Play;
use script::Script;
use stage::{Stage, check_installed};

mod script;

mod play;

mod child;
mod stage;
mod words;

/// Shows a pipeline at work until the script is over or `flag` is set.
///
/// # Errors
/// What is not installed, could not be started, or ended before its time.
pub fn demo(args: &PipelineDemoArgs, flag: &AtomicBool) -> Outcome {
    let script = Script::of(args.length, args.rate, args.kill).deserves(Exit::Usage)?;
    let cache = cache().deserves(Exit::Server)?;
    check_installed(&cache).deserves(Exit::Server)?;
    let dir = directory(args).deserves(Exit::Usage)?;
    say("starting a broker and a MongoDB server on this machine; they end with the demonstration");
    let stage = Stage::set(&cache, &dir, args.rate).deserves(Exit::Server)?;
    say(&words::begins(&script, &stage));
    let mut play = Play::begin(stage, flag)?;
    let Some(played) = play.perform(&script)? else {
        play.end()?;
        say("interrupted: everything is stopped, and nothing was proven");
        return Ok(Exit::Interrupted);
    };
    let report = play.audited()?;
    print(&words::proven(&played, &report));
    print(&format!("The files are in {}\n", dir.display()));
    Ok(if report.holds() { Exit::Held } else { Exit::Integrity })
}

/// The directory of the demonstration, as a whole path: the programs that are started read their files there.
fn directory(args: &PipelineDemoArgs) -> anyhow::Result<PathBuf> {
    let path = args.out.clone().unwrap_or_else(|| fresh("demo", clock::wall_ms()));
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
