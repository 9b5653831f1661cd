//! Builds TLS client settings, once for all connections.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The trusted certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The public authorities of Mozilla's list.
    PublicRoots,
    /// Only the authorities in these PEM bytes.
    Authorities(Vec<u8>),
    /// Any certificate, also expired or for another host: traffic is encrypted, but the server is not authenticated.
    Anyone,
}

/// Invalid TLS settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The TLS settings of a client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl Tls {
    /// Prepares TLS 1.2 and 1.3 with the given trust.
    ///
    /// # Errors
    /// The PEM bytes hold no usable certificate.
    pub fn new(trust: &Trust) -> Result<Tls, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?;
        let config = match trust {
            Trust::PublicRoots => builder.with_root_certificates(public_roots()).with_no_client_auth(),
            Trust::Authorities(pem) => {
                builder.with_root_certificates(authorities(pem)?).with_no_client_auth()
            }
            Trust::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked { provider }))
                .with_no_client_auth(),
        };
        Ok(Tls { config: Arc::new(config), server_name: None })
    }

    /// Expects a certificate for this name instead of the host's, and sends it as SNI.
    #[must_use]
    pub fn expecting(self, server_name: impl Into<String>) -> Tls {
        Tls { server_name: Some(server_name.into()), ..self }
    }

    /// Offers one application protocol in the handshake (ALPN).
    #[must_use]
    pub fn offering(mut self, protocol: &[u8]) -> Tls {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.to_vec()];
        self
    }

    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// The name that the certificate must have.
    pub(crate) fn name_for(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| TlsError(format!("{name:?} is not a valid server name")))
    }
}

fn invalid(error: impl ToString) -> TlsError {
    TlsError(error.to_string())
}

fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        store.add(certificate.map_err(invalid)?).map_err(invalid)?;
    }
    if store.is_empty() {
        Err(TlsError("there is no certificate in the PEM bytes".into()))
    } else {
        Ok(store)
    }
}

/// Accepts any certificate, but still checks that the peer has its key.
#[derive(Debug)]
struct Unchecked {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_bytes_without_a_usable_certificate_are_refused() {
        for pem in [b"".as_slice(), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(Tls::new(&Trust::Authorities(pem.to_vec())).is_err());
        }
        assert!(Tls::new(&Trust::PublicRoots).is_ok());
        assert!(Tls::new(&Trust::Anyone).is_ok());
    }

    #[test]
    fn the_expected_name_replaces_the_host() {
        let tls = Tls::new(&Trust::Anyone).unwrap();
        assert_eq!(tls.name_for("::1").unwrap(), ServerName::try_from("::1").unwrap());
        assert!(tls.name_for("no name").is_err());
        let expected = ServerName::try_from("db.example").unwrap();
        assert_eq!(tls.expecting("db.example").name_for("no name").unwrap(), expected);
    }
}
