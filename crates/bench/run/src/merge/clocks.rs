//! Converts the starts of shards to the server's clock. Each shard compared its own clock with the server's before and after its load.

use plimsoll_measure::clock_offset::ClockOffset;

use super::shard::Shard;

/// The corrections that convert each shard's wall times to one common clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The correction of each shard's wall times in milliseconds: zero without a common clock.
    corrections_ms: Vec<i64>,
    /// The largest error of a corrected time in milliseconds; `None` without a common clock: then the machines' clocks are trusted.
    pub bound_ms: Option<u64>,
}

/// Two shards, by their positions, and the time between their starts in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The shard that began first.
    pub first: usize,
    /// The shard that began last.
    pub last: usize,
    /// The time between, by the common clock if there is one.
    pub ms: u64,
}

impl Clocks {
    /// The clocks of shards. A common clock exists if every shard compared its clock with that of the same server.
    pub fn of(shards: &[Shard]) -> Self {
        let server = |shard: &Shard| shard.run.client.server_clock.clone();
        let all: Option<Vec<_>> = shards.iter().map(server).collect();
        let all = all.filter(|all| all.windows(2).all(|pair| pair[0].is_of_same_server(&pair[1])));
        let offsets =
            all.and_then(|all| all.iter().map(|clock| clock.over_load()).collect::<Option<Vec<_>>>());
        match offsets {
            None => Self { corrections_ms: vec![0; shards.len()], bound_ms: None },
            Some(offsets) => Self {
                corrections_ms: offsets.iter().copied().map(middle).collect(),
                bound_ms: offsets.iter().map(|it| (it.max_ms - middle(*it)).unsigned_abs()).max(),
            },
        }
    }

    /// A wall time of a shard on the common clock, in milliseconds.
    pub fn common_ms(&self, shard: usize, wall_ms: u64) -> u64 {
        wall_ms.saturating_add_signed(self.corrections_ms[shard])
    }

    /// The largest gap between wall times. Each wall time comes with the position of its shard.
    pub fn gap(&self, walls: impl Iterator<Item = (usize, u64)>) -> Option<Gap> {
        let common: Vec<_> = walls.map(|(shard, wall_ms)| (self.common_ms(shard, wall_ms), shard)).collect();
        let (first, last) = (common.iter().min()?, common.iter().max()?);
        Some(Gap { first: first.1, last: last.1, ms: last.0 - first.0 })
    }

    /// The largest possible gap, in milliseconds.
    pub fn possible_ms(&self, gap: Gap) -> u64 {
        gap.ms + if gap.first == gap.last { 0 } else { 2 * self.bound_ms.unwrap_or(0) }
    }

    /// The clock of the times, in words.
    pub fn words(&self) -> String {
        match self.bound_ms {
            Some(bound_ms) => format!("by the server's clock, ± {bound_ms} ms"),
            None => "each by its own machine's clock, without a comparison of the clocks".to_owned(),
        }
    }
}

const fn middle(offset: ClockOffset) -> i64 {
    offset.min_ms + (offset.max_ms - offset.min_ms) / 2
}

#[cfg(test)]
mod tests {
    use plimsoll_load::arrivals::Share;
    use plimsoll_measure::clock_offset::ServerClock;
    use plimsoll_measure::run::{Client, Run};

    use super::*;

    /// A shard that began at a wall time, on a machine with this offset of the server's clock.
    fn shard(began_ms: u64, server: Option<(&str, i64, i64)>) -> Shard {
        let clock = |(address, min_ms, max_ms): (&str, i64, i64)| ServerClock {
            address: address.into(),
            process: None,
            offsets: vec![ClockOffset { min_ms, max_ms }],
        };
        let client = Client { server_clock: server.map(clock), ..Client::default() };
        let run = Run { began_ms: Some(began_ms), client, ..Run::default() };
        Shard { name: String::new(), path: Default::default(), run, share: Share::WHOLE, scenario: None }
    }

    fn gap(shards: &[Shard]) -> (Clocks, Gap) {
        let clocks = Clocks::of(shards);
        let walls = shards.iter().map(|shard| shard.run.began_ms.unwrap()).enumerate();
        let gap = clocks.gap(walls).unwrap();
        (clocks, gap)
    }

    #[test]
    fn equal_wall_times_of_machines_whose_clocks_differ_are_apart() {
        // The second machine is 3 s behind, so it began 3 s later.
        let (clocks, found) =
            gap(&[shard(50_000, Some(("a", -1, 1))), shard(50_000, Some(("a", 2_998, 3_002)))]);
        assert_eq!((found, clocks.bound_ms), (Gap { first: 0, last: 1, ms: 3_000 }, Some(2)));
        assert_eq!(clocks.possible_ms(found), 3_004);
    }

    #[test]
    fn wall_times_apart_may_be_one_moment() {
        let (_, found) = gap(&[shard(50_000, Some(("a", 0, 0))), shard(48_000, Some(("a", 2_000, 2_000)))]);
        assert_eq!(found.ms, 0);
    }

    #[test]
    fn a_clock_that_drifted_during_the_load_widens_the_bound() {
        let mut shards = [("a", 0, 2); 2].map(|clock| shard(50_000, Some(clock)));
        let clock = shards[1].run.client.server_clock.as_mut().unwrap();
        clock.offsets.push(ClockOffset { min_ms: 39, max_ms: 42 });
        let (clocks, found) = gap(&shards);
        assert_eq!(clocks.bound_ms, Some(21));
        assert_eq!(clocks.possible_ms(found), 20 + 2 * 21);
    }

    #[test]
    fn without_one_common_server_the_machines_clocks_are_trusted() {
        for other in [None, Some(("b", 2_000, 2_000))] {
            let (clocks, found) = gap(&[shard(50_000, Some(("a", 0, 0))), shard(50_100, other)]);
            assert_eq!((found.ms, clocks.bound_ms, clocks.possible_ms(found)), (100, None, 100));
            assert!(clocks.words().contains("without a comparison"));
        }
    }
}
