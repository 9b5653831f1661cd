//! Finds, installs, starts, probes, hurts and stops MongoDB servers; holds the null server, the lying server and the
//! machine's facts.
//!
//! Everything but [`probe`] blocks: call it on a thread that may wait. It must never learn what a load or a scenario is.

pub use home::{Storage, sweep};
pub use local::{Ending, Profile, Server};
pub use plimsoll_install::{Cache, NoPlace};

pub mod embedded;
pub mod mongod;

pub mod registry;

pub mod probe;

pub mod lying;
pub mod null;
pub mod scripted;

pub mod fault;
pub mod proxy;

pub mod machine;
pub mod process;

pub mod home;
pub mod local;
pub mod service;

mod recipe;
mod serve;
