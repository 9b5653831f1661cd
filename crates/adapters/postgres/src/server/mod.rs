//! Installs and runs a real PostgreSQL server for tests and trials, on the loopback address.
//!
//! The server is a child process that ends with this process. All functions block.

pub use install::{InstallError, Step, VERSION, install, is_installed};
pub use plimsoll_process::home::Storage;
pub use running::{Server, Settings, StartError};

mod install;
mod running;
