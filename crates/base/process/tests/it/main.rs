//! Tests the promises after an owner's death, with killed owners.

#[cfg(test)]
mod interrupted;
#[cfg(test)]
mod owner;
