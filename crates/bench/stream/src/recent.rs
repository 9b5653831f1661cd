//! Keeps the times of the last 10 to 20 looks, so that a scrape every 10 seconds misses none.

use plimsoll_pipeline::meter::Stages;

/// Looks, one a second, that are gathered before the oldest are let go.
const LOOKS: u32 = 10;

/// The times of the last 10 to 20 looks.
pub struct Recent {
    count: usize,
    before: Stages,
    now: Stages,
    looks: u32,
}

impl Recent {
    /// No times of `count` stages.
    pub fn new(count: usize) -> Self {
        Self { count, before: Stages::new(count), now: Stages::new(count), looks: 0 }
    }

    /// Adds what one look took.
    pub fn add(&mut self, times: &Stages) {
        if self.looks == LOOKS {
            self.before = std::mem::replace(&mut self.now, Stages::new(self.count));
            self.looks = 0;
        }
        self.now.merge(times);
        self.looks += 1;
    }

    /// All of them.
    pub fn all(&self) -> Stages {
        let mut all = self.before.clone();
        all.merge(&self.now);
        all
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_pipeline::meter::Meter;

    use super::*;

    #[test]
    fn a_time_is_told_for_ten_looks_at_least_and_twenty_at_most() {
        let (meter, mut recent) = (Meter::new(&[]), Recent::new(3));
        let slot = meter.slot();
        slot.record(1, 7_000_000, 1);
        let mut told = 0;
        for _ in 0..100 {
            recent.add(&meter.take_times());
            told += recent.all().of(1).count();
        }
        assert!((10..=20).contains(&told), "{told} looks");
    }
}
