//! Identifies the sender of a request.

use std::net::IpAddr;
use std::sync::Arc;

use super::scope::Scopes;

/// The sender of a request, for rate limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// An address: the service has no security, or the request no valid key.
    Address(IpAddr),
    /// The holder of an API key, by its name.
    Key(Arc<str>),
    /// The subject of a token.
    Token(Arc<str>),
}

/// An authenticated caller and its permissions.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The caller.
    pub caller: Caller,
    /// Its permissions.
    pub scopes: Scopes,
}
