//! Samples the server's counters once a second, on its own thread and connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_host::probe::Probe;
use plimsoll_measure::clock::Instant;
use plimsoll_measure::sample::ServerSample;
use plimsoll_wire::ConnectOptions;

const EVERY: Duration = Duration::from_secs(1);
/// The time limit of one sample, so that the end of a run does not wait for a dead server.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// The sampling thread.
#[derive(Debug)]
pub struct Observer {
    samples: Receiver<ServerSample>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Observer {
    /// Starts to sample the server at `options`. Times count from `start`.
    pub fn start(options: ConnectOptions, start: Instant) -> Self {
        let (sender, samples) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let options =
            ConnectOptions { timeout: Some(LOOK_TIMEOUT), connect_timeout: LOOK_TIMEOUT, ..options };
        let thread = thread::spawn(move || watch(&options, start, &sender, &asked));
        Self { samples, stop, thread }
    }

    /// The samples since the last call.
    pub fn drain(&self) -> Vec<ServerSample> {
        self.samples.try_iter().collect()
    }

    /// Ends the thread and returns the last samples.
    pub fn stop(self) -> Vec<ServerSample> {
        self.stop.store(true, Ordering::Relaxed);
        // The thread computes nothing that can fail. If it panics, its samples end early.
        self.thread.join().unwrap_or_default();
        self.samples.try_iter().collect()
    }
}

fn watch(options: &ConnectOptions, start: Instant, sender: &Sender<ServerSample>, stop: &AtomicBool) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let mut probe = None;
        while !stop.load(Ordering::Relaxed) {
            if probe.is_none() {
                probe = Probe::connect(options).await.ok();
            }
            let Some(sample) = look(&mut probe, start).await else {
                probe = None;
                pause(stop).await;
                continue;
            };
            if sender.send(sample).is_err() {
                return;
            }
            pause(stop).await;
        }
    });
}

async fn look(probe: &mut Option<Probe>, start: Instant) -> Option<ServerSample> {
    probe.as_mut()?.sample(start).await.ok()
}

/// Waits for the next sample, and notices a stop within a tenth of a second.
async fn pause(stop: &AtomicBool) {
    for _ in 0..10 {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        tokio::time::sleep(EVERY / 10).await;
    }
}
