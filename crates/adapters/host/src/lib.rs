//! Finds, installs, starts, probes, disturbs and stops MongoDB servers; provides the null server, the faulty
//! server, simulated replica sets and sharded clusters, and the machine's facts.
//!
//! All functions except [`probe`]'s block. The crate must not know loads or scenarios.

pub use home::{Storage, sweep};
pub use launch_spec::Profile;
pub use local::Server;
pub use plimsoll_install::{Cache, NoCacheDirectory};
pub use plimsoll_process::Ending;
pub use power::PowerLoss;
pub use snapshots::Snapshots;

pub mod embedded;
pub mod mongod;

pub mod registry;

pub mod probe;

pub mod faulty;
pub mod null;
pub mod replica_set;
pub mod scripted;
pub mod sharded;
pub mod socks;

pub mod fault;
pub mod power;
pub mod proxy;

pub mod machine;
pub mod process;

pub mod service;

mod home;
mod launch_spec;
mod local;
mod serve;
mod snapshots;
