//! Builds a pipeline from its file, runs it monitored, and audits its destination.

#[cfg(feature = "kafka")]
pub mod audit;
mod build;
mod completion;
mod conflicts;
#[cfg(feature = "kafka")]
pub mod demo;
pub mod dir;
mod drive;
#[cfg(test)]
mod guarantee_tests;
mod metrics;
pub mod missing;
mod next;
mod read;
mod recent;
pub mod replay;
mod retarget;
mod typed;
mod warnings;

pub use build::{Built, build};
pub use completion::End;
pub use dir::Dir;
pub use drive::{Outputs, drive};
pub use next::next;
pub use read::read;
pub use typed::{PipelineFile, SinkSection, SourceSection};
