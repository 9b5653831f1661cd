//! TLS settings, built once and shared by every connection.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The public authorities of Mozilla's list.
    PublicRoots,
    /// The authorities in these PEM bytes, and no other.
    Authorities(Vec<u8>),
    /// Anybody's, also expired or for another host: encrypted, but who answers is not checked.
    Anyone,
}

/// How to speak TLS with a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: Option<String>,
}

impl Tls {
    /// Prepares TLS 1.2 and 1.3 with the given trust.
    ///
    /// # Errors
    /// [`Error::TlsSettings`] if the PEM bytes hold no usable certificate.
    pub fn new(trust: &Trust) -> Result<Tls, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| settings(&error))?;
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

    /// Expects the certificate (and asks by SNI) for this name rather than the address's host.
    #[must_use]
    pub fn expecting(self, server_name: impl Into<String>) -> Tls {
        Tls { server_name: Some(server_name.into()), ..self }
    }

    /// The name to ask for and to expect.
    pub(crate) fn name_for(&self, host: &str) -> Result<ServerName<'static>, Error> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| settings(&format!("{name:?} is no name of a server")))
    }
}

fn settings(detail: &impl ToString) -> Error {
    Error::TlsSettings { detail: detail.to_string() }
}

fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| settings(&error))?;
        store.add(certificate).map_err(|error| settings(&error))?;
    }
    if store.is_empty() { Err(settings(&"the PEM bytes hold no certificate")) } else { Ok(store) }
}

/// Believes any certificate, but still checks that the peer holds its key.
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
    fn settings_that_hold_no_certificate_are_refused_with_the_mend() {
        for pem in [b"".as_slice(), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = Tls::new(&Trust::Authorities(pem.to_vec())).unwrap_err();
            assert!(error.to_string().contains("PEM"), "{error}");
        }
        assert!(Tls::new(&Trust::PublicRoots).is_ok());
        assert!(Tls::new(&Trust::Anyone).is_ok());
    }
}
