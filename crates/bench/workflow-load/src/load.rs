//! Runs a closed loop of clients, and sums up their samples.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::now;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

/// The times of one completed instance.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From the request to the observed end, in nanoseconds.
    pub total_ns: u64,
    /// From the signal to the observed end, in nanoseconds.
    pub signal_ns: u64,
}

/// The sum of the clients' samples. The peers' programs print the same fields as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Completed instances.
    pub completed: u64,
    /// The length of the load.
    pub seconds: f64,
    /// CPU of the process with the clients, in seconds.
    pub cpu_s: f64,
    /// The median time of an instance, in milliseconds.
    pub total_p50_ms: f64,
    /// Its 99th percentile.
    pub total_p99_ms: f64,
    /// The median time from signal to end, in milliseconds.
    pub signal_p50_ms: f64,
    /// Its 99th percentile.
    pub signal_p99_ms: f64,
}

/// Runs `clients` clients for a time. Each runs `once` again and again with a new number.
///
/// # Errors
///
/// The first failure.
pub async fn closed<F, E>(
    clients: usize,
    length: Duration,
    once: impl Fn(String) -> F + Send + Sync + 'static,
) -> Result<Seen, E>
where
    F: Future<Output = Result<Sample, E>> + Send,
    E: Send + 'static,
{
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let (once, begin, mut running) = (Arc::new(once), now(), JoinSet::new());
    for client in 0..clients {
        let once = once.clone();
        running.spawn(async move {
            let mut samples = Vec::new();
            while now().since(begin) < length_ns {
                samples.push(once(format!("{client}-{}", samples.len())).await?);
            }
            Ok(samples)
        });
    }
    let mut all = Vec::new();
    while let Some(client) = running.join_next().await {
        // A panic of a client is a defect of this program, so the panic continues here.
        all.extend(client.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?);
    }
    Ok(seen(&all, now().since(begin)))
}

fn seen(samples: &[Sample], length_ns: u64) -> Seen {
    let sorted = |part: fn(&Sample) -> u64| {
        let mut all: Vec<_> = samples.iter().map(part).collect();
        all.sort_unstable();
        all
    };
    let (totals, signals) = (sorted(|sample| sample.total_ns), sorted(|sample| sample.signal_ns));
    Seen {
        completed: samples.len() as u64,
        seconds: length_ns as f64 / 1e9,
        cpu_s: 0.0,
        total_p50_ms: percentile(&totals, 0.5),
        total_p99_ms: percentile(&totals, 0.99),
        signal_p50_ms: percentile(&signals, 0.5),
        signal_p99_ms: percentile(&signals, 0.99),
    }
}

/// A percentile in milliseconds; 0 without values.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    let at = (share * sorted.len().saturating_sub(1) as f64) as usize;
    sorted.get(at).map_or(0.0, |value| *value as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let at = |ms: u64| Sample { total_ns: ms * 1_000_000, signal_ns: ms * 500_000 };
        let samples: Vec<_> = (0..=100).rev().map(|ms| at(2 * ms)).collect();
        let seen = seen(&samples, 2_000_000_000);
        assert_eq!((seen.completed, seen.seconds), (101, 2.0));
        assert_eq!((seen.total_p50_ms, seen.total_p99_ms), (100.0, 198.0));
        assert_eq!((seen.signal_p50_ms, seen.signal_p99_ms), (50.0, 99.0));
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
