//! Whether the database answers. It is asked at most twice a second, whoever wants to know how often.

use std::time::Duration;

use mongodb::Database;
use mongodb::bson::doc;
use tokio::sync::Mutex;

/// An answer is believed so long.
const FRESH_NS: u64 = 500_000_000;
/// The database has so long to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Asks the database.
#[derive(Debug)]
pub struct Ready {
    database: Database,
    last: Mutex<Option<Looked>>,
}

#[derive(Debug)]
struct Looked {
    at_ns: u64,
    fault: Option<String>,
}

impl Ready {
    pub(super) fn new(database: Database) -> Self {
        Self { database, last: Mutex::const_new(None) }
    }

    /// Why the database does not answer, if it does not.
    pub(super) async fn fault(&self, now_ns: u64) -> Option<String> {
        // Whoever comes meanwhile waits for the same answer.
        let mut last = self.last.lock().await;
        if let Some(looked) = last.as_ref().filter(|looked| now_ns.saturating_sub(looked.at_ns) < FRESH_NS) {
            return looked.fault.clone();
        }
        let asked = tokio::time::timeout(ANSWER_MAX, self.database.run_command(doc! {"ping": 1})).await;
        let fault = match asked {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("the database does not answer: {error}")),
            Err(_) => Some(format!("the database does not answer within {} s", ANSWER_MAX.as_secs())),
        };
        *last = Some(Looked { at_ns: now_ns, fault: fault.clone() });
        fault
    }
}
