//! Uses CPU in place of a server that would share the machine with the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_measure::clock;

/// The length of one turn of work and rest.
const TURN: Duration = Duration::from_millis(1);
/// The maximum number of threads.
const THREADS_MAX: usize = 256;

/// Threads that compute for a share of the time. They end when this value is dropped.
#[derive(Debug)]
pub(super) struct Rivals {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Rivals {
    /// Starts threads that together use this many cores, if that many are free.
    pub(super) fn start(cores: f64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let shares = shares(cores).into_iter();
        let threads = shares.map(|share| {
            let stop = stop.clone();
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    turn(share);
                }
            })
        });
        Self { threads: threads.collect(), stop }
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The threads compute nothing that can fail.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The share of a core that each thread uses.
fn shares(cores: f64) -> Vec<f64> {
    let whole = (cores.max(0.0) as usize).min(THREADS_MAX);
    let rest = cores - whole as f64;
    let rest = (whole < THREADS_MAX && rest > 0.0).then_some(rest);
    std::iter::repeat_n(1.0, whole).chain(rest).collect()
}

/// Computes for a share of a turn, and rests for the remainder.
fn turn(share: f64) {
    let (began, busy) = (clock::now(), TURN.mul_f64(share));
    while clock::now().since(began) < busy.as_nanos() as u64 {
        std::hint::spin_loop();
    }
    if share < 1.0 {
        thread::sleep(TURN - busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_are_split_into_whole_threads_and_a_rest() {
        assert_eq!(shares(0.0), Vec::<f64>::new());
        assert_eq!(shares(-1.0), Vec::<f64>::new());
        assert_eq!(shares(0.25), [0.25]);
        assert_eq!(shares(2.5), [1.0, 1.0, 0.5]);
        assert_eq!(shares(1e9).len(), THREADS_MAX);
    }

    #[test]
    fn the_threads_end_when_dropped() {
        let rivals = Rivals::start(1.5);
        let stop = rivals.stop.clone();
        drop(rivals);
        assert_eq!(Arc::strong_count(&stop), 1);
    }
}
