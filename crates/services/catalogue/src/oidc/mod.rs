//! Logs users in at an issuer of OpenID Connect: the authorization code flow with PKCE (RFC 7636), a state and a nonce.
//!
//! * [`Section`]: its settings; [`Provider`]: the issuer, with its endpoints and keys.
//! * [`Pending`]: a login that a browser has begun.

mod claims;
mod fault;
mod fetch;
mod pending;
mod provider;
mod section;
mod url;

pub use fault::Fault;
pub use pending::Pending;
pub use provider::{Now, Provider};
pub use section::Section;
