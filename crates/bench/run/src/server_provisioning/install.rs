//! Installs the embedded server, and reports the progress to the console.

use plimsoll_host::Cache;
use plimsoll_host::embedded;

use crate::console::Console;

/// The cache for installed programs.
///
/// # Errors
/// When no directory for the cache is known.
pub fn cache() -> anyhow::Result<Cache> {
    Ok(Cache::locate()?)
}

/// Installs the embedded server unless it is installed, and shows the progress.
///
/// # Errors
/// When the installation fails. The error names the missing requirement.
pub fn install(console: &dyn Console) -> anyhow::Result<()> {
    let cache = cache()?;
    if embedded::is_installed(&cache) {
        return Ok(());
    }
    console.say("Installing the embedded server. This takes some minutes and is done once.");
    embedded::install(&cache, &mut |progress| console.installing(&progress))?;
    Ok(())
}
