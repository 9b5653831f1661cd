//! Limits failed logins, so that passwords cannot be guessed: those of an address for one name, and all of an address.
//!
//! A stranger at another address cannot lock a user out.

use std::net::IpAddr;

use plimsoll_service::{Rate, RateLimiter};

/// The limit of an address, in limits of an address with one name: users behind a proxy share an address.
const NAMES: u32 = 10;

/// The failed logins.
#[derive(Debug)]
pub struct Guesses {
    of_name: RateLimiter,
    of_address: RateLimiter,
}

impl Guesses {
    /// A limit for each address with a name; ten times as much for each address.
    pub fn new(rate: Rate) -> Self {
        let all = Rate { per_s: rate.per_s * f64::from(NAMES), burst: rate.burst.saturating_mul(NAMES) };
        Self { of_name: RateLimiter::new(rate), of_address: RateLimiter::new(all) }
    }

    /// Whether a login may be tried.
    ///
    /// # Errors
    /// The seconds after which it may be tried again.
    pub fn look(&self, address: IpAddr, name: &str, now_ns: u64) -> Result<(), u64> {
        self.of_address.look(&address, now_ns)?;
        self.of_name.look(&(address, name), now_ns)
    }

    /// Counts a failed login.
    pub fn failed(&self, address: IpAddr, name: &str, now_ns: u64) {
        // A limit that is reached already stays as it is.
        self.of_address.check(&address, now_ns).unwrap_or_default();
        self.of_name.check(&(address, name), now_ns).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_for_a_name_end_and_other_names_and_addresses_go_on() {
        let guesses = Guesses::new(Rate { per_s: 0.1, burst: 2 });
        let [here, there] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        for _ in 0..2 {
            assert_eq!(guesses.look(here, "ann", 0), Ok(()));
            guesses.failed(here, "ann", 0);
        }
        assert_eq!(guesses.look(here, "ann", 0), Err(10));
        assert_eq!((guesses.look(here, "bob", 0), guesses.look(there, "ann", 0)), (Ok(()), Ok(())));
        assert_eq!(guesses.look(here, "ann", 10_000_000_000), Ok(()));
        for name in 0..100 {
            guesses.failed(here, &name.to_string(), 0);
        }
        assert_eq!(guesses.look(here, "other", 0), Err(1), "one address guesses many names");
        assert_eq!(guesses.look(there, "other", 0), Ok(()));
    }
}
