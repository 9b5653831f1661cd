//! Bounds how far a server's clock is ahead of this machine's.
//!
//! The server writes its time into an answer between the moments of the question and of the answer. So one
//! exchange bounds the offset to its round trip, whichever direction was slower (Cristian, *Probabilistic
//! clock synchronization*, 1989). Several exchanges narrow the bounds.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bounds of an offset: the server's clock minus this machine's, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// The smallest possible offset.
    pub min_ms: i64,
    /// The largest possible offset.
    pub max_ms: i64,
}

impl ClockOffset {
    /// The bounds of one exchange: the time of the question, the server's time and the time of its answer, each in whole milliseconds
    /// since 1970, rounded down.
    pub const fn of(asked_ms: u64, server_ms: u64, answered_ms: u64) -> Self {
        let server_ms = server_ms.cast_signed();
        Self {
            min_ms: server_ms - answered_ms.cast_signed() - 1,
            max_ms: server_ms + 1 - asked_ms.cast_signed(),
        }
    }

    /// The bounds that hold if both hold. If they contradict each other, a clock was set meanwhile: then
    /// every offset of either is possible.
    #[must_use]
    pub fn narrowed(self, other: Self) -> Self {
        let both = Self { min_ms: self.min_ms.max(other.min_ms), max_ms: self.max_ms.min(other.max_ms) };
        if both.min_ms <= both.max_ms { both } else { self.widened(other) }
    }

    /// The bounds that hold if at least one of the two holds.
    #[must_use]
    pub fn widened(self, other: Self) -> Self {
        Self { min_ms: self.min_ms.min(other.min_ms), max_ms: self.max_ms.max(other.max_ms) }
    }
}

/// A server's clock, compared with this machine's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerClock {
    /// The server's address.
    pub address: String,
    /// The ID of the server's process, which its `topologyVersion` names. One address may lead to several servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The offset before and after the load.
    pub offsets: Vec<ClockOffset>,
}

impl ServerClock {
    /// The bounds of the offset over the whole load: they cover all moments together, because the clocks may
    /// drift apart.
    pub fn over_load(&self) -> Option<ClockOffset> {
        self.offsets.iter().copied().reduce(ClockOffset::widened)
    }

    /// The least change of the offset between two moments, in milliseconds.
    pub fn moved_ms(&self) -> u64 {
        let highest = self.offsets.iter().map(|it| it.min_ms).max();
        let lowest = self.offsets.iter().map(|it| it.max_ms).min();
        highest.zip(lowest).map_or(0, |(highest, lowest)| u64::try_from(highest - lowest).unwrap_or(0))
    }

    /// Whether both clocks are that of one server: by its process, or else by its address, unless the address
    /// leads to the machine itself.
    pub fn is_of_same_server(&self, other: &Self) -> bool {
        match (&self.process, &other.process) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.address == other.address && !is_loopback(&self.address),
        }
    }
}

/// Whether `host:port` leads to the machine itself.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_true_offset_is_within_the_bounds_whatever_the_way_there_and_back() {
        let mut random = Random::new(7);
        for _ in 0..10_000 {
            // In microseconds: the true offset, and the time of each direction.
            let offset = (random.unit() * 20_000_000.0) as i64 - 10_000_000;
            let [there, back] = [(); 2].map(|()| (random.unit() * 300_000.0) as i64);
            let asked = 1_700_000_000_000_000 + (random.unit() * 1e6) as i64;
            let ms = |us: i64| us.div_euclid(1000).cast_unsigned();
            let bounds = ClockOffset::of(ms(asked), ms(asked + there + offset), ms(asked + there + back));
            assert!(bounds.min_ms * 1000 <= offset && offset <= bounds.max_ms * 1000, "{offset} {bounds:?}");
            assert!(bounds.max_ms - bounds.min_ms <= (there + back) / 1000 + 3, "{there} {back} {bounds:?}");
        }
    }

    #[test]
    fn exchanges_narrow_the_bounds_and_a_clock_that_was_set_widens_them() {
        let bounds = |min_ms, max_ms| ClockOffset { min_ms, max_ms };
        assert_eq!(bounds(-5, 9).narrowed(bounds(2, 20)), bounds(2, 9));
        assert_eq!(bounds(0, 2).narrowed(bounds(1000, 1002)), bounds(0, 1002));
    }

    #[test]
    fn the_offset_over_a_load_is_that_of_every_moment_and_a_clock_that_moved_is_measured() {
        let check = |offsets: &[(i64, i64)], over_load, moved_ms| {
            let bounds = |(min_ms, max_ms)| ClockOffset { min_ms, max_ms };
            let offsets = offsets.iter().copied().map(bounds).collect();
            let clock = ServerClock { offsets, ..ServerClock::default() };
            assert_eq!((clock.over_load(), clock.moved_ms()), (over_load, moved_ms));
        };
        let hull = |min_ms, max_ms| Some(ClockOffset { min_ms, max_ms });
        check(&[], None, 0);
        check(&[(0, 2)], hull(0, 2), 0);
        check(&[(0, 2), (1, 6)], hull(0, 6), 0);
        check(&[(0, 2), (3000, 3002)], hull(0, 3002), 2998);
        check(&[(-3000, -2998), (0, 2)], hull(-3000, 2), 2998);
    }

    #[test]
    fn equal_addresses_of_the_own_machine_are_not_one_server_unless_the_process_is_the_same() {
        let clock = |address: &str, process: Option<&str>| ServerClock {
            address: address.into(),
            process: process.map(str::to_owned),
            offsets: Vec::new(),
        };
        for own in ["localhost:27017", "127.0.0.3:1", "[::1]:27017"] {
            assert!(!clock(own, None).is_of_same_server(&clock(own, None)), "{own}");
            assert!(clock(own, Some("p")).is_of_same_server(&clock(own, Some("p"))), "{own}");
        }
        assert!(clock("a:1", None).is_of_same_server(&clock("a:1", Some("p"))));
        assert!(!clock("a:1", Some("q")).is_of_same_server(&clock("a:1", Some("p"))));
        assert!(clock("a:1", Some("p")).is_of_same_server(&clock("b:1", Some("p"))));
    }
}
