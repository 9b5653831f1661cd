//! Who connects: user, password, and the database that knows the user.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::mechanism::Mechanism;

/// A user with a password. Clones share what was derived from the password, so that many connections pay the key
/// derivation (some milliseconds of CPU) once.
#[derive(Clone)]
pub struct Credential {
    /// The user's name.
    pub user: String,
    /// The password, as typed.
    pub password: String,
    /// The database that knows the user (`authSource`), usually `admin`.
    pub source: String,
    /// How to prove the password (`authMechanism`); `None` takes the strongest that the server says the user has.
    pub mechanism: Option<Mechanism>,
    derived: Arc<Mutex<Option<Derived>>>,
}

/// All that a salted password depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) mechanism: Mechanism,
    /// The password as [`Mechanism::prepare`] has it.
    pub(crate) prepared: String,
    pub(crate) salt: Vec<u8>,
    pub(crate) iterations: u32,
}

struct Derived {
    recipe: Recipe,
    key: Vec<u8>,
}

impl Credential {
    /// A user of the database `source`, by whatever mechanism the user has.
    pub fn new(user: impl Into<String>, password: impl Into<String>, source: impl Into<String>) -> Self {
        Credential {
            user: user.into(),
            password: password.into(),
            source: source.into(),
            mechanism: None,
            derived: Arc::default(),
        }
    }

    /// The salted password: derived by `derive`, or from when it was last.
    pub(crate) fn salted(&self, recipe: Recipe, derive: impl FnOnce(&Recipe) -> Vec<u8>) -> Vec<u8> {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = derived.as_ref().filter(|known| known.recipe == recipe) {
            return known.key.clone();
        }
        let key = derive(&recipe);
        *derived = Some(Derived { recipe, key: key.clone() });
        key
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .field("source", &self.source)
            .field("mechanism", &self.mechanism)
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
    fn clones_share_what_was_derived_until_salt_or_mechanism_change() {
        let credential = Credential::new("ann", "secret", "admin");
        let clone = credential.clone();
        let recipe = |mechanism, salt: &[u8]| Recipe {
            mechanism,
            prepared: "secret".into(),
            salt: salt.to_vec(),
            iterations: 4096,
        };
        let [salt, other, old] = [
            recipe(Mechanism::ScramSha256, b"salt"),
            recipe(Mechanism::ScramSha256, b"other"),
            recipe(Mechanism::ScramSha1, b"other"),
        ];
        assert_eq!(credential.salted(salt.clone(), |_| vec![1]), [1]);
        assert_eq!(clone.salted(salt, |_| vec![2]), [1]);
        assert_eq!(clone.salted(other, |_| vec![3]), [3]);
        assert_eq!(credential.salted(old, |_| vec![4]), [4]);
    }
}
