//! The embedded server brought to this machine, with what is shown meanwhile.

use plimsoll_host::Cache;
use plimsoll_host::embedded;

use crate::console::Console;

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
pub fn install(console: &dyn Console) -> anyhow::Result<()> {
    let cache = cache()?;
    if embedded::is_installed(&cache) {
        return Ok(());
    }
    console.say("Installing the embedded server. This takes some minutes and is done once.");
    embedded::install(&cache, &mut |progress| console.installing(&progress))?;
    Ok(())
}
