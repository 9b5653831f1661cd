//! Holds a user's credential and caches the key derived from the password.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::mechanism::Mechanism;

/// The user's proof of identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// SCRAM with a password; `None` selects the strongest mechanism that the server reports for the user.
    Scram(Option<Mechanism>),
    /// PLAIN: the password itself, as LDAP servers need it. Only TLS protects it.
    Plain,
    /// MONGODB-X509: the certificate of the TLS client. The user may be empty: the server then takes the certificate's subject.
    Certificate,
}

/// A user with a password. Clones share the derived key, so that many connections derive it only once (some milliseconds of
/// CPU).
#[derive(Clone)]
pub struct Credential {
    /// The user's name.
    pub user: String,
    /// The password as typed.
    pub password: String,
    /// The database that holds the user (`authSource`), usually `admin`.
    pub source: String,
    /// The proof (`authMechanism`).
    pub proof: Proof,
    derived: Arc<Mutex<Option<Derived>>>,
}

/// The inputs of a key derivation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyInput {
    pub(crate) mechanism: Mechanism,
    /// The result of [`Mechanism::prepare`].
    pub(crate) prepared: String,
    pub(crate) salt: Vec<u8>,
    pub(crate) iterations: u32,
}

struct Derived {
    input: KeyInput,
    key: Vec<u8>,
}

impl Credential {
    /// A user of the database `source`, with the strongest mechanism.
    pub fn new(user: impl Into<String>, password: impl Into<String>, source: impl Into<String>) -> Self {
        Credential {
            user: user.into(),
            password: password.into(),
            source: source.into(),
            proof: Proof::Scram(None),
            derived: Arc::default(),
        }
    }

    /// The salted password, from the cache or from `derive`.
    pub(crate) fn salted(&self, input: KeyInput, derive: impl FnOnce(&KeyInput) -> Vec<u8>) -> Vec<u8> {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = derived.as_ref().filter(|known| known.input == input) {
            return known.key.clone();
        }
        let key = derive(&input);
        *derived = Some(Derived { input, key: key.clone() });
        key
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .field("source", &self.source)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_never_shows_its_password() {
        assert!(!format!("{:?}", Credential::new("ann", "secret", "admin")).contains("secret"));
    }

    #[test]
    fn clones_share_the_derived_key_until_salt_or_mechanism_changes() {
        let credential = Credential::new("ann", "secret", "admin");
        let clone = credential.clone();
        let input = |mechanism, salt: &[u8]| KeyInput {
            mechanism,
            prepared: "secret".into(),
            salt: salt.to_vec(),
            iterations: 4096,
        };
        let [salt, other, old] = [
            input(Mechanism::ScramSha256, b"salt"),
            input(Mechanism::ScramSha256, b"other"),
            input(Mechanism::ScramSha1, b"other"),
        ];
        assert_eq!(credential.salted(salt.clone(), |_| vec![1]), [1]);
        assert_eq!(clone.salted(salt, |_| vec![2]), [1]);
        assert_eq!(clone.salted(other, |_| vec![3]), [3]);
        assert_eq!(credential.salted(old, |_| vec![4]), [4]);
    }
}
