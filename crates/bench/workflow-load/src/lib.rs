//! Loads the workflow engine inside of this process: units of work, clients, and what they saw.

pub mod embedded;
pub mod load;
pub mod unit;

mod observed;
