//! Decides replication, elections and rollbacks of a replica set. Pure: never waits and sends nothing.

use std::sync::Arc;

use plimsoll_measure::clock::Instant;
use plimsoll_measure::random::{STEP, mix};

use super::member::{DocumentName, Entry, Member};
use super::{NotElected, Options};
use crate::serve::Request;

/// All members of a replica set. One lock protects them.
#[derive(Debug)]
pub(crate) struct State {
    pub members: Vec<Member>,
    options: Options,
    /// The newest term.
    term: u64,
    /// Whether replication is paused.
    pub is_held: bool,
    /// Whether the set is being dropped, so that all waits end.
    pub is_closing: bool,
    /// The present moment, as the holder of the lock read it.
    pub now: Instant,
    /// The entries that members removed when they followed a new primary.
    removed: Vec<Entry>,
}

impl State {
    pub fn new(options: Options) -> Self {
        let members = (0..options.members).map(|_| Member::new(options.memory_bytes_max)).collect();
        let (is_held, is_closing) = (false, false);
        Self { members, options, term: 0, is_held, is_closing, now: Instant::default(), removed: Vec::new() }
    }

    /// The number of members that are a majority.
    pub const fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// The primary that the connected members follow.
    pub fn primary(&self) -> Option<usize> {
        self.members.iter().position(|member| member.leads.is_some() && member.is_connected())
    }

    /// The primary as a member knows it. An isolated member knows itself.
    pub fn primary_for(&self, index: usize) -> Option<usize> {
        let member = &self.members[index];
        if member.leads.is_some() { Some(index) } else { self.primary().filter(|_| member.is_connected()) }
    }

    /// Elects a member, which needs the votes of a majority. A member votes for a candidate whose log is not
    /// older than its own.
    ///
    /// # Errors
    /// [`NotElected`]; nothing changes.
    pub fn elect(&mut self, candidate: usize) -> Result<(), NotElected> {
        let (last, majority) = (self.members[candidate].last(), self.majority());
        let voters = self.members.iter().filter(|voter| voter.is_connected() && voter.last() <= last);
        let votes = if self.members[candidate].is_connected() { voters.count() } else { 0 };
        if votes < majority {
            return Err(NotElected { member: candidate, votes, majority });
        }
        self.term += 1;
        for member in self.members.iter_mut().filter(|member| member.is_connected()) {
            member.leads = None;
        }
        self.members[candidate].leads = Some(self.term);
        self.members[candidate].append(self.term, None, self.now);
        self.changed();
        self.replicate(candidate, usize::MAX);
        Ok(())
    }

    /// The member that wins an election now: a member with the latest log. The seed chooses among equal
    /// members.
    pub fn winner(&self) -> Option<usize> {
        let connected = || (0..self.members.len()).filter(|index| self.members[*index].is_connected());
        let latest = connected().map(|index| self.members[index].last()).max()?;
        let equal: Vec<usize> = connected().filter(|index| self.members[*index].last() == latest).collect();
        let drawn = mix(self.options.seed.wrapping_add((self.term + 1).wrapping_mul(STEP)));
        equal.get((drawn % equal.len() as u64) as usize).copied()
    }

    /// Copies the log of a primary to the connected members: all entries except the last `lag`, or the
    /// entries up to the index `wanted` if those are more.
    pub fn replicate(&mut self, primary: usize, wanted: usize) {
        if self.is_held || !self.members[primary].is_connected() || self.members[primary].leads.is_none() {
            return;
        }
        let len = self.members[primary].len();
        let end = wanted.min(len).max(len.saturating_sub(self.options.lag));
        for index in (0..self.members.len()).filter(|index| *index != primary) {
            if self.members[index].is_connected() {
                let delay_ns = self.members[index].delay_ns;
                self.copy(primary, index, end.min(self.members[primary].len_before(self.now, delay_ns)));
            }
        }
    }

