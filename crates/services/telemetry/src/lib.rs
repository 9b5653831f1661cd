//! Serves telemetry readings and activity feeds over HTTP, stored in MongoDB.
//!
//! It knows only `plimsoll-service`: the measured system shares no code with the measuring tool.
//!
//! * [`reading`]: parses and checks one reading of a sensor.
//! * [`readings`]: stores readings in MongoDB: group commits, statistics, ranges, the latest.
//! * [`feeds`]: stores activity feeds in MongoDB, in three designs.
//! * [`Plan`]: the server's query plan for a command.
//! * [`api`]: the HTTP endpoints; [`settings`]: the settings file; [`serve`]: starts the service.
//! * [`workload`]: sensors that generate readings from a seed, and the fill of a database.

pub mod reading;
pub mod readings;

pub mod feeds;

mod plan;
pub use plan::Plan;

pub mod api;
pub mod scopes;
pub mod serve;
pub mod settings;

pub mod workload;
