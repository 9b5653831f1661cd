//! Authenticates callers and checks their permissions.

pub mod config;
pub mod scope;

mod authenticator;
mod crypto;
mod issuer;
mod principal;
mod sessions;
mod token;

pub use authenticator::{Authenticator, Error, Unauthenticated};
pub use issuer::{IssuerKeys, Unverified};
pub use principal::{Caller, Principal};
pub use scope::{Scope, Scopes};
pub use sessions::Sessions;
