//! Where Plimsoll keeps what it installed: the same directory as `plimsoll_server::Cache`, which xtask may not know.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// `$PLIMSOLL_CACHE`, else `$XDG_CACHE_HOME/plimsoll`, else `~/.cache/plimsoll`.
pub(crate) fn directory() -> Result<PathBuf> {
    resolve(env::var_os("PLIMSOLL_CACHE"), env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"))
        .context("find a place for the cache: set PLIMSOLL_CACHE to a directory")
}

/// A variable that is set to nothing counts as not set; the XDG specification ignores a relative path.
fn resolve(plimsoll: Option<OsString>, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let path = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    path(plimsoll)
        .or_else(|| path(xdg).filter(|path| path.is_absolute()).map(|path| path.join("plimsoll")))
        .or_else(|| path(home).map(|path| path.join(".cache/plimsoll")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn check(plimsoll: &str, xdg: &str, home: &str, expected: Option<&str>) {
        let found = resolve(Some(plimsoll.into()), Some(xdg.into()), Some(home.into()));
        assert_eq!(found.as_deref(), expected.map(Path::new));
    }

    #[test]
    fn the_nearest_variable_that_is_set_decides() {
        check("/p", "/x", "/h", Some("/p"));
        check("", "/x", "/h", Some("/x/plimsoll"));
        check("", "relative", "/h", Some("/h/.cache/plimsoll"));
        check("", "", "", None);
    }
}
