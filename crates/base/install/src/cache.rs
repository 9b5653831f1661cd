//! Locates the cache for installed programs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A directory for files that can be fetched or built again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// No directory for the cache is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no directory for the cache is known: set PLIMSOLL_CACHE to a directory (HOME is not set either)")]
pub struct NoCacheDirectory;

impl Cache {
    /// The cache of this user: `$PLIMSOLL_CACHE`, else `$XDG_CACHE_HOME/plimsoll`, else `~/.cache/plimsoll`. Nothing is
    /// created.
    ///
    /// # Errors
    /// [`NoCacheDirectory`] when none of the three variables is set.
    pub fn locate() -> Result<Self, NoCacheDirectory> {
        resolve(env::var_os("PLIMSOLL_CACHE"), env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"))
            .map(Cache::at)
            .ok_or(NoCacheDirectory)
    }

    /// A cache in a directory of the caller's choice.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Cache { root: root.into() }
    }

    /// The directory. It may not exist yet.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// An empty variable counts as unset; the XDG specification ignores a relative path.
fn resolve(plimsoll: Option<OsString>, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let path = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    path(plimsoll)
        .or_else(|| path(xdg).filter(|path| path.is_absolute()).map(|path| path.join("plimsoll")))
        .or_else(|| path(home).map(|path| path.join(".cache/plimsoll")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(plimsoll: &str, xdg: &str, home: &str, expected: Option<&str>) {
        let found = resolve(Some(plimsoll.into()), Some(xdg.into()), Some(home.into()));
        assert_eq!(found.as_deref(), expected.map(Path::new));
    }

    #[test]
    fn the_first_set_variable_decides() {
        check("/p", "/x", "/h", Some("/p"));
        check("", "/x", "/h", Some("/x/plimsoll"));
        check("", "", "/h", Some("/h/.cache/plimsoll"));
        check("", "relative", "/h", Some("/h/.cache/plimsoll"));
        check("", "", "", None);
    }
}
