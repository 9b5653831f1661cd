//! Checks, before the first event is read, that the parts of a pipeline can give its delivery guarantee.

use std::fmt;

use thiserror::Error;

use crate::port::sink::{Identity, Promise};
use crate::port::source::Replay;

/// The number of times an event arrives, even after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// At most once: positions are committed before events are written.
    AtMostOnce,
    /// At least once: positions are committed after events are durable.
    AtLeastOnce,
    /// Effectively once: repeated events are recognised, or positions are part of the transaction that writes them.
    EffectivelyOnce,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtMostOnce => "at-most-once",
            Self::AtLeastOnce => "at-least-once",
            Self::EffectivelyOnce => "effectively-once",
        })
    }
}

/// The capabilities of a pipeline's parts.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The way in which the source resumes. A pipeline of several sources is checked for each.
    pub replay: Replay,
    /// Whether a store of positions exists. For a source that keeps its positions itself, a store that
    /// another source needs does not count.
    pub positions: bool,
    /// Whether an event has the same offset whenever it is read, in every source.
    pub stable: bool,
    /// Whether every transform gives the same result however events are divided into batches.
    pub repeatable: bool,
    /// The promises of the sink.
    pub sink: Promise,
    /// The promises of the sink of dead letters, if any.
    pub dead_letters: Option<Promise>,
}

/// The reason why a pipeline cannot give its guarantee.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The source cannot resume.
    #[error(
        "the source cannot read events again that were in flight at a crash, so {0} is impossible: use `guarantee: \
         at-most-once`, or choose a source that can resume"
    )]
    NoReplay(Guarantee),
    /// No part keeps the source's positions.
    #[error(
        "the source keeps no positions itself and there is no `positions:` store, so {0} is impossible: add one (a file, \
         or a collection)"
    )]
    NoPositions(Guarantee),
    /// Two parts would keep the source's positions.
    #[error(
        "the source keeps its positions itself, so nothing would write to the `positions:` store, and every start would \
         begin at its old position: remove `positions:`"
    )]
    PositionsTwice,
    /// The sink may lose acknowledged events.
    #[error(
        "the sink acknowledges events that a crash may lose, so {0} is impossible: choose a durable write concern"
    )]
    NotDurable(Guarantee),
    /// The sink cannot recognise existing events.
    #[error(
        "the sink writes a repeated event a second time, so effectively-once is impossible: use ids made from the source \
         (`identity: source`), keyed upserts or transactions, or use `guarantee: at-least-once`"
    )]
    Copies,
    /// At-most-once contradicts a transactional sink.
    #[error(
        "a transactional sink keeps positions with the events it writes, so at-most-once has no use: \
         use `guarantee: effectively-once`"
    )]
    TransactionAtMostOnce,
    /// Offsets change when events are read again.
    #[error(
        "the source renumbers its events when it is read again, so the sink would mistake one event for another: \
         name documents by their own `_id` (`identity: payload` of `insert`, `by: payload` of `vector`), or use a \
         transactional sink"
    )]
    Unstable,
    /// A transform depends on how events are divided into batches.
    #[error(
        "a transform's result depends on the batches, so after a repeated read the sink would mistake a new result for an \
         existing event: use a transactional sink, a sink with new ids (`identity: object_id`, at least once), or remove the \
         transform"
    )]
    NotRepeatable,
    /// The identities of dead letters change when their events are read again.
    #[error(
        "the source renumbers its events when it is read again, so one dead letter would be mistaken for another and lost: name them \
         by their own `_id` (`identity: payload` with `form: bson`), use new ids (`identity: object_id` with `guarantee: \
         at-least-once`), or use a transactional sink, which writes them itself"
    )]
    UnstableDeadLetters,
    /// Dead letters would be duplicated or lost.
    #[error("the sink of dead letters cannot give {0}: choose one as reliable as the pipeline's sink")]
    WeakDeadLetters(Guarantee),
}

