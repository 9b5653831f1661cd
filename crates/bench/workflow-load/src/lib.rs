//! Loads the workflow engine inside of this process: units of work, clients, and their samples.

pub mod embedded;
pub mod load;
pub mod service_kind;
pub mod unit;

mod observed;
