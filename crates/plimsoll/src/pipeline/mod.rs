//! Pipelines: from a file to a running one that is seen.

#[cfg(feature = "kafka")]
pub mod audit;
mod build;
mod dir;
mod drive;
mod metrics;
mod process;
mod read;
mod typed;

pub use build::build;
pub use dir::Dir;
pub use drive::{Seen, drive};
pub use read::read;
pub use typed::PipelineFile;
