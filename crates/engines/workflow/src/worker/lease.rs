//! Decides when to ask for partitions, and how many.

use std::collections::BTreeMap;

use super::settings::Settings;
use crate::port::{LeaseRequest, Leases, Stored};

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
        let want = usize::from(partitions).div_ceil(self.owners.max(1));
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
        self.owners = leases.owners;
        let epochs: BTreeMap<_, _> = leases.held.iter().map(|lease| (lease.partition, lease.epoch)).collect();
        let lost = self.epochs.iter().filter(|(partition, epoch)| epochs.get(partition) != Some(epoch));
        let lost = lost.map(|(partition, _)| *partition).collect();
        let is_new = epochs.iter().any(|(partition, epoch)| self.epochs.get(partition) != Some(epoch));
        self.epochs = epochs;
        (lost, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Lease;

    #[test]
    fn a_process_asks_at_once_when_another_one_has_gone() {
        let settings = Settings::new("a");
        let mut held = Held::default();
        let mut ask = |now_ms, owners: usize, partitions: u16| {
            let request = held.ask(&settings, 4, now_ms)?;
            let leases = (0..partitions).map(|partition| Lease { partition, epoch: 1 }).collect();
            held.answer(&settings, now_ms, now_ms, Ok(Leases { held: leases, owners }));
            Some(request.want)
        };
        assert_eq!(ask(0, 2, 2), Some(4));
        assert_eq!(ask(1, 2, 2), None, "the number of processes is the same or has grown");
        assert_eq!(ask(5_000, 1, 2), Some(2));
        assert_eq!(ask(5_001, 1, 4), Some(4));
        assert_eq!(ask(5_002, 1, 4), None);
    }
}
