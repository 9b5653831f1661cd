//! What a pipeline promises about each event, checked against what its parts can do before anything is read.

use std::fmt;

use thiserror::Error;

use crate::port::sink::{Identity, Promise};
use crate::port::source::Replay;

/// How often an event that was read arrives, whatever crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Never twice, perhaps not at all: positions are committed before events are written.
    AtMostOnce,
    /// At least once, perhaps twice: positions are committed after events are durable.
    AtLeastOnce,
    /// As if exactly once: what comes again is known, or positions are part of the transaction that writes.
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

/// What the parts of a pipeline can do.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// What the source can do again. A pipeline of several sources is checked for each of them.
    pub replay: Replay,
    /// Whether there is a store of positions, which no other source needs.
    pub positions: bool,
    /// Whether every source gives an event the same offset whenever it is read.
    pub stable: bool,
    /// Whether every transform gives the same for the same events, however they are cut into batches.
    pub repeatable: bool,
    /// What the sink promises.
    pub sink: Promise,
    /// What the sink of dead letters promises, if there is one.
    pub dead_letters: Option<Promise>,
}

/// Why a pipeline cannot give its guarantee.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The source cannot go on where it was.
    #[error(
        "the source cannot read again what was in flight at a crash, so {0} cannot be given: say `guarantee: \
         at-most-once`, or choose a source that can go on where it was"
    )]
    NoReplay(Guarantee),
    /// Nobody keeps the source's positions.
    #[error(
        "the source keeps no positions itself and there is no `positions:` store, so {0} cannot be given: add one (a file, \
         or a collection)"
    )]
    NoPositions(Guarantee),
    /// Two would keep the source's positions.
    #[error(
        "the source keeps its positions itself, so nobody would write to the `positions:` store, and every start would begin where \
         that stands: leave the key out"
    )]
    PositionsTwice,
    /// The sink may forget.
    #[error(
        "the sink acknowledges what a crash may take back, so {0} cannot be given: choose a durable write concern"
    )]
    NotDurable(Guarantee),
    /// The sink cannot tell what it has already.
    #[error(
        "the sink writes an event again that comes again, so effectively-once cannot be given: use ids made from the source \
         (`identity: source`), keyed upserts or transactions, or say `guarantee: at-least-once`"
    )]
    Copies,
    /// The sink forgets events in a transaction it has no place for.
    #[error(
        "a transactional sink keeps positions with what it writes, so there is nothing to lose: say `guarantee: effectively-once`"
    )]
    TransactionAtMostOnce,
    /// Offsets that are not the same when they are read again.
    #[error(
        "the source numbers its events anew when it is read again, so the sink would take one event for another: name documents by what they say themselves (`identity: payload` of `insert`, `by: payload` of `vector`), or use a transactional sink"
    )]
    Unstable,
    /// A transform depends on how events are cut into batches.
    #[error(
        "a transform gives something else when events are read again in other batches, and the sink would take it for what it has: \
         use a transactional sink, one that names documents anew (`identity: object_id`, at least once), or leave the transform out"
    )]
    NotRepeatable,
    /// Dead letters whose names are not the same when their events are read again.
    #[error(
        "the source numbers its events anew when it is read again, so one dead letter would be taken for another and lost: name them \
         by what they say themselves (`identity: payload` with `form: bson`), anew (`identity: object_id` with `guarantee: \
         at-least-once`), or use a transactional sink, which keeps them itself"
    )]
    UnstableDeadLetters,
    /// Dead letters would be copied or lost.
    #[error("the dead letters cannot be kept {0}: give them a sink as strong as the pipeline's own")]
    WeakDeadLetters(Guarantee),
}

/// Checks that the parts can give the guarantee.
///
/// # Errors
///
/// The first thing that stands against it.
pub fn check(guarantee: Guarantee, means: &Means) -> Result<(), Refusal> {
    check_positions(guarantee, means)?;
    if guarantee == Guarantee::AtMostOnce {
        let transaction = means.sink.identity == Identity::Transaction;
        return if transaction { Err(Refusal::TransactionAtMostOnce) } else { Ok(()) };
    }
    if !means.sink.durable {
        return Err(Refusal::NotDurable(guarantee));
    }
    check_letters(guarantee, means)?;
    check_identity(means)?;
    if guarantee == Guarantee::EffectivelyOnce { check_once(means) } else { Ok(()) }
}

/// Somebody keeps how far the source was read, and nobody else. Whoever promises at most once must not begin again either; only
/// a source that gives nothing again needs no position for that.
fn check_positions(guarantee: Guarantee, means: &Means) -> Result<(), Refusal> {
    let in_transactions = means.sink.identity == Identity::Transaction;
    match means.replay {
        Replay::Nothing if guarantee != Guarantee::AtMostOnce => Err(Refusal::NoReplay(guarantee)),
        Replay::FromStore if !means.positions && !in_transactions => Err(Refusal::NoPositions(guarantee)),
        Replay::FromItself if means.positions && !in_transactions => Err(Refusal::PositionsTwice),
        Replay::Nothing | Replay::FromStore | Replay::FromItself => Ok(()),
    }
}

