//! Refuses whole numbers that would lose digits: a value without a type keeps a number of more than 64 bits as a double.

use plimsoll_yaml::{Fault, Slip};
use serde::de::DeserializeOwned;

/// The fault. It does not repeat the number, which may be a secret.
pub const OVERSIZE_NUMBER: &str = "a whole number has at most 64 bits: in a document, write {$numberDecimal: '…'} to keep all digits or \
     {$numberDouble: '…'} for the nearest double; write a text in quotes";

/// Reads a value that may hold untyped numbers.
///
/// # Errors
/// The first oversize number, or the first slip.
pub fn read_untyped<T: DeserializeOwned>(text: &str) -> Result<T, Slip> {
    oversize_number(text).map_or_else(|| plimsoll_yaml::value(text), Err)
}

/// The first oversize number in a text.
pub fn oversize_number(text: &str) -> Option<Slip> {
    let place = plimsoll_yaml::place_of_oversize_number(text)?;
    Some(Slip { fault: Fault::Said(OVERSIZE_NUMBER.to_owned()), place: Some(place), key: None })
}
