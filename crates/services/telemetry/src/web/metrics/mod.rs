//! What the service counts of itself, and the page that tells it to Prometheus.

pub use endpoint::Meter;
pub use page::Page;
pub use pool::Pool;

mod endpoint;
mod histogram;
mod page;
mod pool;
