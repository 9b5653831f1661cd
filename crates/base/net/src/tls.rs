//! Builds TLS client settings, once for all connections.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

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

/// The checks of a client in a TLS handshake, and its own certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The trusted certificate authorities.
    pub trust: Trust,
    /// Whether a trusted certificate for another host is accepted.
    pub any_host: bool,
    /// The client's certificate chain and its private key as PEM, for servers that ask for them.
    pub identity: Option<Vec<u8>>,
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
        Self::with(&TlsSettings { trust: trust.clone(), any_host: false, identity: None })
    }

    /// Prepares TLS 1.2 and 1.3.
    ///
    /// # Errors
    /// The PEM bytes hold no usable certificate, or no unencrypted private key.
    pub fn with(settings: &TlsSettings) -> Result<Tls, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?;
        let roots = match &settings.trust {
            Trust::PublicRoots => Some(public_roots()),
            Trust::Authorities(pem) => Some(authorities(pem)?),
            Trust::Anyone => None,
        };
        let verifier: Arc<dyn ServerCertVerifier> = match roots {
            None => Arc::new(Unchecked { provider }),
            Some(roots) => {
                let checked = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
                let checked = checked.build().map_err(invalid)?;
                if settings.any_host { Arc::new(AnyHost { checked }) } else { checked }
            }
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let config = match &settings.identity {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let key = PrivateKeyDer::from_pem_slice(pem)
                    .map_err(|_| TlsError("the client's PEM file has no unencrypted private key".into()))?;
                builder.with_client_auth_cert(chain(pem)?, key).map_err(invalid)?
            }
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

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(invalid)?;
    if chain.is_empty() {
        return Err(TlsError("the client's PEM file has no certificate".into()));
    }
    Ok(chain)
}

/// Checks a certificate as usual, but accepts the name of another host.
#[derive(Debug)]
struct AnyHost {
    checked: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The verifier compares the name last, so a certificate with only a wrong name has passed the other checks.
        match self.checked.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.checked.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.checked.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.checked.supported_verify_schemes()
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
