//! Runs a simulated replica set: members on ports of this process that replicate, elect, step down and roll back.
//!
//! All members share one lock, so that a test decides the order of events. A member's documents follow from
//! its log of commands, as in Raft: a candidate needs the votes of a majority, and a member votes only for a
//! log that is not older than its own. So a write that a majority has survives every election, and a write
//! that fewer have may be rolled back. A secondary lacks the primary's last entries, as many as the lag,
//! until a command waits for a majority. Members store documents as the faulty server does, without defects;
//! they support retryable writes, and transactions of inserts and updates. A transaction is stored when its commit is in the log;
//! a new primary aborts the open ones. A member may lag by time, as MongoDB's delayed members do: it gets no entry
//! before the entry has that age.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::Bson;

use crate::serve::{AnswerDelay, Listener};

pub use crate::serve::Error;

mod hello;
mod member;
pub(crate) mod service;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod write_concern;

use service::MemberService;
use shared::Shared;
use state::State;

/// The limit of members.
pub const MEMBERS_MAX: usize = 7;

/// The settings of a replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The name of the set.
    pub name: String,
    /// The number of members, from 1 to [`MEMBERS_MAX`].
    pub members: usize,
    /// The number of the primary's last entries that its secondaries lack.
    pub lag: usize,
    /// The seed of the choice among equal candidates.
    pub seed: u64,
    /// The limit of bytes for the documents of each member. Its log takes as much again.
    pub memory_bytes_max: u64,
}

impl Default for Options {
    /// Three members without lag, 1 GiB each.
    fn default() -> Self {
        Self { name: "rs".to_owned(), members: 3, lag: 0, seed: 1, memory_bytes_max: 1 << 30 }
    }
}

/// A candidate did not get the votes of a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "member {member} has {votes} votes of the {majority} that an election needs: elect one with a later log"
)]
pub struct NotElected {
    /// The candidate.
    pub member: usize,
    /// The number of members that may vote for the candidate.
    pub votes: usize,
    /// The number of votes that the candidate needs.
    pub majority: usize,
}

/// A replica set on free ports of 127.0.0.1. Dropping it closes all connections and ends all threads.
#[derive(Debug)]
pub struct ReplicaSet {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    listeners: Vec<Mutex<Option<Listener<MemberService>>>>,
}

impl ReplicaSet {
    /// Starts the members and elects the first.
    ///
    /// # Errors
    /// [`Error`] if no port is available.
    ///
    /// # Panics
    /// With fewer than one or more than [`MEMBERS_MAX`] members.
    pub fn start(options: Options) -> Result<Self, Error> {
        assert!((1..=MEMBERS_MAX).contains(&options.members), "from 1 to {MEMBERS_MAX} members");
        // Members know each other's addresses, so all ports are reserved before the first member listens.
        let reserved = (0..options.members).map(|_| TcpListener::bind(("127.0.0.1", 0)));
        let reserved = reserved.collect::<Result<Vec<_>, _>>()?;
        let addresses = reserved.iter().map(|port| port.local_addr()).collect::<Result<Vec<_>, _>>()?;
        let names = addresses.iter().map(ToString::to_string).collect();
        let name = options.name.clone();
        let mut state = State::new(options);
        // All members are connected and equal, so the first gets every vote.
        state.elect(0).unwrap_or_default();
        let shared = Arc::new(Shared::new(name, names, state));
        let listeners = reserved.into_iter().enumerate().map(|(index, port)| listen(&shared, index, port));
        let listeners =
            listeners.map(|listener| Ok(Mutex::new(Some(listener?)))).collect::<Result<_, Error>>()?;
        Ok(Self { shared, addresses, listeners })
    }

