//! Defines the error of a file or directory that cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// A file or directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path:?} cannot be used ({source}): set PLIMSOLL_CACHE to a directory that can be written to")]
pub struct Error {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl Error {
    /// Maps an I/O error at `path`.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self { path, source }
    }
}
