//! Refuses settings and parts that contradict each other, under every guarantee.

use super::dead_letter_window::DeadLetterLimit;
use super::parts::Parts;
use super::retry::{Exhausted, Retry};
use super::shared::{Error, Executor, Settings, WORKERS_MAX};
use crate::flow::Limits;
use crate::guarantee::{Capabilities, Guarantee};
use crate::port::sink::Identity;
use crate::port::source::Replay;

/// The capabilities of a pipeline's parts, for each kind of source. Every kind must satisfy the guarantee.
pub(super) fn capabilities(parts: &Parts) -> Vec<Capabilities> {
    let replays: Vec<_> = parts.sources.iter().map(|source| source.replay()).collect();
    let kinds = [Replay::Nothing, Replay::FromStore, Replay::FromItself];
    kinds
        .into_iter()
        .filter(|kind| replays.contains(kind))
        .map(|replay| Capabilities {
            replay,
            // A store that another source needs does not conflict with a source that keeps its own positions.
            positions: parts.positions.is_some()
                && (replay != Replay::FromItself || !replays.contains(&Replay::FromStore)),
            stable: parts.sources.iter().all(|source| source.stable()),
            repeatable: parts.transforms.iter().all(|transform| transform.repeatable()),
            sink: parts.sink.promise(),
            dead_letters: parts.dead_letters.as_ref().map(|letters| letters.promise()),
        })
        .collect()
}

/// Refuses contradictory settings.
pub(super) fn check(parts: &Parts, settings: &Settings) -> Result<(), Error> {
    check_limits(settings.limits, parts.sources.len())?;
    check_retry(settings.retry)?;
    check_exhausted(parts, settings.retry)?;
    settings.dead_letter_limit.map_or(Ok(()), check_dead_letter_limit)?;
    if let Executor::Pool(threads) = settings.executor
        && !(1..=WORKERS_MAX).contains(&threads)
    {
        return refuse(format!("a pool has 1 to {WORKERS_MAX} threads, not {threads}"));
    }
    if settings.guarantee == Guarantee::EffectivelyOnce && settings.retry.then == Exhausted::DeadLetters {
        return refuse(
            "a batch that failed transiently may have been written, so effectively-once cannot make it a dead letter: use `then: stop`",
        );
    }
    if parts.dead_letters.as_ref().is_some_and(|letters| letters.promise().identity == Identity::Transaction)
    {
        return refuse(
            "dead letters have no position of their own, so a transactional sink cannot write them: give `dead_letters` another sink",
        );
    }
    if parts.sink.promise().identity == Identity::Transaction {
        check_transaction(parts, settings)
    } else {
        Ok(())
    }
}

fn check_limits(limits: Limits, sources: usize) -> Result<(), Error> {
    if sources == 0 {
        return refuse("a pipeline needs a source");
    }
    let least = [limits.events_max, limits.bytes_max, limits.batch_events_max, limits.event_bytes_max];
    if least.contains(&0) {
        return refuse("every limit of `in_flight` must be at least one");
    }
    if limits.bytes_max > u32::MAX as usize / 2 {
        return refuse("at most 2 GiB may be in flight in one pipeline");
    }
    if limits.events_max < sources {
        return refuse(format!("{sources} sources need at least as many events in flight"));
    }
    Ok(())
}

fn check_retry(retry: Retry) -> Result<(), Error> {
    if retry.pause_ns_min == 0 || retry.pause_ns_max < retry.pause_ns_min {
        return refuse("`pause` must be above zero, and `pause_max` at least as long as `pause`");
    }
    Ok(())
}

/// `then: dead-letters` needs a sink of dead letters, and a limit of retries.
fn check_exhausted(parts: &Parts, retry: Retry) -> Result<(), Error> {
    if retry.then == Exhausted::Stop {
        return Ok(());
    }
    if parts.dead_letters.is_none() && !parts.sink.promise().writes_dead_letters {
        return refuse(
            "`then: dead-letters` needs a sink of dead letters: add `dead_letters:`, or use `then: stop`",
        );
    }
    if retry.attempts_max.is_none() && retry.time_ns_max.is_none() {
        return refuse("`then: dead-letters` needs a limit of retries: add `attempts` or `for`");
    }
    Ok(())
}

fn check_dead_letter_limit(limit: DeadLetterLimit) -> Result<(), Error> {
    if limit.most >= limit.of {
        return refuse(format!(
            "`dead_letter_limit: {{most: {}, of: {}}}` can never be exceeded: `most` must be below `of`",
            limit.most, limit.of
        ));
    }
    Ok(())
}

fn check_transaction(parts: &Parts, settings: &Settings) -> Result<(), Error> {
    if settings.retry.then == Exhausted::DeadLetters {
        return refuse(
            "a transactional sink writes events and dead letters together, so it cannot make a failed batch dead letters: use `then: stop`",
        );
    }
    if parts.positions.is_none() {
        return refuse(
            "a transactional sink writes the positions of the source: use its store of positions for the pipeline",
        );
    }
    if parts.dead_letters.is_some() {
        return refuse(
            "a transactional sink writes its dead letters itself: name their collection or topic in the sink, and remove `dead_letters:`",
        );
    }
    Ok(())
}

fn refuse(reason: impl Into<String>) -> Result<(), Error> {
    Err(Error::Settings(reason.into()))
}
