//! Sensors and trucks that make readings from a seed, for whoever loads or fills the service.
//!
//! * [`Sensors`]: many alike, each with a reading at every interval; [`preload`] fills a database with them.
//! * [`Iot`]: trucks whose readings come late, out of order, repeated, or not at all.

pub use fill::{Error as FillError, Fill, fill};
pub use iot::{Iot, Truck};
pub use preload::{Preload, PreloadError, Progress, preload};
pub use sensors::Sensors;

mod fill;
mod iot;
mod preload;
mod sensors;

mod random;
