//! Makes and verifies token signatures with `ring`, the library that TLS uses.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Registers the verifier with the token library. A provider that the process chose before stays.
pub fn install() {
    PROVIDER.install_default().unwrap_or_default();
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    match algorithm {
        Algorithm::HS256 => Ok(Box::new(Secret(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())))),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if let (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) = (algorithm, key.kind()) {
        return Ok(Box::new(Rsa(RsaPublicKeyComponents { n: n.clone(), e: e.clone() })));
    }
    let bytes = key.try_get_as_bytes()?;
    let public = |of: &'static dyn VerificationAlgorithm| UnparsedPublicKey::new(of, bytes.to_vec());
    match algorithm {
        Algorithm::HS256 => Ok(Box::new(Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))),
        Algorithm::EdDSA => Ok(Box::new(Public(public(&ED25519), *algorithm))),
        Algorithm::ES256 => Ok(Box::new(Public(public(&ECDSA_P256_SHA256_FIXED), *algorithm))),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Secret(hmac::Key);

impl Verifier<Vec<u8>> for Secret {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| signature::Error::new())
    }
}

impl Signer<Vec<u8>> for Secret {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Secret {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Secret {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct Public(UnparsedPublicKey<Vec<u8>>, Algorithm);

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        self.0.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.1
    }
}

struct Rsa(RsaPublicKeyComponents<Vec<u8>>);

impl Verifier<Vec<u8>> for Rsa {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = self.0.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Rsa {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}
