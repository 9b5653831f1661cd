//! Computes the drift of the machine from the calibrations before and after each load.

use super::form::Noise;
use crate::run::{Client, Run};

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

    /// The possible error of a mean over `pairs` by drift alone: the standard error of the larger of the two, as a
    /// logarithm; zero without a calibration.
    pub(super) fn error(&self, pairs: usize) -> f64 {
        let larger = self.null_server.unwrap_or(0.0).max(self.ping.unwrap_or(0.0));
        larger.ln_1p() / (pairs as f64).sqrt()
    }
}

/// The change from the first calibration to the last, as a logarithm; nothing without two.
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
    fn runs_that_did_not_look_twice_say_nothing() {
        let noise = Noise::of([run(&[100.0], &[]), run(&[0.0, 1.0], &[])].iter());
        assert_eq!((noise, noise.error(10)), (Noise::default(), 0.0));
    }
}
