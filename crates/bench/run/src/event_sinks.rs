//! Passes the events of a run to the run directory, the live view and the log of a shard.

use plimsoll_load::engine::{Finished, Second};
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::event::Event;
use plimsoll_measure::sample::ServerSample;

use crate::console::{Console, LiveView};
use crate::run_dir::RunDir;
use crate::shard_log::{Began, Recorder};

/// The sinks for the events of one run.
#[derive(Debug)]
pub struct EventSinks {
    /// The run directory.
    pub dir: RunDir,
    /// The live view, if the console has one.
    pub live: Option<Box<dyn LiveView>>,
    /// The recorder of a shard, for joining it with the other shards; `None` for a whole run.
    pub shard: Option<Recorder>,
    /// The first error of the run directory, if any.
    pub disk: Option<anyhow::Error>,
}

impl EventSinks {
    /// Writes to the run directory, and to the console's live view if it has one.
    pub fn new(dir: RunDir, console: &dyn Console) -> Self {
        Self { dir, live: console.live(), shard: None, disk: None }
    }

    /// Passes an event to the live view and the run directory.
    pub fn emit(&mut self, event: &Event, control: &Control) {
        if let Some(live) = &mut self.live {
            live.on(event);
        }
        if let Err(error) = self.dir.event(event) {
            self.give_up(error, control);
        }
    }

    /// Emits a note with the current time, counted from `start`.
    pub fn note(&mut self, start: Instant, text: String, control: &Control) {
        self.emit(&Event::Note { at_ns: clock::now().since(start), text }, control);
    }

    /// Records the results of every operation in one second.
    pub fn second(&mut self, at_ns: u64, second: &Second, names: &[String], control: &Control) {
        if let Err(error) = self.dir.second(at_ns, second, names) {
            self.give_up(error, control);
        }
        self.record(control, |shard| shard.second(second));
    }

    /// Records the start of a phase.
    pub fn began(&mut self, began: Began, control: &Control) {
        self.record(control, |shard| shard.began(began));
    }

    /// Records the end of a phase.
    pub fn ended(&mut self, finished: &Finished, control: &Control) {
        self.record(control, |shard| shard.ended(finished));
    }

    fn record(&mut self, control: &Control, write: impl FnOnce(&mut Recorder) -> anyhow::Result<()>) {
        if let Err(error) = self.shard.as_mut().map_or(Ok(()), write) {
            self.give_up(error, control);
        }
    }

    /// Emits server samples and stores them.
    pub fn look(&mut self, samples: &mut Vec<ServerSample>, seen: Vec<ServerSample>, control: &Control) {
        for sample in seen {
            self.emit(&Event::Server(sample.clone()), control);
            samples.push(sample);
        }
    }

    /// Stops the load after a disk error and stores the first error.
    fn give_up(&mut self, error: anyhow::Error, control: &Control) {
        control.stop();
        self.disk.get_or_insert(error);
    }
}
