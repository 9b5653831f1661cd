//! Provides built-in transforms, without outside dependencies.

mod count;
mod envelope;
mod error;
mod expression;
mod extended;
mod filter;
mod input;
mod map;
mod sample;
mod unmatched;

pub use count::{Count, CountSettings};
pub use envelope::{Decode, Encode, EnvelopeError};
pub use error::ExpressionError;
pub use expression::Expression;
pub use extended::ConversionError;
pub use filter::{Filter, FilterSettings};
pub use input::Encoding;
pub use map::{Map, MapSettings};
pub use sample::{Sample, SampleSettings};
pub use unmatched::Unmatched;
