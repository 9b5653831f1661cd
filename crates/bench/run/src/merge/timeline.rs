//! Merges server samples, faults and notes of all shards onto the first shard's time.

use std::collections::VecDeque;

use plimsoll_measure::event::Event;
use plimsoll_measure::sample::ServerSample;

use super::shard::Shard;
use crate::phase_recorder::Log;
use crate::run_dir;

/// The entries that are not emitted yet, in order.
#[derive(Debug, Default)]
pub struct OtherEvents {
    events: VecDeque<(u64, Event)>,
}

/// The shards' events other than their seconds. All shards sample the same server, so the first shard's samples are used. Faults
/// and notes come from every shard. `delays` holds the nanoseconds to add to each shard's times.
///
/// # Errors
/// When the events of a shard cannot be read.
pub fn other_events(shards: &[Shard], delays: &[i64]) -> anyhow::Result<OtherEvents> {
    let mut events = Vec::new();
    for (index, (shard, delay_ns)) in shards.iter().zip(delays).enumerate() {
        let moved = |at_ns: u64| at_ns.saturating_add_signed(*delay_ns);
        for event in run_dir::read_events(&shard.path)? {
            match event {
                Event::Server(sample) if index == 0 => events.push((sample.at_ns, Event::Server(sample))),
                Event::Fault { at_ns, phase_ns, name, undone, error } => {
                    let (at_ns, name) = (moved(at_ns), format!("{name} (shard {})", shard.part()));
                    events.push((at_ns, Event::Fault { at_ns, phase_ns, name, undone, error }));
                }
                Event::Note { at_ns, text } => {
                    let (at_ns, text) = (moved(at_ns), format!("shard {}: {text}", shard.part()));
                    events.push((at_ns, Event::Note { at_ns, text }));
                }
                _ => {}
            }
        }
    }
    events.sort_by_key(|(at_ns, _)| *at_ns);
    Ok(OtherEvents { events: events.into() })
}

impl OtherEvents {
    /// Emits all entries up to a time.
    pub fn emit_until(&mut self, log: &mut Log<'_>, until_ns: u64) {
        while self.events.front().is_some_and(|(at_ns, _)| *at_ns <= until_ns) {
            match self.events.pop_front() {
                Some((_, Event::Server(sample))) => look(log, sample),
                Some((_, event)) => log.sinks.emit(&event, log.control),
                None => {}
            }
        }
    }
}

fn look(log: &mut Log<'_>, sample: ServerSample) {
    log.sinks.look(log.samples, vec![sample], log.control);
}
