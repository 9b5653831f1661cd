//! Selects the next operation: by weight, a pure function of the operation's number; or by time, so that each
//! operation keeps its share of the total service time.

use plimsoll_measure::random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of the weights' shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The number of operations.
    #[default]
    Count,
    /// The time that the connections spend: a slow operation is selected less often.
    Time,
}

/// A weighted choice among operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Choice);

#[derive(Clone, Debug, PartialEq)]
enum Choice {
    Count(Shares),
    Time(Balance),
}

/// Shares of the number of operations.
#[derive(Clone, Debug, PartialEq)]
struct Shares {
    /// (operation, share of all weights up to and including it, scaled to 2⁶⁴).
    upper: Vec<(usize, u64)>,
    seed: u64,
}

/// Shares of the time, and the time spent so far.
#[derive(Clone, Debug, PartialEq)]
struct Balance {
    accounts: Vec<Account>,
}

/// One operation's account.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Account {
    operation: usize,
    /// The share of the total time.
    share: f64,
    /// The service time of its completed operations, in nanoseconds.
    spent_ns: f64,
    ended: u64,
    in_flight: u64,
}

impl Mix {
    /// A mix of (operation, weight) by count. Weights must be positive and finite; returns none for an empty
    /// or weightless list.
    pub fn new(weights: &[(usize, f64)], seed: u64) -> Option<Self> {
        Self::by(By::Count, weights, seed)
    }

    /// A mix of (operation, weight), as [`Mix::new`]. A mix by time needs every completed operation: see
    /// [`Mix::done`].
    pub fn by(by: By, weights: &[(usize, f64)], seed: u64) -> Option<Self> {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let sound = weights.iter().all(|(_, weight)| weight.is_finite() && *weight > 0.0);
        if weights.is_empty() || !sound || !total.is_finite() {
            return None;
        }
        Some(Self(match by {
            By::Count => Choice::Count(Shares::new(weights, total, seed)),
            By::Time => Choice::Time(Balance::new(weights, total)),
        }))
    }

    /// The operation with the plan-wide number `number`.
    pub fn pick(&mut self, number: u64) -> usize {
        match &mut self.0 {
            Choice::Count(shares) => shares.pick(number),
            Choice::Time(balance) => balance.pick(),
        }
    }

    /// Records the service time of a completed operation.
    pub fn done(&mut self, operation: usize, service_ns: u64) {
        if let Choice::Time(balance) = &mut self.0 {
            balance.done(operation, service_ns);
        }
    }
}

impl Shares {
    fn new(weights: &[(usize, f64)], total: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let mut upper: Vec<_> = weights
            .iter()
            .map(|(operation, weight)| {
                sum += weight;
                (*operation, (sum / total * u64::MAX as f64) as u64)
            })
            .collect();
        if let Some(last) = upper.last_mut() {
            last.1 = u64::MAX;
        }
        Self { upper, seed }
    }

    fn pick(&self, number: u64) -> usize {
        if let [(only, _)] = self.upper[..] {
            return only;
        }
        let draw = scramble(self.seed, number);
        let index = self.upper.partition_point(|(_, upper)| *upper < draw);
        self.upper[index.min(self.upper.len() - 1)].0
    }
}

impl Balance {
    fn new(weights: &[(usize, f64)], total: f64) -> Self {
        let account = |(operation, weight): &(usize, f64)| Account {
            operation: *operation,
            share: weight / total,
            spent_ns: 0.0,
            ended: 0,
            in_flight: 0,
        };
        Self { accounts: weights.iter().map(account).collect() }
    }

    /// The operation that is furthest behind its share of the time. An operation in flight counts with the mean time of its
    /// kind so far. Among equals, the first operation wins. Each operation runs once before any repeats.
    fn pick(&mut self) -> usize {
        let untried = self.accounts.iter().position(|account| account.ended + account.in_flight == 0);
        let index = untried.unwrap_or_else(|| self.furthest_behind());
        self.accounts[index].in_flight += 1;
        self.accounts[index].operation
    }

    fn furthest_behind(&self) -> usize {
        let (spent, ended) = self
            .accounts
            .iter()
            .fold((0.0, 0), |(spent, ended), account| (spent + account.spent_ns, ended + account.ended));
        // An operation that never completed is assumed to be average.
        let usual_ns = if ended == 0 { 1.0 } else { spent / ended as f64 };
        let given =
            |account: &Account| account.spent_ns + account.in_flight as f64 * account.mean_ns(usual_ns);
        let total: f64 = self.accounts.iter().map(given).sum();
        let behind = |account: &Account| account.share * total - given(account);
        let first = (0, f64::NEG_INFINITY);
        let accounts = self.accounts.iter().enumerate();
        let (index, _) = accounts.fold(first, |best, (index, account)| {
            let behind = behind(account);
            if behind > best.1 { (index, behind) } else { best }
        });
        index
    }

