//! Records the progress of a read-back, and answers a request to stop meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::event::Event;

use crate::event_sinks::EventSinks;

/// The answer to a request to stop.
const READING_BACK: &str = "reading back; Ctrl-C again ends at once";
/// The interval at which the progress is recorded, in nanoseconds: readers of the run's events see that it advances.
const AUDITING_NS: u64 = 5 * clock::SECOND_NS;
/// The interval at which a request to stop is noticed while a server does not answer.
const LOOK: Duration = Duration::from_millis(50);

/// A read-back in progress.
pub(super) struct ReadBack<'a> {
    control: &'a Control,
    start: Instant,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    sinks: &'a mut EventSinks,
    /// The time of the last recorded progress. `None` until the read-back begins: a load that proves nothing has no read-back.
    recorded: Option<Instant>,
    answered: bool,
}

impl<'a> ReadBack<'a> {
    /// The read-back of a run that began at `start`.
    pub(super) fn new(sinks: &'a mut EventSinks, control: &'a Control, start: Instant) -> Self {
        Self { control, start, state: Mutex::new(State { sinks, recorded: None, answered: false }) }
    }

    /// Reads back with `audit`, which reports documents read and expected, first at its beginning.
    pub(super) fn during<T>(&self, audit: impl FnOnce(&mut (dyn FnMut(u64, u64) + Send)) -> T) -> T {
        thread::scope(|scope| {
            let (over, ended) = channel();
            let watcher = thread::Builder::new().name("read-back".to_owned());
            if let Err(error) = watcher.spawn_scoped(scope, move || self.watch(&ended)) {
                let text = format!("a stop during the read-back is answered late: {error}");
                self.state().sinks.note(self.start, text, self.control);
            }
            let read = audit(&mut |read, expected| self.record(read, expected));
            drop(over);
            read
        })
    }

    /// Answers a request to stop until the read-back is over, also while a server does not answer.
    fn watch(&self, ended: &Receiver<()>) {
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            self.answer(&mut self.state());
        }
    }

    fn answer(&self, state: &mut State<'_>) {
        if state.recorded.is_some() && !state.answered && self.control.is_stopped() {
            state.answered = true;
            state.sinks.note(self.start, READING_BACK.to_owned(), self.control);
        }
    }

    fn record(&self, read: u64, expected: u64) {
        let (event, now) = (Event::Auditing { read, expected }, clock::now());
        let mut state = self.state();
        if state.recorded.is_none_or(|recorded| now.since(recorded) >= AUDITING_NS) {
            state.recorded = Some(now);
            state.sinks.emit(&event, self.control);
        } else if let Some(live) = &mut state.sinks.live {
            live.on(&event);
        }
        self.answer(&mut state);
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
