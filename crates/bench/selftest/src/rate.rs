//! Checks that a requested rate is kept within a thousandth.

use anyhow::Context;
use plimsoll_host::null;

use super::{Finding, trial};

/// Operations per second and seconds of the scenario.
const RATE: f64 = 2000.0;
const SECONDS: f64 = 10.0;
/// The accepted deviation of the rate, as a share.
const TOLERANCE: f64 = 0.001;

/// Sends a constant load to a null server.
///
/// # Errors
/// The load cannot be sent.
pub fn rate() -> anyhow::Result<Finding> {
    let server = null::Server::start(null::Options::default()).context("start the null server")?;
    let trial = trial::run("rate", server.address())?;
    let achieved = trial.summary.measured().first().and_then(|operation| operation.achieved).unwrap_or(0.0);
    let Some((_, tally)) = trial.summary.tallies().next() else {
        anyhow::bail!("the scenario has no operation")
    };
    let rate = tally.count as f64 / SECONDS;
    let passed = (rate / RATE - 1.0).abs() <= TOLERANCE && achieved >= 1.0 - TOLERANCE;
    let figure = format!(
        "{rate:.1}/s of {RATE:.0}/s, {:.2} % in time, wake error p50 {:.1} µs, p99 {:.1} µs",
        achieved * 100.0,
        tally.wake.at(50.0) as f64 / 1e3,
        tally.wake.at(99.0) as f64 / 1e3
    );
    Ok(Finding { name: "a rate that is kept", passed, figure, score: None })
}
