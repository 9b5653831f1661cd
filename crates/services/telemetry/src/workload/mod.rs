//! Fills the database of the service with earlier data, generated from a seed.
//!
//! [`Sensors`]: identical sensors, each with a reading at every interval; [`preload`] fills a database with them; [`fill`] adds
//! feeds.

pub use fill::{Error as FillError, Fill, fill};
pub use preload::{Preload, PreloadError, Progress, preload};
pub use sensors::Sensors;

mod fill;
mod preload;
mod sensors;

mod random;