/// Checks that the parts can give the guarantee.
///
/// # Errors
///
/// If the parts cannot give the guarantee. The error names the first obstacle.
pub fn check(guarantee: Guarantee, capabilities: &Capabilities) -> Result<(), Refusal> {
    check_positions(guarantee, capabilities)?;
    if guarantee == Guarantee::AtMostOnce {
        let transaction = capabilities.sink.identity == Identity::Transaction;
        return if transaction { Err(Refusal::TransactionAtMostOnce) } else { Ok(()) };
    }
    if !capabilities.sink.durable {
        return Err(Refusal::NotDurable(guarantee));
    }
    check_letters(guarantee, capabilities)?;
    check_identity(capabilities)?;
    if guarantee == Guarantee::EffectivelyOnce { check_once(capabilities) } else { Ok(()) }
}

/// Exactly one part must keep the source's positions. At-most-once needs them too: a start must not read events twice. Only a
/// source that cannot replay needs no positions.
fn check_positions(guarantee: Guarantee, capabilities: &Capabilities) -> Result<(), Refusal> {
    let in_transactions = capabilities.sink.identity == Identity::Transaction;
    match capabilities.replay {
        Replay::Nothing if guarantee != Guarantee::AtMostOnce => Err(Refusal::NoReplay(guarantee)),
        Replay::FromStore if !capabilities.positions && !in_transactions => {
            Err(Refusal::NoPositions(guarantee))
        }
        Replay::FromItself if capabilities.positions && !in_transactions => Err(Refusal::PositionsTwice),
        Replay::Nothing | Replay::FromStore | Replay::FromItself => Ok(()),
    }
}

fn check_letters(guarantee: Guarantee, capabilities: &Capabilities) -> Result<(), Refusal> {
    let Some(letters) = capabilities.dead_letters else { return Ok(()) };
    if letters.identity == Identity::Once && !capabilities.stable {
        return Err(Refusal::UnstableDeadLetters);
    }
    let copies = guarantee == Guarantee::EffectivelyOnce && letters.identity == Identity::Copies;
    if !letters.durable || (copies && !capabilities.sink.writes_dead_letters) {
        Err(Refusal::WeakDeadLetters(guarantee))
    } else {
        Ok(())
    }
}

/// A sink that identifies events by their offsets would lose events whose offsets change.
fn check_identity(capabilities: &Capabilities) -> Result<(), Refusal> {
    match capabilities.sink.identity {
        Identity::Once if !capabilities.repeatable => Err(Refusal::NotRepeatable),
        Identity::Once if !capabilities.stable => Err(Refusal::Unstable),
        _ => Ok(()),
    }
}