    fn copy(&mut self, from: usize, to: usize, end: usize) {
        if let Ok([from, to]) = self.members.get_disjoint_mut([from, to]) {
            self.removed.extend(to.follow(from, end));
        }
    }

    /// The number of members that have the first `position` entries of a member.
    pub fn copies(&self, of: usize, position: usize) -> usize {
        let has = |member: &&Member| member.shared_with(&self.members[of]) >= position;
        self.members.iter().filter(has).count()
    }

    /// The number of a member's last entries that no majority has.
    pub fn unconfirmed(&self, of: usize) -> usize {
        let member = &self.members[of];
        let mut shared: Vec<usize> = self.members.iter().map(|other| other.shared_with(member)).collect();
        shared.sort_unstable_by_key(|shared| std::cmp::Reverse(*shared));
        member.len() - shared[self.majority() - 1]
    }

    /// Handles a client's greeting of a member. Greetings stand for the passing of time: at each greeting of
    /// the primary, the secondaries get the entries that the primary had at the greeting before.
    pub fn greet(&mut self, index: usize) {
        if self.members[index].leads.is_none() {
            // A member with a delay gets the entries that are old enough by now.
            return self.primary().into_iter().for_each(|primary| self.replicate(primary, 0));
        }
        let len = self.members[index].len();
        let greeted = std::mem::replace(&mut self.members[index].greeted, len);
        self.replicate(index, greeted);
    }

    /// The primary gives up its role, after the secondaries have caught up.
    pub fn step_down(&mut self) {
        let Some(primary) = self.primary() else { return };
        self.replicate(primary, usize::MAX);
        self.members[primary].leads = None;
        self.changed();
    }

    /// A member ends. Its log stays.
    pub fn kill(&mut self, index: usize) {
        let member = &mut self.members[index];
        (member.is_up, member.leads) = (false, None);
        self.changed();
    }

    /// A member starts again, or is reached again, and follows the primary.
    pub fn rejoin(&mut self, index: usize) {
        let member = &mut self.members[index];
        (member.is_up, member.is_isolated) = (true, false);
        if member.leads.is_some_and(|term| term < self.term) {
            member.leads = None;
        }
        self.changed();
        if let Some(primary) = self.primary() {
            self.replicate(primary, usize::MAX);
        }
    }

    /// Executes a write on its primary, unless it is recorded already; returns its answer.
    pub fn write(&mut self, primary: usize, request: &Request<'_>) -> Arc<[u8]> {
        let member = &mut self.members[primary];
        if let Some(answer) = member.recorded(request) {
            return answer;
        }
        let answer = member.append(member.leads.unwrap_or_default(), Some(request.bytes), self.now);
        self.replicate(primary, 0);
        answer
    }

    /// Counts a change of the set, as `topologyVersion` does.
    pub fn changed(&mut self) {
        self.members.iter_mut().for_each(|member| member.view += 1);
    }

    /// The documents of rolled back inserts that the primary lacks.
    pub fn rolled_back(&self) -> Vec<DocumentName> {
        let stored = self.primary().map(|index| &self.members[index].store);
        let is_missing = |(namespace, id): &&DocumentName| {
            let collection = stored.and_then(|stored| stored.collections.get(namespace));
            collection.is_none_or(|collection| !collection.has_id(id))
        };
        self.removed.iter().flat_map(|entry| &entry.inserted).filter(is_missing).cloned().collect()
    }

    /// The documents of rolled back updates, once for each update. An update that was sent again to the primary is not rolled
    /// back.
    pub fn rolled_back_updates(&self) -> Vec<DocumentName> {
        let primary = self.primary().map(|index| &self.members[index]);
        let is_repeated = |entry: &Entry| {
            let write = entry.write.as_ref();
            write.zip(primary).is_some_and(|(write, primary)| primary.has(write))
        };
        let removed = self.removed.iter().filter(|entry| !is_repeated(entry));
        removed.flat_map(|entry| &entry.updated).cloned().collect()
    }
}
