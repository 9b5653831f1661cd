//! Loads the certificate and the private key of TLS.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

/// The files of the certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain as PEM, the server's certificate first.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// The files are unusable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, or lacks the expected contents.
    #[error("{path:?} contains no {expected} as PEM ({why}): name the right file under `tls`")]
    File {
        /// The file.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
        /// The reason.
        why: String,
    },
    /// Certificate and key do not match.
    #[error("the certificate and the key do not match ({0}): give the key of this certificate")]
    Pair(#[from] rustls::Error),
}

impl Tls {
    /// Reads both files, relative to `base`. ALPN offers HTTP/2 before HTTP/1.1.
    ///
    /// # Errors
    /// [`Error`], with the file at fault.
    pub fn load(&self, base: &Path) -> Result<Arc<ServerConfig>, Error> {
        let (certificate, key) = (base.join(&self.certificate), base.join(&self.key));
        let chain: Vec<_> = CertificateDer::pem_file_iter(&certificate)
            .and_then(Iterator::collect)
            .map_err(|error| fault(&certificate, "certificate", &error))?;
        if chain.is_empty() {
            return Err(fault(&certificate, "certificate", &pem::Error::NoItemsFound));
        }
        let secret =
            PrivateKeyDer::from_pem_file(&key).map_err(|error| fault(&key, "private key", &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_single_cert(chain, secret)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn fault(path: &Path, expected: &'static str, error: &pem::Error) -> Error {
    let why = match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            "the file does not exist".to_owned()
        }
        other => other.to_string(),
    };
    Error::File { path: path.to_owned(), expected, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate for localhost and its key in `directory`.
    fn pair(directory: &Path) -> Tls {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Tls { certificate: "cert.pem".into(), key: "key.pem".into() }
    }

    #[test]
    fn a_matching_pair_offers_http_2_first() {
        let directory = tempfile::tempdir().unwrap();
        let config = pair(directory.path()).load(directory.path()).unwrap();
        assert_eq!(config.alpn_protocols[0], b"h2");
    }

    #[test]
    fn a_missing_wrong_or_mismatched_file_is_named() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tls = pair(one.path());
        pair(other.path());
        let check = |tls: Tls, part: &str| {
            let message = tls.load(one.path()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        };
        check(Tls { key: "none.pem".into(), ..tls.clone() }, "none.pem\" contains no private key");
        check(Tls { certificate: "key.pem".into(), ..tls.clone() }, "contains no certificate");
        check(Tls { key: other.path().join("key.pem"), ..tls }, "do not match");
    }
}
