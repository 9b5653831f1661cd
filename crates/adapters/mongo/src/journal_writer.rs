//! Writes the ledger to disk on a thread: reserves numbers before they are sent, then records their outcomes.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use plimsoll_ledger::journal::Error;
use plimsoll_ledger::{Allocation, Changed, Intent, Intents, Journals, Page, Run};

/// The thread that writes the ledger's journal.
#[derive(Debug)]
pub struct JournalWriter {
    sender: Sender<Message>,
    grants: Vec<Arc<Grant>>,
    thread: JoinHandle<Result<(), Error>>,
    first_worker: u64,
}

/// One worker's connection to the journal writer.
#[derive(Debug)]
pub struct Reservations {
    worker: u64,
    sender: Sender<Message>,
    grant: Arc<Grant>,
}

#[derive(Debug)]
enum Message {
    Reserve { worker: u64, until: u64 },
    Flush { worker: u64, pages: Vec<Page> },
    Intend { worker: u64, intent: Intent },
    Note { worker: u64, changed: Vec<Changed> },
    Close,
}

/// The numbers that the journal writer has reserved for one worker, and the intents that it has recorded.
#[derive(Debug, Default)]
struct Grant {
    state: Mutex<Granted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Granted {
    asked: u64,
    until: u64,
    intents: Intents,
    refused: bool,
}

impl JournalWriter {
    /// Starts the journal writer for the workers `workers` (numbered across all shards) in `dir`.
    ///
    /// # Errors
    /// When the directory cannot be written to.
    pub fn start(
        dir: &Path,
        run: Run,
        allocation: Allocation,
        workers: std::ops::Range<u64>,
    ) -> Result<Self, Error> {
        let journal = Journals::create(dir, run, allocation, workers.clone())?;
        let grants: Vec<_> = workers.clone().map(|_| Arc::<Grant>::default()).collect();
        let (sender, messages) = channel();
        let (known, first_worker) = (grants.clone(), workers.start);
        let thread = thread::spawn(move || {
            let result = write(journal, &messages, &known, first_worker);
            if result.is_err() {
                known.iter().for_each(|grant| grant.refuse());
            }
            result
        });
        Ok(Self { sender, grants, thread, first_worker })
    }

    /// The reservations of worker `worker`, numbered across all shards.
    pub fn reservations(&self, worker: u64) -> Option<Reservations> {
        let index = usize::try_from(worker.checked_sub(self.first_worker)?).ok()?;
        let grant = self.grants.get(index)?.clone();
        Some(Reservations { worker, sender: self.sender.clone(), grant })
    }

    /// Writes the rest and ends the thread.
    ///
    /// # Errors
    /// A disk error, at the close or earlier.
    pub fn close(self) -> Result<(), Error> {
        // A thread that ended early returns its error here.
        self.sender.send(Message::Close).unwrap_or_default();
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn write(
    mut journal: Journals,
    messages: &Receiver<Message>,
    grants: &[Arc<Grant>],
    first_worker: u64,
) -> Result<(), Error> {
    for message in messages {
        match message {
            Message::Reserve { worker, until } => {
                journal.reserve(worker, until)?;
                grants[(worker - first_worker) as usize].update(|granted| granted.until = until);
            }
            Message::Intend { worker, intent } => {
                journal.intend(worker, Intents::NONE.with(intent))?;
                let grant = |granted: &mut Granted| granted.intents = granted.intents.with(intent);
                grants[(worker - first_worker) as usize].update(grant);
            }
            Message::Note { worker, changed } => journal.note(worker, &changed)?,
            Message::Flush { worker, pages } => journal.flush(worker, &pages)?,
            Message::Close => break,
        }
    }
    Ok(())
}

impl Grant {
    fn update(&self, update: impl FnOnce(&mut Granted)) {
        update(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn refuse(&self) {
        self.update(|granted| granted.refused = true);
    }
}

impl Reservations {
    /// Requests all numbers up to the local index `until`, unless a request is open.
    pub fn ask(&self, until: u64) {
        let mut state = self.grant.state.lock().unwrap_or_else(PoisonError::into_inner);
        // One request at a time is enough: each covers seconds of load.
        if state.asked > state.until {
            return;
        }
        state.asked = until;
        drop(state);
        self.sender.send(Message::Reserve { worker: self.worker, until }).unwrap_or_default();
    }

    /// The local index up to which numbers are reserved.
    pub fn granted(&self) -> u64 {
        self.grant.state.lock().unwrap_or_else(PoisonError::into_inner).until
    }

    /// Waits until the numbers up to the local index `needed` are reserved; returns the reserved limit. It is less than `needed`
    /// only if a write to disk fails.
    pub fn wait(&self, needed: u64) -> u64 {
        let state = self.grant.state.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |granted: &mut Granted| granted.until < needed && !granted.refused;
        let state = self.grant.changed.wait_while(state, missing);
        state.unwrap_or_else(PoisonError::into_inner).until
    }

    /// Waits until the worker's intent is on disk; false if the write fails.
    pub fn intend(&self, intent: Intent) -> bool {
        self.sender.send(Message::Intend { worker: self.worker, intent }).unwrap_or_default();
        let state = self.grant.state.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |granted: &mut Granted| !granted.intents.contains(intent) && !granted.refused;
        let state = self.grant.changed.wait_while(state, missing);
        state.unwrap_or_else(PoisonError::into_inner).intents.contains(intent)
    }

    /// Hands over changed documents.
    pub fn note(&self, changed: Vec<Changed>) {
        self.sender.send(Message::Note { worker: self.worker, changed }).unwrap_or_default();
    }

    /// Hands over changed pages.
    pub fn flush(&self, pages: Vec<Page>) {
        self.sender.send(Message::Flush { worker: self.worker, pages }).unwrap_or_default();
    }
}
