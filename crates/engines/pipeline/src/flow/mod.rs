//! What is on its way: how much may be ([`Budget`]), and in which order it must be settled ([`Lane`]).

mod budget;
mod lane;
mod lanes;
mod ticket;

pub use budget::{Budget, Limits, Space};
pub use lane::Lane;
pub use lanes::Lanes;
pub use ticket::Ticket;
