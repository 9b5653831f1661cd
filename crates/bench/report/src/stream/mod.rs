//! Renders a pipeline: a line each second, a summary at its end, and metrics for Prometheus.

mod line;
mod prometheus;
mod summary;

pub use line::{line, trouble};
pub use prometheus::{Labels, Scrape, exposition, reference};
pub use summary::{Ending, summary};
