//! Passes the events of a run to the run directory, the live view and the log of a shard.

use plimsoll_load::engine::{Finished, Second};
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::event::Event;
use plimsoll_measure::sample::ServerSample;

use crate::console::{Console, LiveView};
use crate::run_dir::RunDir;
use crate::shard_log::{Began, Recorder};

/// The readers of one run.
#[derive(Debug)]
pub struct Readers {
    /// The run directory.
    pub dir: RunDir,
    /// The live view, if somebody looks.
    pub live: Option<Box<dyn LiveView>>,
    /// The recorder of a shard, for joining it with the others.
    pub shard: Option<Recorder>,
    /// The error of the run directory, if any.
    pub disk: Option<anyhow::Error>,
}

impl Readers {
    /// The run directory, and the live view of a console that has one.
    pub fn new(dir: RunDir, console: &dyn Console) -> Self {
        Self { dir, live: console.live(), shard: None, disk: None }
    }

    /// Tells every reader.
    pub fn emit(&mut self, event: &Event, control: &Control) {
        if let Some(live) = &mut self.live {
            live.on(event);
        }
        if let Err(error) = self.dir.event(event) {
            self.give_up(error, control);
        }
    }

    /// Tells the user something, now; moments count from `start`.
    pub fn note(&mut self, start: Instant, text: String, control: &Control) {
        self.emit(&Event::Note { at_ns: clock::now().since(start), text }, control);
    }

    /// Writes down what each operation did in a second.
    pub fn second(&mut self, at_ns: u64, second: &Second, names: &[String], control: &Control) {
        if let Err(error) = self.dir.second(at_ns, second, names) {
            self.give_up(error, control);
        }
        self.record(control, |shard| shard.second(second));
    }

    /// Writes down that a phase begins.
    pub fn began(&mut self, began: Began, control: &Control) {
        self.record(control, |shard| shard.began(began));
    }

    /// Writes down how a phase ended.
    pub fn ended(&mut self, finished: &Finished, control: &Control) {
        self.record(control, |shard| shard.ended(finished));
    }

    fn record(&mut self, control: &Control, write: impl FnOnce(&mut Recorder) -> anyhow::Result<()>) {
        if let Err(error) = self.shard.as_mut().map_or(Ok(()), write) {
            self.give_up(error, control);
        }
    }

    /// Tells of looks at the server and keeps them.
    pub fn look(&mut self, samples: &mut Vec<ServerSample>, seen: Vec<ServerSample>, control: &Control) {
        for sample in seen {
            self.emit(&Event::Server(sample.clone()), control);
            samples.push(sample);
        }
    }

    /// The disk refuses: the load stops, and the first reason is kept.
    fn give_up(&mut self, error: anyhow::Error, control: &Control) {
        control.stop();
        self.disk.get_or_insert(error);
    }
}
