//! Installs and runs a real broker for tests and trials: one node on the loopback address, with bounded memory.
//!
//! The broker is a child process that ends with this process. All functions block.

pub use error::StartError;
pub use home::Storage;
pub use install::{InstallError, Jars, Progress, Step, VERSION, directory, install, is_installed};
pub use running::Broker;
pub use settings::{HEAP_BYTES_MIN, Settings};

mod install;
mod running;
mod settings;

mod error;
mod home;
mod java;
