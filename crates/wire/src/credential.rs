//! Who connects: user, password, and the database that knows the user.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A user of SCRAM-SHA-256. Clones share what was derived from the password, so that many connections pay the key
/// derivation (some milliseconds of CPU) once.
#[derive(Clone)]
pub struct Credential {
    /// The user's name.
    pub user: String,
    /// The password, as typed.
    pub password: String,
    /// The database that knows the user (`authSource`), usually `admin`.
    pub source: String,
    derived: Arc<Mutex<Option<Derived>>>,
}

#[derive(Clone)]
struct Derived {
    password: String,
    salt: Vec<u8>,
    iterations: u32,
    key: [u8; 32],
}

impl Credential {
    /// A user of the database `source`.
    pub fn new(user: impl Into<String>, password: impl Into<String>, source: impl Into<String>) -> Self {
        Credential {
            user: user.into(),
            password: password.into(),
            source: source.into(),
            derived: Arc::default(),
        }
    }

    /// The salted password for a salt and an iteration count: derived by `derive`, or from when it was last.
    pub(crate) fn salted(&self, salt: &[u8], iterations: u32, derive: impl FnOnce() -> [u8; 32]) -> [u8; 32] {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |known: &&Derived| {
            known.salt == salt && known.iterations == iterations && known.password == self.password
        };
        if let Some(known) = derived.as_ref().filter(fits) {
            return known.key;
        }
        let key = derive();
        *derived = Some(Derived { password: self.password.clone(), salt: salt.to_vec(), iterations, key });
        key
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .field("source", &self.source)
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
    fn clones_share_what_was_derived_until_the_salt_changes() {
        let credential = Credential::new("ann", "secret", "admin");
        let clone = credential.clone();
        assert_eq!(credential.salted(b"salt", 4096, || [1; 32]), [1; 32]);
        assert_eq!(clone.salted(b"salt", 4096, || [2; 32]), [1; 32]);
        assert_eq!(clone.salted(b"other", 4096, || [3; 32]), [3; 32]);
    }
}
