//! Samples a growing count, and computes its rate.

use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

use crate::Failure;
use crate::row::Turn;
use crate::testbed::LIMIT;

/// A sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Whether the count has begun.
    pub(crate) has_begun: bool,
    /// The number of arrived events.
    pub(crate) events: u64,
    /// CPU time of the client so far, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// A sample with its time.
pub(crate) type At = (Instant, Sample);

/// Samples until this many events have arrived. The turn begins with the first sample after the count has
/// begun, and ends with the first sample that has all events. If both are the same sample, the turn begins
/// with the sample before.
pub(crate) fn watch(
    events: u64,
    every: Duration,
    mut read: impl FnMut() -> Result<Sample, Failure>,
) -> Result<Turn, Failure> {
    let (start, mut first, mut middle): (Instant, Option<At>, Option<At>) = (clock::now(), None, None);
    let at_start = read()?;
    loop {
        let (sample, now) = (read()?, clock::now());
        if sample.events >= events {
            return Ok(turn(first.unwrap_or((start, at_start)), middle, (now, sample)));
        }
        if sample.has_begun {
            let (_, at_first) = *first.get_or_insert((now, sample));
            if sample.events >= at_first.events.midpoint(events) {
                middle.get_or_insert((now, sample));
            }
        }
        if u128::from(now.since(start)) > LIMIT.as_nanos() {
            return Err(format!("only {} of {events} events arrived in {LIMIT:?}", sample.events).into());
        }
        thread::sleep(every);
    }
}

/// The measurements between the first and the last sample.
pub(crate) fn turn(first: At, middle: Option<At>, last: At) -> Turn {
    let (began, at_first) = first;
    let (ended, at_last) = last;
    Turn {
        events: at_last.events - at_first.events,
        wall_ns: ended.since(began),
        cpu_ns: at_last.cpu_ns - at_first.cpu_ns,
        later_half: middle.and_then(|middle| Some(rate(middle, last)? / rate(first, middle)?)),
        ..Turn::default()
    }
}

/// Events a second between two samples; none without events or elapsed time.
fn rate((from, before): At, (to, after): At) -> Option<f64> {
    let (events, ns) = (after.events - before.events, to.since(from));
    (events > 0 && ns > 0).then(|| events as f64 * 1e9 / ns as f64)
}
