//! A real broker for tests and trials: one node, on the loopback address, with memory that is bounded.
//!
//! It is a process of its own that ends with this one, however this one ends. Everything here blocks.

pub use home::Storage;
pub use install::{InstallError, Jars, Progress, Step, VERSION, directory, install, is_installed};
pub use running::{Broker, StartError};
pub use settings::{HEAP_BYTES_MIN, Settings};

mod install;
mod running;
mod settings;

mod home;
mod java;
