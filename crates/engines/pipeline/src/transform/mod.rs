//! Transforms that need nothing from outside.

mod bounds;
mod count;
mod envelope;
mod expression;
mod extended;
mod filter;
mod input;
mod map;
mod program;
mod sample;

pub use count::{Count, CountSettings};
pub use envelope::{Decode, Encode, EnvelopeError};
pub use expression::{Encoding, Expression, ExpressionError};
pub use extended::Unmapped;
pub use filter::{Filter, FilterSettings};
pub use map::{Map, MapSettings};
pub use sample::{Sample, SampleSettings};