fn check_once(capabilities: &Capabilities) -> Result<(), Refusal> {
    match capabilities.sink.identity {
        Identity::Copies => Err(Refusal::Copies),
        Identity::Named if !capabilities.repeatable => Err(Refusal::NotRepeatable),
        Identity::Once | Identity::Named | Identity::Transaction => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::sink::Order;

    const SINK: Promise =
        Promise { durable: true, identity: Identity::Once, order: Order::Any, writes_dead_letters: false };
    const ALL: Capabilities = Capabilities {
        replay: Replay::FromItself,
        positions: false,
        stable: true,
        repeatable: true,
        sink: SINK,
        dead_letters: None,
    };

    fn copies() -> Promise {
        Promise { identity: Identity::Copies, ..SINK }
    }

    #[test]
    fn each_combination_is_accepted_or_refused_with_its_reason() {
        use Guarantee::{AtLeastOnce, AtMostOnce, EffectivelyOnce};
        let forgets = Promise { durable: false, ..SINK };
        let transaction = Promise { identity: Identity::Transaction, ..SINK };
        let named = Promise { identity: Identity::Named, ..SINK };
        let cases = [
            (AtMostOnce, Capabilities { replay: Replay::Nothing, sink: forgets, ..ALL }, Ok(())),
            (AtLeastOnce, ALL, Ok(())),
            (
                AtLeastOnce,
                Capabilities { replay: Replay::Nothing, ..ALL },
                Err(Refusal::NoReplay(AtLeastOnce)),
            ),
            (
                AtLeastOnce,
                Capabilities { replay: Replay::FromStore, ..ALL },
                Err(Refusal::NoPositions(AtLeastOnce)),
            ),
            (AtLeastOnce, Capabilities { replay: Replay::FromStore, positions: true, ..ALL }, Ok(())),
            (
                AtMostOnce,
                Capabilities { replay: Replay::FromStore, sink: copies(), ..ALL },
                Err(Refusal::NoPositions(AtMostOnce)),
            ),
            (AtMostOnce, Capabilities { replay: Replay::FromStore, positions: true, ..ALL }, Ok(())),
            (AtMostOnce, Capabilities { positions: true, ..ALL }, Err(Refusal::PositionsTwice)),
            (AtLeastOnce, Capabilities { positions: true, ..ALL }, Err(Refusal::PositionsTwice)),
            (EffectivelyOnce, Capabilities { positions: true, sink: transaction, ..ALL }, Ok(())),
            (
                AtLeastOnce,
                Capabilities { stable: false, sink: named, dead_letters: Some(SINK), ..ALL },
                Err(Refusal::UnstableDeadLetters),
            ),
            (
                AtLeastOnce,
                Capabilities { stable: false, sink: named, dead_letters: Some(copies()), ..ALL },
                Ok(()),
            ),
            (
                EffectivelyOnce,
                Capabilities { stable: false, sink: named, dead_letters: Some(named), ..ALL },
                Ok(()),
            ),
            (AtLeastOnce, Capabilities { replay: Replay::FromStore, sink: transaction, ..ALL }, Ok(())),
            (AtLeastOnce, Capabilities { sink: forgets, ..ALL }, Err(Refusal::NotDurable(AtLeastOnce))),
            (AtLeastOnce, Capabilities { sink: copies(), ..ALL }, Ok(())),
            (EffectivelyOnce, ALL, Ok(())),
            (EffectivelyOnce, Capabilities { sink: copies(), ..ALL }, Err(Refusal::Copies)),
            (EffectivelyOnce, Capabilities { repeatable: false, ..ALL }, Err(Refusal::NotRepeatable)),
            (AtLeastOnce, Capabilities { repeatable: false, ..ALL }, Err(Refusal::NotRepeatable)),
            (AtLeastOnce, Capabilities { repeatable: false, sink: copies(), ..ALL }, Ok(())),
            (AtLeastOnce, Capabilities { stable: false, ..ALL }, Err(Refusal::Unstable)),
            (EffectivelyOnce, Capabilities { stable: false, sink: named, ..ALL }, Ok(())),
            (EffectivelyOnce, Capabilities { stable: false, sink: transaction, ..ALL }, Ok(())),
            (AtMostOnce, Capabilities { sink: transaction, ..ALL }, Err(Refusal::TransactionAtMostOnce)),
            (EffectivelyOnce, Capabilities { repeatable: false, sink: transaction, ..ALL }, Ok(())),
            (
                EffectivelyOnce,
                Capabilities { dead_letters: Some(copies()), ..ALL },
                Err(Refusal::WeakDeadLetters(EffectivelyOnce)),
            ),
            (AtLeastOnce, Capabilities { dead_letters: Some(copies()), ..ALL }, Ok(())),
            (
                AtLeastOnce,
                Capabilities { dead_letters: Some(forgets), ..ALL },
                Err(Refusal::WeakDeadLetters(AtLeastOnce)),
            ),
        ];
        for (guarantee, capabilities, expected) in cases {
            assert_eq!(check(guarantee, &capabilities), expected, "{guarantee} of {capabilities:?}");
        }
    }
}