    fn done(&mut self, operation: usize, service_ns: u64) {
        if let Some(account) = self.accounts.iter_mut().find(|account| account.operation == operation) {
            account.spent_ns += service_ns as f64;
            account.ended += 1;
            account.in_flight = account.in_flight.saturating_sub(1);
        }
    }
}

impl Account {
    fn mean_ns(&self, usual_ns: f64) -> f64 {
        if self.ended == 0 { usual_ns } else { self.spent_ns / self.ended as f64 }
    }
}

/// Random bits that follow from a seed and a number.
pub const fn scramble(seed: u64, number: u64) -> u64 {
    random::mix(seed ^ number.wrapping_mul(random::STEP).wrapping_add(random::STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_in_the_share_of_their_weights() {
        let mut mix = Mix::new(&[(3, 80.0), (5, 15.0), (9, 5.0)], 1).unwrap();
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|number| counts[mix.pick(number)] += 1);
        assert!(counts[3].abs_diff(80_000) < 600, "{counts:?}");
        assert!(counts[5].abs_diff(15_000) < 600, "{counts:?}");
        assert_eq!(counts[3] + counts[5] + counts[9], 100_000);
    }

    #[test]
    fn invalid_weights_are_refused() {
        for weights in [&[][..], &[(0, 0.0)], &[(0, -1.0), (1, 2.0)], &[(0, f64::INFINITY)]] {
            assert_eq!(Mix::new(weights, 0), None);
            assert_eq!(Mix::by(By::Time, weights, 0), None);
        }
    }

    /// Simulates `lanes` connections with a mix by time, whose operations take `costs`; returns each
    /// operation's share of the time.
    fn shares(weights: &[(usize, f64)], costs: &[u64], lanes: usize, until_ns: u64) -> Vec<f64> {
        let mut mix = Mix::by(By::Time, weights, 0).unwrap();
        let mut busy = vec![0; costs.len()];
        let mut lanes: Vec<_> = (0..lanes).map(|_| (0, None::<usize>)).collect();
        loop {
            lanes.sort_unstable();
            let (now, last) = lanes[0];
            if let Some(operation) = last {
                mix.done(operation, costs[operation]);
                busy[operation] += costs[operation];
            }
            if now >= until_ns {
                break;
            }
            let next = mix.pick(0);
            lanes[0] = (now + costs[next], Some(next));
        }
        let total: u64 = busy.iter().sum();
        busy.into_iter().map(|busy| busy as f64 / total as f64).collect()
    }

    #[test]
    fn a_mix_by_time_keeps_each_share_of_the_time_however_long_operations_take() {
        for lanes in [1, 4, 16] {
            let weights = [(0, 40.0), (1, 30.0), (2, 30.0)];
            let shares = shares(&weights, &[1_000, 20_000, 300_000], lanes, 100_000_000);
            for (share, expected) in shares.iter().zip([0.4, 0.3, 0.3]) {
                assert!((share - expected).abs() < 0.01, "{lanes} lanes: {shares:?}");
            }
        }
    }

    #[test]
    fn each_operation_by_time_runs_once_before_any_repeats() {
        let mut mix = Mix::by(By::Time, &[(7, 1.0), (8, 98.0), (9, 1.0)], 0).unwrap();
        assert_eq!([mix.pick(0), mix.pick(1), mix.pick(2)], [7, 8, 9]);
        // No operation has ended: all count as equal, so the heaviest is behind.
        assert_eq!([mix.pick(3), mix.pick(4)], [8, 8]);
    }

    #[test]
    fn the_same_measurements_give_the_same_operations() {
        let picks = || {
            let mut mix = Mix::by(By::Time, &[(0, 1.0), (1, 2.0)], 0).unwrap();
            (0..1000)
                .map(|number| {
                    let operation = mix.pick(number);
                    mix.done(operation, 1 + scramble(5, number) % 1000);
                    operation
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(picks(), picks());
    }

    #[test]
    fn an_operation_that_becomes_slow_is_selected_less_often() {
        let mut mix = Mix::by(By::Time, &[(0, 1.0), (1, 1.0)], 0).unwrap();
        let mut counts = |cost_ns: [u64; 2], picks: u64| {
            let mut counts = [0, 0];
            for number in 0..picks {
                let operation = mix.pick(number);
                counts[operation] += 1;
                mix.done(operation, cost_ns[operation]);
            }
            counts
        };
        assert_eq!(counts([100, 100], 1000), [500, 500]);
        let slow = counts([100, 10_000], 10_000);
        assert!(slow[1] * 50 < slow[0], "{slow:?}");
    }
}
