//! The embedded server brought to this machine, with what is shown meanwhile.

use std::io::{IsTerminal, Write, stderr};

use plimsoll_host::Cache;
use plimsoll_host::embedded::{self, Progress, Step};

use crate::terminal::say;

/// The cache for what is installed.
///
/// # Errors
/// When no place for it is known.
pub fn cache() -> anyhow::Result<Cache> {
    Ok(Cache::locate()?)
}

/// Installs the embedded server unless it is there, and shows how far that is.
///
/// # Errors
/// What went wrong, and what is needed.
pub fn install(quiet: bool) -> anyhow::Result<()> {
    let cache = cache()?;
    if embedded::is_installed(&cache) {
        return Ok(());
    }
    if !quiet {
        say("Installing the embedded server. This takes some minutes and is done once.");
    }
    let mut shown = 0;
    embedded::install(&cache, &mut |progress| {
        if !quiet {
            show(&progress, &mut shown);
        }
    })?;
    Ok(())
}

fn show(progress: &Progress, shown: &mut u32) {
    let seconds = progress.elapsed_ns / 1_000_000_000;
    let text = match &progress.step {
        Step::Waiting => "another process installs it, waiting".to_owned(),
        Step::Fetching => "fetching the sources".to_owned(),
        Step::Compiling { begun, expected, name } => format!("compiling {begun} of about {expected}: {name}"),
        Step::Installed => "installed".to_owned(),
    };
    if stderr().is_terminal() {
        let end = if progress.step == Step::Installed { "\n" } else { "" };
        write!(stderr(), "\r\x1b[K  {seconds:>4} s  {text}{end}").unwrap_or_default();
        return;
    }
    // A log gets a line for every twentieth crate, not for each.
    let part = if let Step::Compiling { begun, .. } = progress.step { 1 + begun / 20 } else { 0 };
    if part == 0 || part > *shown {
        *shown = part.max(*shown);
        say(&format!("  {seconds:>4} s  {text}"));
    }
}
