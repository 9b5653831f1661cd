//! Checks the settings of an HTTP service and reads the files they name.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use serde::de::DeserializeOwned;

use crate::cors::Cors;
use crate::limits::Limits;
use crate::redact;
use crate::security::config::Security;
use crate::security::{self, Authenticator, Scope};
use crate::tls::{self, Tls};

/// The checked settings of an HTTP service, with every file read.
pub struct Http {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The limits.
    pub limits: Limits,
    /// Checks callers; without it everyone may do everything.
    pub authenticator: Option<Authenticator>,
    /// TLS; plain HTTP if absent.
    pub tls: Option<Arc<ServerConfig>>,
    /// The origins whose pages may use the service.
    pub cors: Cors,
}

/// Invalid settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text does not parse.
    #[error("the settings cannot be read: {0}")]
    Text(String),
    /// A section is invalid.
    #[error("{section}: {why}")]
    Section {
        /// The section.
        section: &'static str,
        /// The fault and its remedy.
        why: String,
    },
    /// The service would be open to the network.
    #[error(
        "{0} is not a loopback address, and without `security` everyone who reaches it may write and read everything: \
         add `security` with keys or jwt to the settings, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The section `security` is invalid.
    #[error(transparent)]
    Security(#[from] security::Error),
    /// The section `tls` is invalid.
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

impl Http {
    /// Checks the sections. Files are relative to `base`; `scopes` are those of the service. A service without scopes identifies
    /// callers itself, so it may be open to the network.
    ///
    /// # Errors
    /// [`Error`].
    pub fn build(
        listen: SocketAddr,
        limits: Limits,
        security: Option<&Security>,
        tls: Option<&Tls>,
        base: &Path,
        scopes: &'static [Scope],
    ) -> Result<Self, Error> {
        check("limits", limits.fault())?;
        if security.is_none() && !scopes.is_empty() && !listen.ip().is_loopback() {
            return Err(Error::Open(listen));
        }
        let authenticator =
            security.map(|security| Authenticator::build(security, base, scopes)).transpose()?;
        let tls = tls.map(|tls| tls.load(base)).transpose()?;
        Ok(Self { listen, limits, authenticator, tls, cors: Cors::default() })
    }
}

impl Http {
    /// Lets the pages of some origins use the service.
    ///
    /// # Errors
    /// [`Error::Section`] if an origin is invalid.
    pub fn with_cors(self, cors: Cors) -> Result<Self, Error> {
        check("cors", cors.fault())?;
        Ok(Self { cors, ..self })
    }
}

/// Parses settings from YAML; an empty text gives the defaults.
///
/// # Errors
/// [`Error::Text`] with the line and the key, without secrets.
pub fn read<T: DeserializeOwned + Default>(text: &str) -> Result<T, Error> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(T::default());
    }
    // A quoted line of the file would help, but may contain a password.
    plimsoll_yaml::value(text).map_err(|slip| {
        let key = slip.key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default();
        let said = format!("{}{key}{}", slip.prefix(), slip.fault.without_texts());
        Error::Text(redact::message(&said))
    })
}

/// Turns the fault of a section into an error.
///
/// # Errors
/// [`Error::Section`] if there is a fault.
pub fn check(section: &'static str, fault: Option<String>) -> Result<(), Error> {
    fault.map_or(Ok(()), |why| Err(Error::Section { section, why }))
}
