//! Tests whole histories through the public interface.

mod audit;
mod crash;
mod random;
mod unseen;
