//! Verifies the signatures of events.
//!
//! The signed bytes are the key's length (four bytes, little-endian, zero without a key), the key, and the payload. If a
//! header holds the principal, three parts come first: four bytes of 255 (a length that no key has), the length of the
//! header's value, and the value. The signature is in its own header, in hexadecimal.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::{hmac, signature};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Batch, Event};
use crate::port::transform::TransformError;

/// Bytes of a key file at most.
const KEY_BYTES_MAX: u64 = 4096;
/// Bytes of an HMAC key at least: shorter keys can be guessed.
const HMAC_KEY_BYTES_MIN: usize = 16;
/// The mark before the principal: a length that no key has.
const PRINCIPAL: [u8; 4] = [0xff; 4];
/// Bytes of an Ed25519 public key.
const ED25519_KEY_BYTES: usize = 32;

/// The `signature` section of a pipeline file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Keys", into = "Keys")]
pub struct SignatureSettings {
    /// The header that holds the signature.
    pub header: String,
    /// The algorithm and its key.
    pub algorithm: Algorithm,
}

/// The keys of the section as a file writes them. A flattened enum would lose the place of every error in the
/// file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// The header that holds the signature.
    #[serde(default = "default_header")]
    header: String,
    /// The file with the raw shared secret of HMAC with SHA-256. Exactly one of `hmac_sha256` and `ed25519` is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hmac_sha256: Option<PathBuf>,
    /// The file with the 32 bytes of the public key of Ed25519.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ed25519: Option<PathBuf>,
}

fn default_header() -> String {
    "signature".into()
}

impl TryFrom<Keys> for SignatureSettings {
    type Error = &'static str;

    fn try_from(Keys { header, hmac_sha256, ed25519 }: Keys) -> Result<Self, Self::Error> {
        let algorithm = match (hmac_sha256, ed25519) {
            (Some(file), None) => Algorithm::HmacSha256(file),
            (None, Some(file)) => Algorithm::Ed25519(file),
            _ => return Err("write exactly one of `hmac_sha256` and `ed25519`, with the file of the key"),
        };
        Ok(Self { header, algorithm })
    }
}

impl From<SignatureSettings> for Keys {
    fn from(SignatureSettings { header, algorithm }: SignatureSettings) -> Self {
        let (hmac_sha256, ed25519) = match algorithm {
            Algorithm::HmacSha256(file) => (Some(file), None),
            Algorithm::Ed25519(file) => (None, Some(file)),
        };
        Self { header, hmac_sha256, ed25519 }
    }
}

/// An algorithm and the file of its key.
#[derive(Clone, Debug)]
pub enum Algorithm {
    /// HMAC with SHA-256. The file holds the raw shared secret.
    HmacSha256(PathBuf),
    /// Ed25519. The file holds the 32 bytes of the public key.
    Ed25519(PathBuf),
}

/// Verifies signatures.
#[derive(Clone)]
pub struct Verifier {
    header: String,
    key: Key,
}

#[derive(Clone)]
enum Key {
    Hmac(Arc<hmac::Key>),
    Ed25519(Arc<[u8]>),
}

impl Verifier {
    /// Reads the key.
    ///
    /// # Errors
    ///
    /// If the file is missing, or holds no key of the algorithm.
    pub fn build(settings: SignatureSettings) -> Result<Self, TransformError> {
        let key = match &settings.algorithm {
            Algorithm::HmacSha256(file) => {
                let secret = read(file)?;
                if secret.len() < HMAC_KEY_BYTES_MIN {
                    let words = format!(
                        "{}: an HMAC secret must have at least {HMAC_KEY_BYTES_MIN} bytes",
                        file.display()
                    );
                    return Err(TransformError::Refused(words));
                }
                Key::Hmac(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
            }
            Algorithm::Ed25519(file) => {
                let key = read(file)?;
                if key.len() != ED25519_KEY_BYTES {
                    let words = format!(
                        "{}: a public key of Ed25519 must have {ED25519_KEY_BYTES} bytes, not {}",
                        file.display(),
                        key.len()
                    );
                    return Err(TransformError::Refused(words));
                }
                Key::Ed25519(key.into())
            }
        };
        Ok(Self { header: settings.header, key })
    }

    /// Verifies the signature of an event. `principal` is the header of its principal.
    pub(super) fn verify(&self, batch: &Batch, event: &Event, principal: Option<&str>) -> Result<(), String> {
        let Some(Some(text)) = batch.headers(event).get(&self.header) else {
            return Err(format!("the header `{}`, which holds the signature, is missing", self.header));
        };
        let Some(given) = unhex(text) else {
            return Err(format!("the signature in `{}` is not hexadecimal", self.header));
        };
        let signed = signed(batch, event, principal);
        let right = match &self.key {
            Key::Hmac(key) => hmac::verify(key, &signed, &given),
            Key::Ed25519(key) => {
                signature::UnparsedPublicKey::new(&signature::ED25519, key).verify(&signed, &given)
            }
        };
        right.map_err(|_| "the signature is wrong".into())
    }
}

/// The signed bytes of an event.
fn signed(batch: &Batch, event: &Event, principal: Option<&str>) -> Vec<u8> {
    let (key, payload) = (batch.key(event).unwrap_or_default(), batch.payload(event).unwrap_or_default());
    let mut signed = Vec::with_capacity(4 + key.len() + payload.len());
    if let Some(header) = principal {
        let name = batch.headers(event).get(header).flatten().unwrap_or_default();
        signed.extend_from_slice(&PRINCIPAL);
        signed.extend_from_slice(&(name.len() as u32).to_le_bytes());
        signed.extend_from_slice(name);
    }
    signed.extend_from_slice(&(key.len() as u32).to_le_bytes());
    signed.extend_from_slice(key);
    signed.extend_from_slice(payload);
    signed
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect())?
}

