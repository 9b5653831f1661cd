//! Limits the request rate of each caller by the generic cell rate algorithm (ITU-T I.371), in bounded memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::Rate;

/// The number of shards, each with its own lock.
const SHARDS: usize = 16;
/// The maximum number of callers in each shard. When a shard is full, further callers share one limit.
const CALLERS_MAX: usize = 8_192;
/// The shortest time between two sweeps of a full shard.
const SWEEP_EVERY_NS: u64 = 1_000_000_000;

/// One limit for each caller.
#[derive(Debug)]
pub struct RateLimiter {
    /// The debt that one request adds, in nanoseconds.
    cost_ns: u64,
    /// The largest debt with which a request is still accepted, in nanoseconds.
    debt_ns_max: u64,
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    /// The time when a caller's debt is paid, in nanoseconds, by the caller's hash.
    callers: HashMap<u64, u64>,
    /// The time of the last removal of callers without debt.
    swept_ns: u64,
}

impl Shard {
    /// The caller's own limit, or the limit that callers share when the shard is full.
    fn key(&self, hash: u64) -> u64 {
        if self.callers.len() < CALLERS_MAX || self.callers.contains_key(&hash) { hash } else { 0 }
    }

    fn sweep(&mut self, now_ns: u64) {
        if self.callers.len() >= CALLERS_MAX && now_ns.saturating_sub(self.swept_ns) >= SWEEP_EVERY_NS {
            self.callers.retain(|_, due_ns| *due_ns > now_ns);
            self.swept_ns = now_ns;
        }
    }
}

impl RateLimiter {
    /// A limiter with the same rate for every caller.
    pub fn new(rate: Rate) -> Self {
        let cost_ns = (1e9 / rate.per_s).round().max(1.0) as u64;
        let debt_ns_max = cost_ns.saturating_mul(rate.burst.saturating_sub(1).into());
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { cost_ns, debt_ns_max, shards, hasher: RandomState::new() }
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    /// The seconds after which the caller may retry.
    pub fn check(&self, caller: &impl Hash, now_ns: u64) -> Result<(), u64> {
        let (mut shard, hash) = self.shard(caller);
        shard.sweep(now_ns);
        let key = shard.key(hash);
        let due_ns = shard.callers.entry(key).or_insert(0);
        let start_ns = (*due_ns).max(now_ns);
        if let Some(seconds) = self.wait_s(start_ns - now_ns) {
            return Err(seconds);
        }
        *due_ns = start_ns.saturating_add(self.cost_ns);
        Ok(())
    }

    /// Looks whether a caller may send a request, and counts none.
    ///
    /// # Errors
    /// The seconds after which the caller may retry.
    pub fn look(&self, caller: &impl Hash, now_ns: u64) -> Result<(), u64> {
        let (shard, hash) = self.shard(caller);
        let due_ns = shard.callers.get(&shard.key(hash)).copied().unwrap_or(0);
        self.wait_s(due_ns.saturating_sub(now_ns)).map_or(Ok(()), Err)
    }

    fn shard(&self, caller: &impl Hash) -> (MutexGuard<'_, Shard>, u64) {
        let hash = self.hasher.hash_one(caller);
        let shard = &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or_default()];
        (shard.lock().unwrap_or_else(PoisonError::into_inner), hash)
    }

    /// The seconds until a debt allows a request. `None` if it does now.
    fn wait_s(&self, debt_ns: u64) -> Option<u64> {
        let over_ns = debt_ns.checked_sub(self.debt_ns_max).filter(|over_ns| *over_ns > 0)?;
        Some(over_ns.div_ceil(1_000_000_000).max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::security::Caller;

    const MS: u64 = 1_000_000;

    fn caller(last: u8) -> Caller {
        Caller::Address(IpAddr::from([127, 0, 0, last]))
    }

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let limiter = RateLimiter::new(Rate { per_s: 10.0, burst: 3 });
        let at = |now_ms: u64| limiter.check(&caller(1), now_ms * MS);
        assert_eq!([at(0), at(0), at(0), at(0)], [Ok(()), Ok(()), Ok(()), Err(1)]);
        assert_eq!([at(99), at(100), at(100)], [Err(1), Ok(()), Err(1)]);
        let passed = (200..10_200).filter(|now_ms| at(*now_ms).is_ok()).count();
        assert_eq!(passed, 100, "10 seconds at 10 requests a second");
        assert_eq!([at(60_000), at(60_000), at(60_000), at(60_000)], [Ok(()), Ok(()), Ok(()), Err(1)]);
    }

    #[test]
    fn a_look_counts_nothing() {
        let limiter = RateLimiter::new(Rate { per_s: 0.1, burst: 2 });
        for _ in 0..2 {
            assert_eq!([limiter.look(&"a", 0), limiter.look(&"a", 0)], [Ok(()), Ok(())]);
            assert_eq!(limiter.check(&"a", 0), Ok(()));
        }
        assert_eq!((limiter.look(&"a", 0), limiter.check(&"a", 0)), (Err(10), Err(10)));
        assert_eq!((limiter.look(&"b", 0), limiter.look(&"a", 10_000 * MS)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let limiter = RateLimiter::new(Rate { per_s: 0.1, burst: 1 });
        assert_eq!(limiter.check(&caller(1), 0), Ok(()));
        assert_eq!(limiter.check(&caller(1), 2_500 * MS), Err(8));
    }

    #[test]
    fn callers_have_separate_limits_and_memory_is_bounded() {
        let limiter = RateLimiter::new(Rate { per_s: 1.0, burst: 1 });
        assert_eq!(limiter.check(&caller(1), 0), Ok(()));
        assert_eq!(limiter.check(&caller(2), 0), Ok(()));
        assert_eq!(limiter.check(&Caller::Key("a".into()), 0), Ok(()));
        assert_eq!(limiter.check(&Caller::Token("a".into()), 0), Ok(()));
        let many = (0..300_000u32).map(|n| Caller::Key(n.to_string().into()));
        many.for_each(|caller| limiter.check(&caller, MS).unwrap_or_default());
        let kept: usize = limiter.shards.iter().map(|shard| shard.lock().unwrap().callers.len()).sum();
        assert!(kept <= SHARDS * (CALLERS_MAX + 1), "{kept}");
        assert!(
            limiter.check(&Caller::Key("new".into()), MS).is_err(),
            "a caller beyond the bound shares a limit"
        );
        assert_eq!(limiter.check(&Caller::Key("new".into()), 5_000 * MS), Ok(()));
    }
}
