//! Counts requests, and writes the page that Prometheus reads.

pub use endpoint::EndpointMetrics;
pub use histogram::DurationHistogram;
pub use page::Page;

mod endpoint;
mod histogram;
mod page;
