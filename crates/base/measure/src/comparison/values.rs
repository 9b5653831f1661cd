//! Collects the values of a metric pair by pair, and the drift of the machine meanwhile.

use super::correlation;
use super::form::{Correlation, Metric, Noise, Pair, Verdict};
use super::measures::Measure;
use super::sign_flip::{Evidence, mean, weigh};
use crate::run::{Client, Run};

/// A figure and its values.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// The figure.
    pub measure: Measure,
    /// One for each pair.
    pub pairs: Vec<Pair>,
}

/// The evidence of the pairs, widened by their correlation if one is shown; nothing if a pair has no ratio.
pub(super) fn evidence(pairs: &[Pair], seed: u64) -> Option<(Evidence, Option<Correlation>)> {
    let logs = logs(pairs)?;
    let (evidence, correlation) = (weigh(&logs, seed)?, correlation::shown(&logs, seed));
    Some((correlation.map_or(evidence, |it| evidence.widened(it.widened)), correlation))
}

/// The log ratios of all pairs; nothing if a pair has none.
fn logs(pairs: &[Pair]) -> Option<Vec<f64>> {
    pairs.iter().map(|pair| pair.ratio().map(f64::ln)).collect()
}

/// Why a metric cannot be compared; nothing if every pair has a ratio. Pairs without a ratio are never left out, because the
/// rest would be biased.
pub(super) fn unknown(pairs: &[Pair]) -> Option<String> {
    let of = pairs.len();
    let missing = pairs.iter().filter(|pair| pair.a.is_none() || pair.b.is_none()).count();
    let zero = pairs.iter().filter(|pair| pair.ratio().is_none()).count() - missing;
    match (missing, zero) {
        (0, 0) => None,
        (0, zero) => Some(format!("it is zero in {zero} of {of} pairs, so there is no ratio")),
        (missing, _) => Some(format!("it is unknown in {missing} of {of} pairs")),
    }
}

/// The values of a metric without a verdict.
pub(super) fn bare(values: Values, primary: bool) -> Metric {
    let Values { measure, pairs } = values;
    let logs = logs(&pairs);
    let geometric = |pick: fn(&Pair) -> Option<f64>| {
        let each: Vec<f64> = pairs.iter().filter_map(pick).map(f64::ln).collect();
        logs.as_ref().map(|_| mean(&each).exp())
    };
    let (a, b) = (geometric(|pair| pair.a), geometric(|pair| pair.b));
    Metric {
        name: measure.name,
        words: measure.words,
        unit: measure.unit,
        better: measure.better,
        primary,
        a,
        b,
        ratio: logs.as_ref().map(|logs| mean(logs).exp()),
        pairs,
        low: None,
        high: None,
        p: None,
        p_adjusted: None,
        must_show: None,
        verdict: Verdict::NoVerdict,
        reason: None,
        pairs_needed: None,
        correlation: None,
    }
}

impl Noise {
    /// The drift of `runs`.
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> Self {
        let null = |client: &Client| change(&client.calibration_null_per_s);
        let ping = |client: &Client| {
            let ns: Vec<f64> = client.calibration_ping_ns.iter().map(|ns| *ns as f64).collect();
            change(&ns)
        };
        Self {
            null_server: share(runs.clone().filter_map(|run| null(&run.client))),
            ping: share(runs.filter_map(|run| ping(&run.client))),
        }
    }

    /// The possible error of a mean over `pairs` by drift alone: the standard error of the larger drift, as a
    /// logarithm; zero without a calibration.
    pub(super) fn error(&self, pairs: usize) -> f64 {
        let larger = self.null_server.unwrap_or(0.0).max(self.ping.unwrap_or(0.0));
        larger.ln_1p() / (pairs as f64).sqrt()
    }
}

/// The change from the first calibration to the last, as a logarithm; nothing if there are fewer than two
/// calibrations.
fn change(looks: &[f64]) -> Option<f64> {
    let [first, .., last] = looks else { return None };
    (*first > 0.0 && *last > 0.0).then(|| (last / first).ln())
}

/// The root mean square of `changes`, as a share.
fn share(changes: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = changes.fold((0.0, 0.0), |(sum, count), change| (sum + change * change, count + 1.0));
    (count > 0.0).then(|| (sum / count).sqrt().exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(null: &[f64], ping: &[u64]) -> Run {
        let client = Client {
            calibration_null_per_s: null.to_vec(),
            calibration_ping_ns: ping.to_vec(),
            ..Client::default()
        };
        Run { client, ..Run::default() }
    }

    #[test]
    fn the_noise_is_the_change_from_before_to_after() {
        let runs = [run(&[100.0, 110.0], &[20, 20]), run(&[110.0, 100.0], &[])];
        let noise = Noise::of(runs.iter());
        assert!((noise.null_server.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(noise.ping, Some(0.0));
        assert!((noise.error(4) - 1.1f64.ln() / 2.0).abs() < 1e-9);
    }

    #[test]
    fn runs_without_two_calibrations_have_no_noise() {
        let noise = Noise::of([run(&[100.0], &[]), run(&[0.0, 1.0], &[])].iter());
        assert_eq!((noise, noise.error(10)), (Noise::default(), 0.0));
    }
}
