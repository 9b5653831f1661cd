//! Defines the error of a file or directory that cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// A file or directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path:?} cannot be used ({source}): set PLIMSOLL_CACHE to a directory that is writable")]
pub struct Error {
    /// The file or directory.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl Error {
    /// Maps an I/O error at `path`.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self { path, source }
    }
}
