//! Runs instances: a pure core decides about every piece of work, and a thin shell does the work.
//!
//! The core is only a copy of the store's state. It may be dropped at any moment: a new core finds all work
//! in the store.

mod client;
mod core;
mod drive;

mod job;
mod lease;
mod left;
mod mailbox;
mod perform;
mod registry;
mod schedule;
mod settings;
mod slot;
mod watch;

pub use client::{Client, ClientError, Groups};
pub use core::Core;
pub use drive::{Worker, drive};
pub use job::{Change, Finished, Happened, Hint, Job, Tag};
pub use mailbox::Mailbox;
pub use perform::perform;
pub use registry::Registry;
pub use settings::Settings;
pub use watch::Watchers;
