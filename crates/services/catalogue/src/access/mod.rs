//! Decides whether a caller may read or change a dataset. It reads no database: groups come from the caller's token.

mod caller;
mod roles;
mod rules;

pub use caller::{Caller, Strategy, User};
pub use roles::Roles;
pub use rules::{Change, Owned, Rules};
