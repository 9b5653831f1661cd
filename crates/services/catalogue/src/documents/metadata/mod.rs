//! Stores scientific metadata: encodes keys, and adds values in SI units.

pub mod key;
pub mod units;
