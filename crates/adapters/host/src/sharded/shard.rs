//! Sends commands to the primary of one shard, and counts them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bson::{Document, doc};
use plimsoll_wire::frame;

use crate::replica_set::service::MemberService;
use crate::replica_set::shared::Shared;
use crate::replica_set::state::State;
use crate::replica_set::write_concern::WAIT_MAX;
use crate::serve::{Request, Service};

/// A shard, as routers see it.
#[derive(Debug)]
pub(super) struct Shard {
    pub name: String,
    pub set: Arc<Shared>,
    /// The number of commands that the shard received, by name.
    pub counts: Mutex<BTreeMap<String, u64>>,
}

impl Shard {
    /// Sends a command and returns the answer. Retries a numbered write once after an election, as mongos
    /// does.
    pub fn ask(&self, command: &Document) -> Document {
        let answer = self.ask_once(command);
        let labels = answer.get_array("errorLabels").into_iter().flatten();
        let is_retryable = labels.filter_map(bson::Bson::as_str).any(|label| label == "RetryableWriteError");
        if is_retryable { self.ask_once(command) } else { answer }
    }

    fn ask_once(&self, command: &Document) -> Document {
        let name = command.keys().next().cloned().unwrap_or_default();
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
        let Some(index) = self.primary() else {
            let message = format!("the shard {} has no primary", self.name);
            return doc! {"ok": 0.0, "code": 133, "codeName": "FailedToSatisfyReadPreference", "errmsg": message};
        };
        let (bytes, mut answer) = (message(command), Vec::new());
        if let Ok(request) = Request::parse(&bytes) {
            MemberService { shared: self.set.clone(), index }.answer(&request, &mut answer);
        }
        Document::from_reader(answer.as_slice()).unwrap_or_default()
    }

    /// Whether the shard's primary has the transaction that a command commits, or has committed it.
    pub fn has_transaction(&self, command: &Document) -> bool {
        let Some(index) = self.primary() else { return false };
        let bytes = message(command);
        Request::parse(&bytes)
            .is_ok_and(|request| !self.set.state().members[index].lacks_transaction(&request))
    }

    /// The primary. Without a primary, waits for an election.
    fn primary(&self) -> Option<usize> {
        let has_primary = |state: &mut State| state.primary().is_some() || state.is_closing;
        self.set.wait(self.set.state(), WAIT_MAX, has_primary).0.primary()
    }
}

/// A command as a message.
fn message(command: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    let at = frame::start(&mut bytes, 1, 0, 0);
    bytes.extend(command.to_vec().unwrap_or_default());
    frame::finish(&mut bytes, at);
    bytes
}
