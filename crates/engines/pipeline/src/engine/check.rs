//! Settings and parts that contradict each other, whatever is promised.

use super::retry::{Exhausted, Retry};
use super::run::Parts;
use super::shared::{Error, Executor, Settings, WORKERS_MAX};
use super::window::DeadLetterLimit;
use crate::flow::Limits;
use crate::guarantee::{Guarantee, Means};
use crate::port::sink::Identity;
use crate::port::source::Replay;

/// What the parts of a pipeline can do, for each kind of source that it has: every one of them must keep the promise.
pub(super) fn means(parts: &Parts) -> Vec<Means> {
    let replays: Vec<_> = parts.sources.iter().map(|source| source.replay()).collect();
    let kinds = [Replay::Nothing, Replay::FromStore, Replay::FromItself];
    kinds
        .into_iter()
        .filter(|kind| replays.contains(kind))
        .map(|replay| Means {
            replay,
            // A store that another source needs is not in the way of one that keeps its own.
            positions: parts.positions.is_some()
                && (replay != Replay::FromItself || !replays.contains(&Replay::FromStore)),
            stable: parts.sources.iter().all(|source| source.stable()),
            repeatable: parts.transforms.iter().all(|transform| transform.repeatable()),
            sink: parts.sink.promise(),
            dead_letters: parts.dead_letters.as_ref().map(|letters| letters.promise()),
        })
        .collect()
}

/// Refuses what cannot be meant.
pub(super) fn check(parts: &Parts, settings: &Settings) -> Result<(), Error> {
    check_limits(settings.limits, parts.sources.len())?;
    check_retry(settings.retry)?;
    check_burial(parts, settings.retry)?;
    settings.dead_letter_limit.map_or(Ok(()), check_dead_letter_limit)?;
    if let Executor::Pool(threads) = settings.executor
        && !(1..=WORKERS_MAX).contains(&threads)
    {
        return refuse(format!("a pool has 1 to {WORKERS_MAX} threads, not {threads}"));
    }
    if settings.guarantee == Guarantee::EffectivelyOnce && settings.retry.then == Exhausted::Bury {
        return refuse(
            "what failed may be written all the same, so effectively-once buries nothing that failed for now: say `then: stop`",
        );
    }
    if parts.dead_letters.as_ref().is_some_and(|letters| letters.promise().identity == Identity::Transaction)
    {
        return refuse(
            "dead letters belong to no position, so a transactional sink cannot take them: give `dead_letters` a plain one",
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
        return refuse("every limit of what is in flight must be at least one");
    }
    if limits.bytes_max > u32::MAX as usize / 2 {
        return refuse("at most 2 GiB may be in flight in one pipeline");
    }
    if limits.events_max < sources {
        return refuse(format!("{sources} sources need as many events in flight at least"));
    }
    Ok(())
}

fn check_retry(retry: Retry) -> Result<(), Error> {
    if retry.pause_ns_min == 0 || retry.pause_ns_max < retry.pause_ns_min {
        return refuse(
            "between two tries there must be a pause, and the longest is no shorter than the first: mend `pause` and `pause_max`",
        );
    }
    Ok(())
}

/// What failed too often is buried only if there is a place for it, and an end to its tries.
fn check_burial(parts: &Parts, retry: Retry) -> Result<(), Error> {
    if retry.then == Exhausted::Stop {
        return Ok(());
    }
    if parts.dead_letters.is_none() && !parts.sink.promise().buries {
        return refuse(
            "there is no `dead_letters:` to put what failed too often: name one, or say `then: stop`",
        );
    }
    if retry.attempts_max.is_none() && retry.time_ns_max.is_none() {
        return refuse(
            "without an end to its tries nothing ever fails too often: say `attempts` or `for` beside `then: dead-letters`",
        );
    }
    Ok(())
}

fn check_dead_letter_limit(limit: DeadLetterLimit) -> Result<(), Error> {
    if limit.most >= limit.of {
        return refuse(format!(
            "{} of {} events are never too many: say a `most` below `of` in `dead_letter_limit`",
            limit.most, limit.of
        ));
    }
    Ok(())
}

fn check_transaction(parts: &Parts, settings: &Settings) -> Result<(), Error> {
    if settings.retry.then == Exhausted::Bury {
        return refuse(
            "a transactional sink writes events and dead letters together, so what it cannot write it cannot bury: say `then: stop`",
        );
    }
    if parts.positions.is_none() {
        return refuse(
            "a transactional sink keeps the positions of the source: give the pipeline its store of positions",
        );
    }
    if parts.dead_letters.is_some() {
        return refuse("a transactional sink writes its dead letters itself: give it their name instead");
    }
    Ok(())
}

fn refuse(words: impl Into<String>) -> Result<(), Error> {
    Err(Error::Settings(words.into()))
}