fn check_letters(guarantee: Guarantee, means: &Means) -> Result<(), Refusal> {
    let Some(letters) = means.dead_letters else { return Ok(()) };
    if letters.identity == Identity::Once && !means.stable {
        return Err(Refusal::UnstableDeadLetters);
    }
    let copies = guarantee == Guarantee::EffectivelyOnce && letters.identity == Identity::Copies;
    if !letters.durable || (copies && !means.sink.buries) {
        Err(Refusal::WeakDeadLetters(guarantee))
    } else {
        Ok(())
    }
}

/// A sink that knows events by their offsets loses those that come again as others.
fn check_identity(means: &Means) -> Result<(), Refusal> {
    match means.sink.identity {
        Identity::Once if !means.repeatable => Err(Refusal::NotRepeatable),
        Identity::Once if !means.stable => Err(Refusal::Unstable),
        _ => Ok(()),
    }
}

fn check_once(means: &Means) -> Result<(), Refusal> {
    match means.sink.identity {
        Identity::Copies => Err(Refusal::Copies),
        Identity::Named if !means.repeatable => Err(Refusal::NotRepeatable),
        Identity::Once | Identity::Named | Identity::Transaction => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::sink::Order;

    const SINK: Promise =
        Promise { durable: true, identity: Identity::Once, order: Order::Any, buries: false };
    const MEANS: Means = Means {
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
    fn each_combination_is_given_or_refused_with_its_reason() {
        use Guarantee::{AtLeastOnce, AtMostOnce, EffectivelyOnce};
        let forgets = Promise { durable: false, ..SINK };
        let transaction = Promise { identity: Identity::Transaction, ..SINK };
        let named = Promise { identity: Identity::Named, ..SINK };
        let cases = [
            (AtMostOnce, Means { replay: Replay::Nothing, sink: forgets, ..MEANS }, Ok(())),
            (AtLeastOnce, MEANS, Ok(())),
            (AtLeastOnce, Means { replay: Replay::Nothing, ..MEANS }, Err(Refusal::NoReplay(AtLeastOnce))),
            (
                AtLeastOnce,
                Means { replay: Replay::FromStore, ..MEANS },
                Err(Refusal::NoPositions(AtLeastOnce)),
            ),
            (AtLeastOnce, Means { replay: Replay::FromStore, positions: true, ..MEANS }, Ok(())),
            (
                AtMostOnce,
                Means { replay: Replay::FromStore, sink: copies(), ..MEANS },
                Err(Refusal::NoPositions(AtMostOnce)),
            ),
            (AtMostOnce, Means { replay: Replay::FromStore, positions: true, ..MEANS }, Ok(())),
            (AtMostOnce, Means { positions: true, ..MEANS }, Err(Refusal::PositionsTwice)),
            (AtLeastOnce, Means { positions: true, ..MEANS }, Err(Refusal::PositionsTwice)),
            (EffectivelyOnce, Means { positions: true, sink: transaction, ..MEANS }, Ok(())),
            (
                AtLeastOnce,
                Means { stable: false, sink: named, dead_letters: Some(SINK), ..MEANS },
                Err(Refusal::UnstableDeadLetters),
            ),
            (
                AtLeastOnce,
                Means { stable: false, sink: named, dead_letters: Some(copies()), ..MEANS },
                Ok(()),
            ),
            (
                EffectivelyOnce,
                Means { stable: false, sink: named, dead_letters: Some(named), ..MEANS },
                Ok(()),
            ),
            (AtLeastOnce, Means { replay: Replay::FromStore, sink: transaction, ..MEANS }, Ok(())),
            (AtLeastOnce, Means { sink: forgets, ..MEANS }, Err(Refusal::NotDurable(AtLeastOnce))),
            (AtLeastOnce, Means { sink: copies(), ..MEANS }, Ok(())),
            (EffectivelyOnce, MEANS, Ok(())),
            (EffectivelyOnce, Means { sink: copies(), ..MEANS }, Err(Refusal::Copies)),
            (EffectivelyOnce, Means { repeatable: false, ..MEANS }, Err(Refusal::NotRepeatable)),
            (AtLeastOnce, Means { repeatable: false, ..MEANS }, Err(Refusal::NotRepeatable)),
            (AtLeastOnce, Means { repeatable: false, sink: copies(), ..MEANS }, Ok(())),
            (AtLeastOnce, Means { stable: false, ..MEANS }, Err(Refusal::Unstable)),
            (EffectivelyOnce, Means { stable: false, sink: named, ..MEANS }, Ok(())),
            (EffectivelyOnce, Means { stable: false, sink: transaction, ..MEANS }, Ok(())),
            (AtMostOnce, Means { sink: transaction, ..MEANS }, Err(Refusal::TransactionAtMostOnce)),
            (EffectivelyOnce, Means { repeatable: false, sink: transaction, ..MEANS }, Ok(())),
            (
                EffectivelyOnce,
                Means { dead_letters: Some(copies()), ..MEANS },
                Err(Refusal::WeakDeadLetters(EffectivelyOnce)),
            ),
            (AtLeastOnce, Means { dead_letters: Some(copies()), ..MEANS }, Ok(())),
            (
                AtLeastOnce,
                Means { dead_letters: Some(forgets), ..MEANS },
                Err(Refusal::WeakDeadLetters(AtLeastOnce)),
            ),
        ];
        for (guarantee, means, expected) in cases {
            assert_eq!(check(guarantee, &means), expected, "{guarantee} of {means:?}");
        }
    }
}
