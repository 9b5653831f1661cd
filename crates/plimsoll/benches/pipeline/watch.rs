//! Looks at a count as it grows, and tells how fast it grew.

use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

use crate::Failure;
use crate::place::LIMIT;
use crate::row::Turn;

/// What was seen at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Whether what counts has begun.
    pub(crate) has_begun: bool,
    /// How many events have arrived.
    pub(crate) events: u64,
    /// CPU time of the client so far, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// Looks so often until so many events have arrived. The turn lies between the first look at which it had begun, and the first that
/// sees all; where these are one, it lies between the first look of all and that one.
pub(crate) fn watch(
    events: u64,
    every: Duration,
    mut look: impl FnMut() -> Result<Seen, Failure>,
) -> Result<Turn, Failure> {
    let (start, mut first): (Instant, Option<(Instant, Seen)>) = (clock::now(), None);
    let at_start = look()?;
    loop {
        let (seen, now) = (look()?, clock::now());
        if seen.events >= events {
            let (began, at_first) = first.unwrap_or((start, at_start));
            return Ok(Turn {
                events: seen.events - at_first.events,
                wall_ns: now.since(began),
                cpu_ns: seen.cpu_ns - at_first.cpu_ns,
                ..Turn::default()
            });
        }
        if seen.has_begun {
            first.get_or_insert((now, seen));
        }
        if u128::from(now.since(start)) > LIMIT.as_nanos() {
            return Err(format!("only {} of {events} events arrived in {LIMIT:?}", seen.events).into());
        }
        thread::sleep(every);
    }
}
