//! Defines the failures of a login at the issuer.

/// A login fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The issuer does not answer, or does not answer as it should.
    #[error("the issuer failed: {0}")]
    Unreachable(String),
    /// The issuer or this catalogue refuses the login.
    #[error("{0}")]
    Refused(String),
    /// Too many logins are in progress.
    #[error("too many logins are in progress")]
    Busy,
}
