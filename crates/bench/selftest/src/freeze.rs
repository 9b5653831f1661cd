//! Checks that a server frozen for 1.4 s shows in response time and not in service time.

use std::time::Duration;

use anyhow::Context;
use plimsoll_host::null;
use plimsoll_measure::clock::{self, SECOND_NS};

use super::{Finding, trial};

/// The length of the freeze.
const FREEZE: Duration = Duration::from_millis(1400);
/// The start of the freeze, counted from the start of the load.
const AFTER_NS: u64 = 8 * SECOND_NS;
/// Length of the measured window in seconds, as in the scenario.
const WINDOW_S: f64 = 20.0;
/// The accepted deviation of the response p99, as a share.
const TOLERANCE: f64 = 0.05;
/// The largest service p99 that counts as "in milliseconds", in nanoseconds.
const SERVICE_NS_MAX: u64 = 50_000_000;

/// Freezes a null server in the middle of a constant load.
///
/// # Errors
/// The load cannot be sent.
pub fn freeze() -> anyhow::Result<Finding> {
    let server = null::Server::start(null::Options::default()).context("start the null server")?;
    server.freeze_from(clock::now() + AFTER_NS, FREEZE);
    let trial = trial::run("freeze", server.address())?;
    let Some((_, tally)) = trial.summary.tallies().next() else {
        anyhow::bail!("the scenario has no operation")
    };
    // The operations that became due first in the freeze are the slowest. So p99 is the length of the freeze,
    // less the time in which a hundredth of all operations became due.
    let expected_s = FREEZE.as_secs_f64() - WINDOW_S / 100.0;
    let response_s = tally.response.at(99.0) as f64 / 1e9;
    let service_ns = tally.service.at(99.0);
    let passed = (response_s / expected_s - 1.0).abs() <= TOLERANCE && service_ns < SERVICE_NS_MAX;
    let figure = format!(
        "response p99 {response_s:.3} s (must be {expected_s:.3} s ± 5 %), service p99 {:.2} ms",
        service_ns as f64 / 1e6
    );
    Ok(Finding { name: "a server frozen for 1.4 s", passed, figure, score: None })
}
