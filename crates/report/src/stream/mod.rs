//! A pipeline in words: a line a second, a summary at its end, and metrics for Prometheus.

mod line;
mod prometheus;
mod summary;

pub use line::line;
pub use prometheus::{Labels, exposition, reference};
pub use summary::summary;
