//! Identifies the sender of a request.

use serde::{Deserialize, Serialize};

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An anonymous caller.
    Anonymous,
    /// A user.
    User(User),
}

/// A user who has logged in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The key of the user.
    pub id: String,
    /// The name.
    pub username: String,
    /// The e-mail address.
    pub email: String,
    /// The groups, from the account or the issuer of the token; never from a query or a body.
    pub groups: Vec<String>,
    /// The way of the login.
    pub strategy: Strategy,
}

/// The way in which a user has logged in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// With an account of the catalogue.
    #[default]
    Local,
    /// At an issuer of OpenID Connect.
    Oidc,
}

impl Caller {
    /// The user, if any.
    pub fn user(&self) -> Option<&User> {
        match self {
            Self::Anonymous => None,
            Self::User(user) => Some(user),
        }
    }

    /// Whether the caller is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.user().is_some_and(|user| user.groups.iter().any(|own| own == group))
    }
}
