//! Decides when to ask for partitions, and how many.

use std::collections::{BTreeMap, BTreeSet};

use super::settings::Settings;
use crate::port::{Holder, LeaseRequest, Leases, Stored};

/// The partitions of a worker.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The epochs by partition.
    epochs: BTreeMap<u16, u64>,
    /// The moment after which the worker may not act, by its own clock.
    until_ms: u64,
    next_ms: u64,
    is_asking: bool,
    owners: usize,
    /// The moment since which partitions have been free without interruption.
    free_since_ms: Option<u64>,
    /// The partitions that the worker asks for beyond its share, with those of its share, because other processes left them free.
    beyond: usize,
    /// The owners of partitions at the last look, which happens only while the worker asks for more than its share.
    holders: Option<BTreeSet<String>>,
}

impl Held {
    /// The epoch of a partition that the worker may use now.
    pub fn epoch(&self, partition: u16, now_ms: u64) -> Option<u64> {
        self.epochs.get(&partition).copied().filter(|_| now_ms < self.until_ms)
    }

    /// The partitions.
    pub fn partitions(&self) -> Vec<u16> {
        self.epochs.keys().copied().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.epochs.is_empty()
    }

    /// The moment of the next request, or of the end.
    pub fn wake_ms(&self) -> u64 {
        let end_ms = if self.epochs.is_empty() { u64::MAX } else { self.until_ms };
        if self.is_asking { end_ms } else { self.next_ms.min(end_ms) }
    }

    /// The partitions whose leases have ended by the worker's clock.
    pub fn expire(&mut self, now_ms: u64) -> Vec<u16> {
        if now_ms < self.until_ms {
            return Vec::new();
        }
        std::mem::take(&mut self.epochs).into_keys().collect()
    }

    /// Gives up all partitions after a jump of the clock: the end of the leases is unknown.
    pub fn restart(&mut self, now_ms: u64) -> Vec<u16> {
        (self.until_ms, self.next_ms) = (0, now_ms);
        std::mem::take(&mut self.epochs).into_keys().collect()
    }

    /// The next request, if it is time: a fair share of all partitions. Partitions that it gives back are no longer held.
    pub fn ask(&mut self, settings: &Settings, partitions: u16, now_ms: u64) -> Option<LeaseRequest> {
        if self.is_asking || now_ms < self.next_ms {
            return None;
        }
        self.is_asking = true;
        let share = usize::from(partitions).div_ceil(self.owners.max(1));
        let want = share.max(self.beyond);
        let release: Vec<_> = self.epochs.keys().copied().skip(want).collect();
        self.epochs.retain(|partition, _| !release.contains(partition));
        Some(LeaseRequest { owner: settings.owner.clone(), ttl_ms: settings.ttl_ms, want, release })
    }

    /// Applies an answer; returns the partitions that are lost, and whether others are new.
    pub fn answer(
        &mut self,
        settings: &Settings,
        asked_ms: u64,
        now_ms: u64,
        result: Stored<Leases>,
    ) -> (Vec<u16>, bool) {
        self.is_asking = false;
        let Ok(leases) = result else {
            self.next_ms = now_ms.saturating_add(settings.poll_min_ms);
            return (Vec::new(), false);
        };
        // A clock that was set back must not lengthen the lease.
        let asked_ms = asked_ms.min(now_ms);
        self.until_ms = asked_ms.saturating_add(settings.ttl_ms.saturating_sub(settings.margin_ms));
        // A process has gone, so this worker's share has grown since the request: the next request follows at once.
        let has_gone = leases.owners < self.owners;
        self.next_ms = asked_ms.saturating_add(if has_gone { 0 } else { settings.ttl_ms / 3 });
        self.note_free(settings, asked_ms, &leases);
        self.owners = leases.owners;
        let epochs: BTreeMap<_, _> = leases.held.iter().map(|lease| (lease.partition, lease.epoch)).collect();
        let lost = self.epochs.iter().filter(|(partition, epoch)| epochs.get(partition) != Some(epoch));
        let lost = lost.map(|(partition, _)| *partition).collect();
        let is_new = epochs.iter().any(|(partition, epoch)| self.epochs.get(partition) != Some(epoch));
        self.epochs = epochs;
        (lost, is_new)
    }

    /// Decides whether to claim more than a share. Other processes may limit how much they hold, and so leave partitions free for ever. Every
    /// process claims its share within a lease, so those that are free for longer belong to whoever asks first. A change of the processes leads
    /// back to equal shares.
    fn note_free(&mut self, settings: &Settings, asked_ms: u64, leases: &Leases) {
        if leases.owners != self.owners {
            self.share_equally();
        }
        if leases.free == 0 {
            self.free_since_ms = None;
            return;
        }
        let since_ms = *self.free_since_ms.get_or_insert(asked_ms);
        if asked_ms.saturating_sub(since_ms) >= settings.ttl_ms {
            self.beyond = leases.held.len() + leases.free;
        }
    }