fn read(file: &Path) -> Result<Vec<u8>, TransformError> {
    let refuse = |reason: String| {
        TransformError::Refused(format!("the key {} cannot be read: {reason}", file.display()))
    };
    let bytes = fs::metadata(file).map_err(|error| refuse(error.to_string()))?.len();
    if bytes > KEY_BYTES_MAX {
        return Err(refuse(format!("it has {bytes} bytes, and a key may have at most {KEY_BYTES_MAX}")));
    }
    fs::read(file).map_err(|error| refuse(error.to_string()))
}

#[cfg(test)]
mod tests {
    use ring::signature::KeyPair as _;

    use super::*;
    use crate::event::{CauseClass, Record};
    use crate::port::transform::Transform as _;
    use crate::position::Partition;
    use crate::security::{Otherwise, Principal, Security, SecuritySettings};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Three events: a signed one, one with the signature of the first, and an unsigned one.
    fn two(sign: impl Fn(&[u8]) -> Vec<u8>) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 0));
        for (offset, payload) in [b"paid: 10", b"paid: 99"].into_iter().enumerate() {
            let record = Record {
                offset: offset as u64,
                key: Some(b"k"),
                payload: Some(payload),
                ..Record::default()
            };
            let signature = hex(&sign(b"\x01\0\0\0kpaid: 10"));
            batch.push_with(record, [("signature", Some(signature.as_bytes()))]);
        }
        batch.push(Record { offset: 2, payload: Some(b"unsigned"), ..Record::default() });
        batch
    }

    fn check(algorithm: Algorithm, sign: impl Fn(&[u8]) -> Vec<u8>) {
        let settings = SecuritySettings {
            principal: Principal::Nobody,
            rules: Vec::new(),
            otherwise: Otherwise::Allow,
            signature: Some(SignatureSettings { header: "signature".into(), algorithm }),
        };
        let mut batch = two(sign);
        Security::build(settings).unwrap().apply(&mut batch).unwrap();
        assert_eq!(batch.events().iter().map(|event| event.offset).collect::<Vec<_>>(), [0]);
        let causes: Vec<_> = batch.rejected().iter().map(|one| (one.event.offset, one.cause.class)).collect();
        assert_eq!(causes, [(1, CauseClass::Denied), (2, CauseClass::Denied)]);
    }

    #[test]
    fn only_signed_events_are_admitted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        fs::write(&file, [7; 32]).unwrap();
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        check(Algorithm::HmacSha256(file.clone()), |signed| hmac::sign(&secret, signed).as_ref().to_vec());
        let pair = signature::Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
        fs::write(&file, pair.public_key().as_ref()).unwrap();
        check(Algorithm::Ed25519(file), |signed| pair.sign(signed).as_ref().to_vec());
    }

    #[test]
    fn the_signature_covers_the_principal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        fs::write(&file, [7; 32]).unwrap();
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        let signature = |signed: &[u8]| hex(hmac::sign(&secret, signed).as_ref());
        let named = signature(b"\xff\xff\xff\xff\x05\0\0\0alice\x01\0\0\0kpaid: 10");
        let unnamed = signature(b"\x01\0\0\0kpaid: 10");
        let mut batch = Batch::new(Partition::new("t", 0));
        for (offset, who, signature) in [(0, "alice", &named), (1, "mallory", &named), (2, "alice", &unnamed)]
        {
            let record = Record { offset, key: Some(b"k"), payload: Some(b"paid: 10"), ..Record::default() };
            let headers = [("who", Some(who.as_bytes())), ("signature", Some(signature.as_bytes()))];
            batch.push_with(record, headers);
        }
        let algorithm = Algorithm::HmacSha256(file);
        let settings = SecuritySettings {
            principal: Principal::Header("who".into()),
            rules: Vec::new(),
            otherwise: Otherwise::Allow,
            signature: Some(SignatureSettings { header: "signature".into(), algorithm }),
        };
        Security::build(settings).unwrap().apply(&mut batch).unwrap();
        assert_eq!(batch.events().iter().map(|event| event.offset).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn invalid_keys_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let build = |algorithm| Verifier::build(SignatureSettings { header: "s".into(), algorithm });
        assert!(build(Algorithm::HmacSha256(file.clone())).is_err(), "no file");
        fs::write(&file, [7; 8]).unwrap();
        assert!(build(Algorithm::HmacSha256(file.clone())).is_err(), "too short");
        assert!(build(Algorithm::Ed25519(file)).is_err(), "not 32 bytes");
    }
}
