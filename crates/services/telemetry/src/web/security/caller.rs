//! Whoever sent a request.

use std::net::IpAddr;
use std::sync::Arc;

use super::scope::{Scope, Scopes};

/// Whoever sent a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// An address, where there is no security.
    Anyone(IpAddr),
    /// The holder of an API key, by its name.
    Key(Arc<str>),
    /// Whom a token stands for.
    Token(Arc<str>),
}

/// A caller and what it may do.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Who it is.
    pub caller: Caller,
    /// What it may do.
    pub scopes: Scopes,
}

impl Allowed {
    /// Whether it may do that.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }
}
