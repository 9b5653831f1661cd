//! Keeps the times of the last 10 to 20 samples, so that a scrape every 10 seconds misses none.

use plimsoll_pipeline::meter::Stages;

/// The number of samples, one a second, after which the older half is dropped.
const SAMPLES: u32 = 10;

/// The times of the last 10 to 20 samples.
pub struct RecentTimes {
    count: usize,
    before: Stages,
    now: Stages,
    samples: u32,
}

impl RecentTimes {
    /// An empty buffer for `count` stages.
    pub fn new(count: usize) -> Self {
        Self { count, before: Stages::new(count), now: Stages::new(count), samples: 0 }
    }

    /// Adds the times of one sample.
    pub fn add(&mut self, times: &Stages) {
        if self.samples == SAMPLES {
            self.before = std::mem::replace(&mut self.now, Stages::new(self.count));
            self.samples = 0;
        }
        self.now.merge(times);
        self.samples += 1;
    }

    /// The times of all samples.
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
    fn a_time_is_reported_in_10_to_20_samples() {
        let (meter, mut recent) = (Meter::new(&[]), RecentTimes::new(3));
        let slot = meter.slot();
        slot.record(1, 7_000_000, 1);
        let mut samples = 0;
        for _ in 0..100 {
            recent.add(&meter.take_times());
            samples += recent.all().of(1).count();
        }
        assert!((10..=20).contains(&samples), "{samples} samples");
    }
}
