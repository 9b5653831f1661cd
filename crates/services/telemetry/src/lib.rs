//! The telemetry and activity-feed service: readings and feeds over HTTP, kept in MongoDB.
//!
//! It knows no other crate of the workspace: what is measured shares no code with what measures it.
//!
//! * [`reading`]: one reading of a sensor, checked.
//! * [`readings`]: readings kept in MongoDB: ingest in group commits, statistics, ranges, the latest.
//! * [`feeds`]: activity feeds kept in MongoDB, in three designs.
//! * [`Plan`]: how the server carries out a command of either.
//! * [`web`]: both over HTTP; [`settings`]: what can be chosen; [`serve`]: from the start to the end.
//! * [`budget`]: memory, counted before it is used.
//! * [`workload`]: sensors and trucks that make readings from a seed.

pub mod reading;
pub mod readings;

pub mod feeds;

mod plan;
pub use plan::Plan;

pub mod serve;
pub mod settings;
pub mod web;

pub mod budget;
pub mod clock;

mod aside;
mod moment;

pub mod workload;
