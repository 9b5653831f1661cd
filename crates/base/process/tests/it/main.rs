//! What is promised when an owner dies, tried with owners that are killed.

#[cfg(test)]
mod asked;
#[cfg(test)]
mod owner;
