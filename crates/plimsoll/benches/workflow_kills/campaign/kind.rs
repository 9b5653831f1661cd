//! Lists the kinds of kills and the stores.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A kind of kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An engine is killed with -9.
    Engine,
    /// An engine is paused until others hold its partitions, and resumed.
    Zombie,
    /// The server of the store is killed with -9.
    Server,
    /// The network between the engines and the server is cut, reset or silent for a while.
    Network,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Engine, Self::Zombie, Self::Server, Self::Network];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Zombie => "zombie",
            Self::Server => "server",
            Self::Network => "network",
        }
    }
}

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The embedded MongoDB server, journaled.
    Mongodb,
    /// PostgreSQL.
    Postgres,
}

impl Backend {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mongodb, Self::Postgres];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mongodb => "mongodb",
            Self::Postgres => "postgres",
        }
    }
}
