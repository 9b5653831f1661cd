//! Bounds the queries that run at the same time, so that readers leave time and connections to writers.

use std::time::Duration;

use plimsoll_service::metrics::Page;
use plimsoll_service::{Kind, Problem};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// The time after which a refused query may be sent again, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// The running queries.
#[derive(Debug)]
pub struct Queries {
    places: Semaphore,
    most: u32,
    wait: Duration,
}

impl Queries {
    /// Runs `most` queries at a time; a further query waits at most `wait`.
    pub fn new(most: u32, wait: Duration) -> Self {
        Self { places: Semaphore::new(most as usize), most, wait }
    }

    /// Begins a query, which ends when the returned value is dropped. Waits for its turn.
    ///
    /// # Errors
    /// No query has ended in time.
    pub async fn begin(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let busy = || {
            let detail = format!("{} queries run already: retry later", self.most);
            Problem::new(Kind::Busy, detail).retry_after(RETRY_AFTER_S)
        };
        // The semaphore is never closed.
        timeout(self.wait, self.places.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())
    }

    /// Writes the metric.
    pub(super) fn write(&self, page: &mut Page) {
        let running = (self.most as usize).saturating_sub(self.places.available_permits());
        page.single("telemetry_queries_running", "gauge", "Queries that run.", running as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_query_waits_for_its_turn_and_is_refused_after_its_time() {
        let queries = Queries::new(1, Duration::from_secs(5));
        let first = queries.begin().await.unwrap();
        assert_eq!(queries.begin().await.unwrap_err().kind(), Kind::Busy);
        let (second, ()) = tokio::join!(queries.begin(), async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            drop(first);
        });
        assert!(second.is_ok());
    }
}
