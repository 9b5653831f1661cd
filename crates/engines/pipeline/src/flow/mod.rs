//! Bounds the events in flight ([`Budget`]) and tracks which of them are settled ([`Assignment`]).

mod assignment;
mod assignments;
mod budget;
mod ticket;

pub use assignment::Assignment;
pub use assignments::Assignments;
pub use budget::{Budget, Limits, Space};
pub use ticket::Ticket;
