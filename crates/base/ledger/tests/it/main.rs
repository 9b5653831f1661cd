//! Tests whole histories through the public interface.

mod audit;
mod crash;
mod dice;
mod unseen;
