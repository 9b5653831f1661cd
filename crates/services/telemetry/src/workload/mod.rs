//! Generates readings of sensors and trucks from a seed, and fills databases with them.
//!
//! * [`Sensors`]: identical sensors, each with a reading at every interval; [`preload`] fills a database with them.
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
