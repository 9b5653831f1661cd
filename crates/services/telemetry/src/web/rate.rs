//! Rate limits for each caller: the generic cell rate algorithm (ITU-T I.371), one moment of memory for each.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use super::security::Caller;
use crate::settings::limits::Rate;

/// Parts that are locked one by one.
const PARTS: usize = 16;
/// Callers remembered in each part. Who is not remembered because of too many others is limited together with them.
const CALLERS_MAX: usize = 8_192;
/// A part that is full is looked through no more often.
const SWEEP_EVERY_NS: u64 = 1_000_000_000;

/// How much each caller may still send.
#[derive(Debug)]
pub struct Rates {
    /// Nanoseconds that a request costs.
    cost_ns: u64,
    /// How far ahead of its time a caller may be.
    ahead_ns: u64,
    parts: Vec<Mutex<Part>>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Part {
    /// For each caller, by its hash, when it would have been allowed everything that it has sent.
    callers: HashMap<u64, u64>,
    /// When those who are allowed everything again were last forgotten.
    swept_ns: u64,
}

impl Part {
    fn sweep(&mut self, now_ns: u64) {
        if self.callers.len() >= CALLERS_MAX && now_ns.saturating_sub(self.swept_ns) >= SWEEP_EVERY_NS {
            self.callers.retain(|_, due_ns| *due_ns > now_ns);
            self.swept_ns = now_ns;
        }
    }
}

impl Rates {
    /// The same rate for every caller.
    pub fn new(rate: Rate) -> Self {
        let cost_ns = (1e9 / rate.per_s).round().max(1.0) as u64;
        let ahead_ns = cost_ns.saturating_mul(rate.burst.saturating_sub(1).into());
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { cost_ns, ahead_ns, parts, hasher: RandomState::new() }
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    /// In how many seconds the caller may come back.
    pub fn count(&self, caller: &Caller, now_ns: u64) -> Result<(), u64> {
        let hash = self.hasher.hash_one(caller);
        let part = &self.parts[usize::try_from(hash % PARTS as u64).unwrap_or_default()];
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        part.sweep(now_ns);
        let callers = &mut part.callers;
        let key = if callers.len() < CALLERS_MAX || callers.contains_key(&hash) { hash } else { 0 };
        let due_ns = callers.entry(key).or_insert(0);
        let start_ns = (*due_ns).max(now_ns);
        let early_ns = start_ns - now_ns;
        if early_ns > self.ahead_ns {
            return Err((early_ns - self.ahead_ns).div_ceil(1_000_000_000).max(1));
        }
        *due_ns = start_ns.saturating_add(self.cost_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const MS: u64 = 1_000_000;

    fn caller(last: u8) -> Caller {
        Caller::Anyone(IpAddr::from([127, 0, 0, last]))
    }

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let rates = Rates::new(Rate { per_s: 10.0, burst: 3 });
        let at = |now_ms: u64| rates.count(&caller(1), now_ms * MS);
        assert_eq!([at(0), at(0), at(0), at(0)], [Ok(()), Ok(()), Ok(()), Err(1)]);
        assert_eq!([at(99), at(100), at(100)], [Err(1), Ok(()), Err(1)]);
        let passed = (200..10_200).filter(|now_ms| at(*now_ms).is_ok()).count();
        assert_eq!(passed, 100, "10 seconds at 10 requests a second");
        assert_eq!([at(60_000), at(60_000), at(60_000), at(60_000)], [Ok(()), Ok(()), Ok(()), Err(1)]);
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let rates = Rates::new(Rate { per_s: 0.1, burst: 1 });
        assert_eq!(rates.count(&caller(1), 0), Ok(()));
        assert_eq!(rates.count(&caller(1), 2_500 * MS), Err(8));
    }

    #[test]
    fn callers_do_not_pay_for_each_other_and_memory_is_bounded() {
        let rates = Rates::new(Rate { per_s: 1.0, burst: 1 });
        assert_eq!(rates.count(&caller(1), 0), Ok(()));
        assert_eq!(rates.count(&caller(2), 0), Ok(()));
        assert_eq!(rates.count(&Caller::Key("a".into()), 0), Ok(()));
        assert_eq!(rates.count(&Caller::Token("a".into()), 0), Ok(()));
        let many = (0..300_000u32).map(|n| Caller::Key(n.to_string().into()));
        many.for_each(|caller| rates.count(&caller, MS).unwrap_or_default());
        let kept: usize = rates.parts.iter().map(|part| part.lock().unwrap().callers.len()).sum();
        assert!(kept <= PARTS * (CALLERS_MAX + 1), "{kept}");
        assert!(
            rates.count(&Caller::Key("new".into()), MS).is_err(),
            "who does not fit is limited with others"
        );
        assert_eq!(rates.count(&Caller::Key("new".into()), 5_000 * MS), Ok(()));
    }
}
