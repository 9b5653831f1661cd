//! Compiles and runs programs of the jq language within bounds of steps, stack and text.

mod program;

mod bounds;
mod compile;
mod value;

pub use bounds::{Bounds, STEPS_MAX, is_json, is_larger, written};
pub use program::{Error, Program};
pub use value::{from_json, parse, to_json};