    /// The addresses of the members.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The connection string of the set, which names all members.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?replicaSet={}", self.shared.names.join(","), self.shared.set_name)
    }

    /// The primary that the connected members follow.
    pub fn primary(&self) -> Option<usize> {
        self.shared.state().primary()
    }

    /// The number of documents that the primary has in a collection, `database.collection`.
    pub fn documents(&self, namespace: &str) -> usize {
        let state = self.shared.state();
        let stored = state.primary().and_then(|index| state.members[index].store.collections.get(namespace));
        stored.map_or(0, |collection| collection.len())
    }

    /// The number of the primary's entries so far: one for each write, each part of a transaction, and each election.
    pub fn entries(&self) -> usize {
        let state = self.shared.state();
        state.primary().map_or(0, |primary| state.members[primary].len())
    }

    /// The number of the primary's last entries that no majority has.
    pub fn unconfirmed(&self) -> usize {
        let state = self.shared.state();
        state.primary().map_or(0, |primary| state.unconfirmed(primary))
    }

    /// Elects a member. The others follow it, and roll back the writes that it lacks.
    ///
    /// # Errors
    /// [`NotElected`]; the set stays as it is.
    pub fn elect(&self, member: usize) -> Result<(), NotElected> {
        self.shared.change(|state| state.elect(member))
    }

    /// The primary steps down after the secondaries have caught up. The set has no primary until the next election.
    pub fn step_down(&self) {
        self.shared.change(State::step_down);
    }

    /// Kills the primary and elects the member with the latest log; returns both. None without a primary or a majority.
    pub fn fail_over(&self) -> Option<(usize, usize)> {
        let killed = self.primary()?;
        self.kill(killed);
        let winner = self.shared.change(|state| {
            let winner = state.winner()?;
            state.elect(winner).ok().map(|()| winner)
        });
        Some((killed, winner?))
    }

    /// Cuts a member off from the others. Clients still reach it, and an isolated primary still believes that it is the primary.
    pub fn isolate(&self, member: usize) {
        self.shared.change(|state| {
            state.members[member].is_isolated = true;
            state.changed();
        });
    }

    /// Connects an isolated member again: it follows the primary, and rolls back the writes that the primary lacks.
    pub fn rejoin(&self, member: usize) {
        self.shared.change(|state| state.rejoin(member));
    }

    /// Kills a member: its connections close, and its port refuses new ones. Its documents stay.
    pub fn kill(&self, member: usize) {
        self.shared.change(|state| state.kill(member));
        let listener = self.listeners[member].lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(listener);
    }

    /// Starts a killed member again on its port: it follows the primary, and rolls back the writes that the primary lacks.
    ///
    /// # Errors
    /// [`Error`] if another program took the port.
    pub fn restart(&self, member: usize) -> Result<(), Error> {
        let mut listener = self.listeners[member].lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_none() {
            let port = TcpListener::bind(self.addresses[member])?;
            self.rejoin(member);
            *listener = Some(listen(&self.shared, member, port)?);
        }
        Ok(())
    }

    /// Pauses the replication, or resumes it.
    pub fn hold(&self, is_held: bool) {
        self.shared.change(|state| state.is_held = is_held);
    }

    /// A member gets each entry only when the entry is this old. Writes that wait for a majority do not hasten it.
    pub fn delay(&self, member: usize, age: Duration) {
        let delay_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.shared.change(|state| state.members[member].delay_ns = delay_ns);
    }

    /// A member silently loses the document at `position` in its order of a collection,
    /// `database.collection`. Returns the document's `_id`.
    pub fn lose(&self, member: usize, namespace: &str, position: usize) -> Option<Bson> {
        self.shared.change(|state| state.members[member].lose(namespace, position))
    }

    /// One bit of a member's document flips. Returns the document's `_id`.
    pub fn flip(&self, member: usize, namespace: &str, position: usize) -> Option<Bson> {
        self.shared.change(|state| state.members[member].flip(namespace, position))
    }

    /// The documents of rolled back inserts that the primary lacks, as `database.collection` and `_id`, in the order of their
    /// inserts. A member rolls back when it follows a new primary.
    pub fn rolled_back(&self) -> Vec<(String, Bson)> {
        self.shared.state().rolled_back()
    }

    /// The documents of rolled back updates, also of those in transactions, once for each update: `database.collection` and
    /// `_id`. An update that its client sent again to the primary is not one of them.
    pub fn rolled_back_updates(&self) -> Vec<(String, Bson)> {
        self.shared.state().rolled_back_updates()
    }

    /// The primary's document at a position.
    pub(crate) fn copy(&self, namespace: &str, position: usize) -> Option<Vec<u8>> {
        let state = self.shared.state();
        let primary = &state.members[state.primary()?];
        primary.store.collections.get(namespace)?.get(position).map(<[u8]>::to_vec)
    }

    /// Stores a document on all members.
    pub(crate) fn plant(&self, namespace: &str, document: &[u8]) {
        self.shared.change(|state| state.members.iter_mut().for_each(|it| it.plant(namespace, document)));
    }

    /// Removes a document from all members.
    pub(crate) fn uproot(&self, namespace: &str, id: &Bson) {
        self.shared.change(|state| state.members.iter_mut().for_each(|it| it.uproot(namespace, id)));
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for ReplicaSet {
    fn drop(&mut self) {
        // Commands that wait for a change must end before their connections can close.
        self.shared.change(|state| state.is_closing = true);
    }
}

fn listen(shared: &Arc<Shared>, index: usize, port: TcpListener) -> Result<Listener<MemberService>, Error> {
    let service = MemberService { shared: shared.clone(), index };
    Listener::open_on(port, service, AnswerDelay::default())
}

#[cfg(test)]
mod tests;
