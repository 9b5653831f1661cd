//! Defines the errors of starting a broker.

use std::io;

use plimsoll_process::home;

/// A broker could not be started, stopped or signalled.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The broker is not in the cache.
    #[error("the broker is not installed: run `cargo xtask setup`, or name an existing broker")]
    NotInstalled,
    /// Java is missing.
    #[error(
        "java cannot be run ({0}): install Java 17 or newer (Debian: `apt-get install default-jre-headless`)"
    )]
    NoJava(io::Error),
    /// Java is too old.
    #[error("the broker needs Java 17 or newer, and this is {0}: install a newer one, or set JAVA_HOME")]
    OldJava(u32),
    /// The file system refused.
    #[error("the broker's storage cannot be used ({0}): choose a writable directory")]
    Storage(#[from] io::Error),
    /// Another broker runs on its storage, or the storage holds foreign files.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The process did not start, or cannot be signalled.
    #[error(transparent)]
    Process(#[from] plimsoll_process::Error),
}
