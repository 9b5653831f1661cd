//! TLS settings, built once and shared by every connection.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::scenario::Protocol;
use crate::setup::Error;

/// How to speak TLS with a service. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub config: Arc<ClientConfig>,
}

/// Protocols that are offered in the handshake (ALPN).
pub(crate) const fn offered(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 => b"http/1.1",
        Protocol::Http2 => b"h2",
    }
}

impl Tls {
    /// Prepares TLS 1.2 and 1.3: who is believed are the authorities in `pem`, the public ones, or anybody.
    pub(crate) fn new(pem: Option<&[u8]>, insecure: bool, protocol: Protocol) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?;
        let mut config = if insecure {
            let unchecked = Arc::new(Unchecked { provider });
            builder.dangerous().with_custom_certificate_verifier(unchecked).with_no_client_auth()
        } else {
            builder.with_root_certificates(roots(pem)?).with_no_client_auth()
        };
        config.alpn_protocols = vec![offered(protocol).to_vec()];
        Ok(Self { config: Arc::new(config) })
    }
}

fn roots(pem: Option<&[u8]>) -> Result<RootCertStore, Error> {
    let Some(pem) = pem else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| Error::Tls(error.to_string()))?;
        store.add(certificate).map_err(|error| Error::Tls(error.to_string()))?;
    }
    if store.is_empty() { Err(Error::Tls("the file holds no certificate".into())) } else { Ok(store) }
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
            let error = Tls::new(Some(pem), false, Protocol::Http1).unwrap_err();
            assert!(error.to_string().contains("PEM"), "{error}");
        }
        assert!(
            Tls::new(None, false, Protocol::Http2).is_ok() && Tls::new(None, true, Protocol::Http1).is_ok()
        );
    }
}
