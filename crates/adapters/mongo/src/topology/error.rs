//! Why a deployment cannot be used.

use std::path::PathBuf;

/// Why a deployment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no connection string.
    #[error("the server's address cannot be read: {0}; write for example mongodb://localhost:27017")]
    Uri(String),
    /// A part of the URI that the lean client does not speak.
    #[error("{0}; use `client: driver`, or another user")]
    Unsupported(String),
    /// A file named by the URI cannot be read.
    #[error("cannot read {path}: {source}; correct tlsCAFile")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server cannot be reached, or refused us.
    #[error(transparent)]
    Wire(#[from] plimsoll_wire::Error),
    /// No member takes writes.
    #[error(
        "no primary was found ({0}): check that the replica set has one, and that its members' names resolve here"
    )]
    NoPrimary(String),
    /// The URI says that nothing is to be promised.
    #[error(
        "the server's address says w=0, and what is promised is the scenario's to say: leave w=0 out of the address, and \
         write `write_concern: {{w: 0}}` in the scenario if nothing is to be promised"
    )]
    NoPromise,
    /// Its certificate names its address, not that of a proxy.
    #[error(
        "faults: the network to a server with TLS cannot be disturbed, for its certificate names another address; try without TLS"
    )]
    NoWay,
}
