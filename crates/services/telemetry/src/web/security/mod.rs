//! Who calls, and what they may do.

pub mod scope;

mod caller;
mod crypto;
mod guard;
mod token;

pub use caller::Caller;
pub use guard::{Error, Guard, Unknown};
