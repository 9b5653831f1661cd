//! What is promised when an owner dies, tried with owners that are killed.

#[cfg(test)]
mod owner;
