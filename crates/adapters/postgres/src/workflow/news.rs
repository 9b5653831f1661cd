//! Carries news of work between processes by LISTEN and NOTIFY. News may be lost: a scan finds all work.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client, Error};

use super::address::{Address, Connection};
use super::session::Sessions;

/// The time in which news gathers for one notification.
const GATHER: Duration = Duration::from_millis(5);
/// The time between two attempts to listen.
const AGAIN: Duration = Duration::from_secs(5);
/// The largest number of notifications that wait for the worker. Further notifications are lost.
const WAITING_MAX: usize = 256;
/// The largest number of partitions in one notification. A server accepts 8,000 bytes.
const PARTITIONS_MAX: usize = 1_000;
/// Sends a notification. The statement is one transaction, which does not wait for the disk: a lost notification loses no work.
const NOTIFY: &str =
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify('plimsoll_workflow', $1)";

/// Gathers partitions with new work until they are sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    gathered: std::sync::Mutex<Gathered>,
}

#[derive(Debug, Default)]
struct Gathered {
    partitions: BTreeSet<u16>,
    is_sending: bool,
}

impl Outgoing {
    /// Sends partitions soon.
    pub(super) fn announce(self: &Arc<Self>, sessions: &Arc<Sessions>, partitions: &[u16]) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.partitions.extend(partitions);
        if !gathered.partitions.is_empty() && !gathered.is_sending {
            gathered.is_sending = true;
            tokio::spawn(self.clone().send(sessions.clone()));
        }
    }

    async fn send(self: Arc<Self>, sessions: Arc<Sessions>) {
        loop {
            sleep(GATHER).await;
            let Some(partitions) = self.take() else { return };
            let Ok(session) = sessions.get().await else { continue };
            // Lost news only delays work until the next scan.
            drop(session.rows(NOTIFY, &[&text(&partitions)]).await);
        }
    }

    /// The next partitions to send. `None` if none are left; the sender then stops.
    fn take(&self) -> Option<Vec<u16>> {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut partitions = Vec::new();
        while partitions.len() < PARTITIONS_MAX {
            let Some(partition) = gathered.partitions.pop_first() else { break };
            partitions.push(partition);
        }
        gathered.is_sending = !partitions.is_empty();
        gathered.is_sending.then_some(partitions)
    }
}

fn text(partitions: &[u16]) -> String {
    partitions.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn of_text(text: &str) -> Vec<u16> {
    text.split(',').filter_map(|partition| partition.parse().ok()).collect()
}

/// Listens on a separate connection, which is opened when the first caller waits.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    listening: Mutex<Option<Listening>>,
    is_open: AtomicBool,
}

#[derive(Debug)]
struct Listening {
    texts: mpsc::Receiver<String>,
    /// Whether the channel was full, and a notification was lost.
    has_lost: Arc<AtomicBool>,
    /// Kept because the connection ends when its client is dropped.
    _client: Client,
    connection: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Incoming {
    /// Whether the connection is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The next partitions with new work. After a broken connection, all partitions may have new work.
    pub(super) async fn next(&self, address: &Address, partitions: u16) -> Vec<u16> {
        let mut place = self.listening.lock().await;
        loop {
            match place.as_mut() {
                Some(listening) => match listening.texts.recv().await {
                    // The lost text may have named any partition.
                    Some(_) if listening.has_lost.swap(false, Ordering::Relaxed) => {
                        return (0..partitions).collect();
                    }
                    Some(text) => return of_text(&text),
                    None => {
                        self.is_open.store(false, Ordering::Relaxed);
                        *place = None;
                    }
                },
                None => match Listening::open(address).await {
                    Ok(listening) => {
                        *place = Some(listening);
                        self.is_open.store(true, Ordering::Relaxed);
                        return (0..partitions).collect();
                    }
                    Err(_) => sleep(AGAIN).await,
                },
            }
        }
    }
}

impl Listening {
    async fn open(address: &Address) -> Result<Self, Error> {
        let (client, connection) = address.connect().await?;
        let (sender, texts) = mpsc::channel(WAITING_MAX);
        let has_lost = Arc::<AtomicBool>::default();
        let connection = tokio::spawn(forward(connection, sender, has_lost.clone())).abort_handle();
        let listening = Self { texts, has_lost, _client: client, connection };
        listening._client.batch_execute("LISTEN plimsoll_workflow").await?;
        Ok(listening)
    }
}

/// Drives the connection and forwards its notifications, until it ends.
async fn forward(mut connection: Connection, sender: mpsc::Sender<String>, has_lost: Arc<AtomicBool>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            forward_text(&sender, &has_lost, notification.payload());
        }
    }
}

/// Forwards a text. If the channel is full, its reader learns that a text was lost.
fn forward_text(sender: &mpsc::Sender<String>, has_lost: &AtomicBool, text: &str) {
    if let Err(mpsc::error::TrySendError::Full(_)) = sender.try_send(text.to_owned()) {
        has_lost.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_finds_the_channel_full_is_noted_as_lost() {
        let (sender, _texts) = mpsc::channel(1);
        let has_lost = AtomicBool::new(false);
        forward_text(&sender, &has_lost, "1");
        assert!(!has_lost.load(Ordering::Relaxed));
        forward_text(&sender, &has_lost, "2");
        assert!(has_lost.load(Ordering::Relaxed));
    }

    #[test]
    fn partitions_survive_their_text() {
        assert_eq!(of_text(&text(&[0, 7, 32_767])), [0, 7, 32_767]);
        assert!(of_text("").is_empty());
    }
}
