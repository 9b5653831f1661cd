//! Checks whether a dependency answers, at most twice a second.

use std::time::Duration;

use tokio::sync::Mutex;

/// The time for which the result of a check is used again, in nanoseconds.
const FRESH_NS: u64 = 500_000_000;
/// The time limit for an answer of the dependency.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The last check.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<Check>>,
}

#[derive(Debug)]
struct Check {
    at_ns: u64,
    fault: Option<String>,
}

impl Readiness {
    /// The reason why `dependency` does not answer `ping`, or `None`.
    pub(crate) async fn fault(
        &self,
        dependency: &str,
        now_ns: u64,
        ping: impl Future<Output = Result<(), String>>,
    ) -> Option<String> {
        // Concurrent callers wait for the same result.
        let mut last = self.last.lock().await;
        if let Some(check) = last.as_ref().filter(|check| now_ns.saturating_sub(check.at_ns) < FRESH_NS) {
            return check.fault.clone();
        }
        let fault = match tokio::time::timeout(ANSWER_MAX, ping).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{dependency} does not answer: {error}")),
            Err(_) => Some(format!("{dependency} does not answer within {} s", ANSWER_MAX.as_secs())),
        };
        *last = Some(Check { at_ns: now_ns, fault: fault.clone() });
        fault
    }
}
