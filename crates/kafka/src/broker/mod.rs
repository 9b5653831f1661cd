//! A real broker for tests and trials: one node, on the loopback address, with memory that is bounded.
//!
//! It is a process of its own that ends with this one, however this one ends. Everything here blocks.

pub use home::Storage;
pub use install::{InstallError, Progress, Step, VERSION, install, is_installed};
pub use running::{Broker, StartError};
pub use settings::{HEAP_BYTES_MIN, Settings};

mod install;
mod running;
mod settings;

mod child;
mod home;
mod java;

use std::fs;
use std::path::Path;

/// The last lines of a log, for an error.
fn tail(log: &Path) -> String {
    const LINES: usize = 15;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(8 * 1024)..]);
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0 => "(it printed nothing)".to_owned(),
        count => lines[count.saturating_sub(LINES)..].join("\n"),
    }
}
