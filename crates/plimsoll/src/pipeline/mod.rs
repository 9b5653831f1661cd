//! Pipelines: from a file to a running one that is seen, and what can be done with one besides.

#[cfg(feature = "kafka")]
pub mod audit;
mod build;
mod caution;
#[cfg(feature = "kafka")]
pub mod demo;
mod dir;
mod drive;
#[cfg(test)]
mod given;
mod metrics;
mod motion;
mod point;
mod process;
mod read;
mod recent;
pub mod replay;
mod typed;

pub use build::{Built, build};
pub use dir::Dir;
pub use drive::{Seen, drive};
pub use motion::End;
pub use read::read;
pub use typed::{PipelineFile, SinkSection, SourceSection};
