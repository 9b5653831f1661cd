//! Samples the machine of a local server ten times a second, on its own thread. Contacts no server, so a server that hangs is
//! watched too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_host::machine::HostWatch;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::host_sample::HostSample;

/// The shortest time between two samples.
const EVERY: Duration = Duration::from_millis(100);
/// A sample of many threads takes long: the pause after it is this many times longer, so that sampling takes at most 2 % of a core.
const PAUSE_PER_LOOK: u32 = 50;
/// The longest pause between two samples.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The limit of kept samples: those of an hour. Older samples are dropped.
const SAMPLES_MAX: usize = 36_000;

/// The sampling thread. It ends when this value is dropped.
#[derive(Debug)]
pub struct HostObserver {
    samples: Arc<Mutex<VecDeque<HostSample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostObserver {
    /// Starts to sample these processes of one server. `None` if none of them is on this machine. Times count from `start`.
    pub fn start(pids: &[u32], start: Instant) -> Option<Self> {
        let mut watch = HostWatch::of(pids)?;
        let samples = Arc::new(Mutex::new(VecDeque::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, asked) = (samples.clone(), stop.clone());
        let thread = thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                let began = clock::now();
                keep(&seen, watch.look(began.since(start)));
                thread::sleep(pause(Duration::from_nanos(clock::now().since(began))));
            }
        });
        Some(Self { samples, stop, thread: Some(thread) })
    }

    /// The samples that began at `from_ns` or later, in nanoseconds from the run's start, in order.
    pub fn since(&self, from_ns: u64) -> Vec<HostSample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let first = samples.partition_point(|sample| sample.from_ns < from_ns);
        samples.range(first..).copied().collect()
    }
}

impl Drop for HostObserver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread computes nothing that can fail. If it panics, its samples end early.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn keep(samples: &Mutex<VecDeque<HostSample>>, sample: Option<HostSample>) {
    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    if samples.len() == SAMPLES_MAX {
        samples.pop_front();
    }
    samples.extend(sample);
}

/// The pause after a sample that took `took`.
fn pause(took: Duration) -> Duration {
    (took * PAUSE_PER_LOOK).clamp(EVERY.saturating_sub(took), PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cheap_look_repeats_each_tenth_and_an_expensive_one_less_often() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(1)), ms(99));
        assert_eq!(pause(ms(4)), ms(200));
        assert_eq!(pause(ms(90)), PAUSE_MAX);
    }

    #[test]
    fn this_process_is_sampled_until_the_observer_is_dropped() {
        let start = clock::now();
        let observer = HostObserver::start(&[std::process::id()], start).unwrap();
        while observer.since(0).len() < 2 {
            thread::yield_now();
        }
        let samples = observer.since(0);
        assert!(samples[0].cores_used.is_some() && samples[0].to_ns == samples[1].from_ns, "{samples:?}");
        assert!(observer.since(samples[1].from_ns).iter().all(|it| it.from_ns >= samples[1].from_ns));
        drop(observer);
        assert!(HostObserver::start(&[], start).is_none());
    }

    #[test]
    fn only_the_newest_samples_are_kept() {
        let samples = Mutex::new(VecDeque::new());
        for from_ns in 0..SAMPLES_MAX as u64 + 2 {
            keep(&samples, Some(HostSample { from_ns, ..HostSample::default() }));
        }
        let samples = samples.into_inner().unwrap();
        assert_eq!((samples.len(), samples[0].from_ns), (SAMPLES_MAX, 2));
    }
}
