//! Checks tickets, which limit the operations in the storage engine at a time.

use plimsoll_load::bottlenecks::level::levels_between;
use plimsoll_load::bottlenecks::observation::both;
use plimsoll_load::bottlenecks::reading::{reading, share};
use plimsoll_load::bottlenecks::{Finding, Level, NOT_REPORTED, NotObserved, Observation, departs};
use plimsoll_measure::line::Reading;
use plimsoll_measure::sample::ServerSample;

/// If this share is in use on average, some operation nearly always finds no free ticket.
const IN_USE_MAX: f64 = 0.90;
/// From this average number of waiting operations on, the tickets are too few.
const WAITING_MIN: f64 = 1.0;

/// Finds write or read tickets that are all in use, or that operations wait for. Servers since 7.0 adjust their number at run
/// time.
pub(super) fn check(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let seen = [
        in_use(sides, "write tickets in use", |it| (it.write_tickets_out, it.write_tickets_max)),
        waiting(sides, "waiting for a write ticket", |it| it.write_tickets_waiting),
        in_use(sides, "read tickets in use", |it| (it.read_tickets_out, it.read_tickets_max)),
        waiting(sides, "waiting for a read ticket", |it| it.read_tickets_waiting),
    ];
    let seen: Vec<(bool, Reading)> = seen.into_iter().flatten().collect();
    let departed = seen.iter().any(|(departed, _)| *departed);
    let readings: Vec<_> = seen.into_iter().map(|(_, reading)| reading).collect();
    if readings.is_empty() { Err(NOT_REPORTED) } else { Ok(Finding { departed, readings }) }
}

/// The seconds at whose end all tickets were in use, or operations waited for a ticket.
pub(super) fn levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels_between(side, |_, after| {
        let in_use = |out: Option<u64>, most: Option<u64>| {
            Some(out? as f64 >= most.filter(|most| *most > 0)? as f64 * IN_USE_MAX)
        };
        let waiting = |count: Option<u64>| count.map(|count| count as f64 >= WAITING_MIN);
        let seen = [
            in_use(after.write_tickets_out, after.write_tickets_max),
            waiting(after.write_tickets_waiting),
            in_use(after.read_tickets_out, after.read_tickets_max),
            waiting(after.read_tickets_waiting),
        ];
        seen.into_iter().flatten().reduce(|a, b| a || b)
    })
}

fn in_use(
    sides: (&Observation, &Observation),
    what: &str,
    tickets: fn(&ServerSample) -> (Option<u64>, Option<u64>),
) -> Result<(bool, Reading), NotObserved> {
    let of_all = |sample: &ServerSample| {
        let (out, most) = tickets(sample);
        Some(out? as f64 / most.filter(|most| *most > 0)? as f64)
    };
    let shares = both(sides, |side| side.mean(of_all))?;
    Ok((departs(shares.0, shares.1, IN_USE_MAX), share(what, shares)))
}

fn waiting(
    sides: (&Observation, &Observation),
    what: &str,
    count: fn(&ServerSample) -> Option<u64>,
) -> Result<(bool, Reading), NotObserved> {
    let counts = both(sides, |side| side.mean(|it| count(it).map(|count| count as f64)))?;
    Ok((departs(counts.0, counts.1, WAITING_MIN), reading(what, "operations", counts)))
}
