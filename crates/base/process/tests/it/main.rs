//! Tests the promises after an owner's death, with killed owners.

#[cfg(test)]
mod asked;
#[cfg(test)]
mod owner;