    fn share_equally(&mut self) {
        (self.free_since_ms, self.beyond, self.holders) = (None, 0, None);
    }

    /// Whether the worker asks for more than its share, and needs to know whether the other processes are still the same.
    pub const fn is_beyond(&self) -> bool {
        self.beyond > 0
    }

    /// Notes the owners of partitions. A process may have replaced another one and hold more than that: their number stays the same.
    pub fn note_holders(&mut self, holders: &[Holder]) {
        let live = holders.iter().filter(|holder| holder.lease_ms > 0);
        let now: BTreeSet<_> = live.map(|holder| holder.owner.clone()).collect();
        let is_same = self.holders.as_ref().is_none_or(|before| *before == now);
        self.holders = Some(now);
        if !is_same {
            self.share_equally();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::memory::{Memory, Removal};
    use crate::port::{Lease, Store};

    /// A process that holds at most `most` partitions.
    struct Process {
        settings: Settings,
        held: Held,
        most: usize,
    }

    impl Process {
        fn new(owner: &str, most: usize) -> Self {
            Self { settings: Settings::new(owner), held: Held::default(), most }
        }

        fn ask(&mut self, store: &Memory, now_ms: u64) {
            self.held.expire(now_ms);
            let Some(request) = self.held.ask(&self.settings, store.partitions(), now_ms) else { return };
            let request = LeaseRequest { want: request.want.min(self.most), ..request };
            let answer = store.lease(&request).now_or_never().unwrap();
            self.held.answer(&self.settings, now_ms, now_ms, answer);
            if self.held.is_beyond() {
                self.held.note_holders(&store.holders().now_or_never().unwrap().unwrap());
            }
        }

        fn stop(&mut self, store: &Memory) {
            let (owner, release) = (self.settings.owner.clone(), self.held.partitions());
            let request = LeaseRequest { owner, ttl_ms: 1, want: 0, release };
            store.lease(&request).now_or_never().unwrap().unwrap();
        }
    }

    /// Lets processes ask for a time; returns the partitions of each.
    fn pass(store: &Memory, processes: &mut [Process], times: std::ops::Range<u64>) -> Vec<usize> {
        for now_ms in times.step_by(1_000) {
            store.set_clock(now_ms);
            processes.iter_mut().for_each(|process| process.ask(store, now_ms));
        }
        processes.iter().map(|process| process.held.partitions().len()).collect()
    }

    #[test]
    fn partitions_that_a_limited_process_leaves_free_find_an_owner() {
        let store = Memory::new(64, Removal::WithCommit);
        let mut processes = vec![Process::new("limited", 8), Process::new("other", usize::MAX)];
        assert_eq!(pass(&store, &mut processes, 1_000..61_000), [8, 56]);
        // A further process leads to equal shares again, and the rest is claimed again.
        processes.push(Process::new("third", usize::MAX));
        let held = pass(&store, &mut processes, 61_000..181_000);
        assert_eq!(held.iter().sum::<usize>(), 64, "{held:?}");
        assert!(held[0] == 8 && held[2] >= 22, "{held:?}");
        // The limit of the last process stays a limit.
        processes.truncate(1);
        assert_eq!(pass(&store, &mut processes, 181_000..241_000), [8]);
    }

    #[test]
    fn a_process_that_replaces_a_limited_one_gets_its_share() {
        let store = Memory::new(64, Removal::WithCommit);
        let mut processes = vec![Process::new("limited", 8), Process::new("other", usize::MAX)];
        assert_eq!(pass(&store, &mut processes, 1_000..61_000), [8, 56]);
        processes[0].stop(&store);
        processes[0] = Process::new("unlimited", usize::MAX);
        assert_eq!(pass(&store, &mut processes, 61_000..121_000), [32, 32]);
    }

    #[test]
    fn a_process_asks_at_once_when_another_one_has_gone() {
        let settings = Settings::new("a");
        let mut held = Held::default();
        let mut ask = |now_ms, owners: usize, partitions: u16| {
            let request = held.ask(&settings, 4, now_ms)?;
            let leases = (0..partitions).map(|partition| Lease { partition, epoch: 1 }).collect();
            held.answer(&settings, now_ms, now_ms, Ok(Leases { held: leases, owners, free: 0 }));
            Some(request.want)
        };
        assert_eq!(ask(0, 2, 2), Some(4));
        assert_eq!(ask(1, 2, 2), None, "the number of processes is the same or has grown");
        assert_eq!(ask(5_000, 1, 2), Some(2));
        assert_eq!(ask(5_001, 1, 4), Some(4));
        assert_eq!(ask(5_002, 1, 4), None);
    }
}
