//! Tests every combination of source, sink, dead letters and transforms against a model of crashes. Refused combinations could
//! break the guarantee. Accepted combinations keep it at every crash and for every division into batches.
//!
//! The model has three events. Two exist at first. A source with changing offsets later gets a third event before these two.

use std::collections::HashSet;
use std::mem::discriminant;

use plimsoll_pipeline::guarantee::{Capabilities, Guarantee, Refusal, check};
use plimsoll_pipeline::{Identity, Order, Promise, Replay};

const EVENTS: u8 = 3;
const BOTH: [bool; 2] = [false, true];

/// A written record: the events in it, one bit each, and the offset that identifies it.
#[derive(Clone, Copy)]
struct Written {
    offset: u64,
    of: u8,
}

/// The point at which a source resumes: the offset `next`, and the number `behind` of the event after the
/// last one read.
#[derive(Clone, Copy, Default)]
struct At {
    next: u64,
    behind: u8,
}

/// The moment at which a run ends within its batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Read,
    /// The batch is written and not committed; for at-most-once, committed and not written.
    Between,
    Done,
}

/// Two runs of a pipeline.
#[derive(Clone, Copy)]
struct Course {
    /// Events that security denies, a bit each.
    denied: u8,
    /// Events of a batch in each run.
    cut: [usize; 2],
    /// The batch in which the first run ends.
    batch: usize,
    when: When,
    /// Whether the systems behind the sinks crash too.
    forgets: bool,
    /// The start of a source without stored position: its beginning, or the next event.
    anew: Option<At>,
}

struct World<'a> {
    guarantee: Guarantee,
    capabilities: &'a Capabilities,
    denied: u8,
    read: u8,
    read_to: At,
    kept: At,
    sink: Vec<Written>,
    letters: Vec<Written>,
}

impl World<'_> {
    fn in_transactions(&self) -> bool {
        self.capabilities.sink.identity == Identity::Transaction
    }

    /// Reads from a position to the end, or until it crashes in a batch.
    fn run(&mut self, there: &[u8], from: At, cut: usize, crash: Option<(usize, When)>) {
        let (mut at, left) = (from, there.iter().copied().filter(|event| *event >= from.behind));
        for (number, batch) in left.collect::<Vec<_>>().chunks(cut).enumerate() {
            let first = at.next;
            at = At { next: first + batch.len() as u64, behind: batch[batch.len() - 1] + 1 };
            self.read |= batch.iter().fold(0_u8, |all, event| all | (1_u8 << event));
            self.read_to = at;
            let ends = crash.filter(|(last, _)| *last == number).map(|(_, when)| when);
            self.finish(first, batch, at, ends);
            if ends.is_some() {
                return;
            }
        }
    }

    fn finish(&mut self, first: u64, batch: &[u8], at: At, ends: Option<When>) {
        let half = ends == Some(When::Between);
        if ends == Some(When::Read) || (half && self.in_transactions()) {
            return;
        }
        let commits_first = self.guarantee == Guarantee::AtMostOnce;
        if commits_first || !half {
            self.kept = at;
        }
        if !commits_first || !half {
            self.write(first, batch);
        }
    }

    fn write(&mut self, first: u64, batch: &[u8]) {
        let capabilities = self.capabilities;
        let as_letter = capabilities.dead_letters.map_or(Identity::Transaction, |letters| letters.identity);
        let each = (first..).zip(batch).map(|(offset, event)| Written { offset, of: 1_u8 << event });
        let (denied, mut left): (Vec<_>, Vec<_>) = each.partition(|one| one.of & self.denied > 0);
        if !capabilities.repeatable {
            // The transform makes one event of all events of a batch.
            let one = left.into_iter().reduce(|all, one| Written { of: all.of | one.of, ..all });
            left = one.into_iter().collect();
        }
        denied.into_iter().for_each(|one| put(&mut self.letters, as_letter, one));
        left.into_iter().for_each(|one| put(&mut self.sink, capabilities.sink.identity, one));
    }

    /// Removes events that a crash of the systems behind the sinks loses.
    fn forget(&mut self) {
        if !self.capabilities.sink.durable {
            self.sink.clear();
        }
        if self.capabilities.dead_letters.is_some_and(|letters| !letters.durable) {
            self.letters.clear();
        }
    }

    fn goes_on(&self, anew: Option<At>) -> Option<At> {
        match self.capabilities.replay {
            Replay::Nothing => Some(self.read_to),
            Replay::FromStore if !self.capabilities.positions && !self.in_transactions() => anew,
            Replay::FromStore | Replay::FromItself => Some(self.kept),
        }
    }

    fn holds(&self) -> bool {
        (0..EVENTS).all(|event| {
            let is = |of: u8| of & (1_u8 << event) > 0;
            let times = self.sink.iter().chain(&self.letters).filter(|one| is(one.of)).count();
            match self.guarantee {
                Guarantee::AtMostOnce => times <= 1,
                Guarantee::AtLeastOnce => times >= usize::from(is(self.read)),
                Guarantee::EffectivelyOnce => times == usize::from(is(self.read)),
            }
        })
    }
}

fn put(written: &mut Vec<Written>, identity: Identity, one: Written) {
    let is_known = match identity {
        Identity::Copies | Identity::Transaction => false,
        Identity::Once => written.iter().any(|before| before.offset == one.offset),
        Identity::Named => written.iter().any(|before| before.of == one.of),
    };
    if !is_known {
        written.push(one);
    }
}

/// Whether the guarantee holds in this course of events.
fn holds(guarantee: Guarantee, capabilities: &Capabilities, course: Course) -> bool {
    let Course { denied, cut, batch, when, forgets, anew } = course;
    let (sink, letters) = (Vec::new(), Vec::new());
    let (read_to, kept) = (At::default(), At::default());
    let mut world = World { guarantee, capabilities, denied, read: 0, read_to, kept, sink, letters };
    world.run(&[1, 2], At::default(), cut[0], Some((batch, when)));
    if forgets {
        world.forget();
    }
    let there: &[u8] = if capabilities.stable { &[1, 2] } else { &[0, 1, 2] };
    if let Some(from) = world.goes_on(anew) {
        world.run(there, from, cut[1], None);
    }
    world.holds()
}

/// Every course of events. A pipeline without sink of dead letters stops at a denied event, so none is denied.
fn courses(capabilities: &Capabilities) -> Vec<Course> {
    let writes_dead_letters = capabilities.dead_letters.is_some() || capabilities.sink.writes_dead_letters;
    let denied: &[u8] = if writes_dead_letters { &[0, 0b010, 0b011] } else { &[0] };
    let mut all = Vec::new();
    for denied in denied.iter().copied() {
        for (cut, batch) in [([1, 1], 0), ([1, 1], 1), ([1, 2], 0), ([1, 2], 1), ([2, 1], 0), ([2, 2], 0)] {
            for when in [When::Read, When::Between, When::Done] {
                for forgets in BOTH {
                    let course = |anew| Course { denied, cut, batch, when, forgets, anew };
                    all.extend([None, Some(At::default())].map(course));
                }
            }
        }
    }
    all
}

const fn promise(durable: bool, identity: Identity, writes_dead_letters: bool) -> Promise {
    Promise { durable, identity, order: Order::Any, writes_dead_letters }
}

/// Every sink with every sink of dead letters. A transactional sink writes its own dead letters or none.
fn ends() -> Vec<(Promise, Option<Promise>)> {
    let plain: Vec<_> = BOTH
        .into_iter()
        .flat_map(|durable| {
            [Identity::Copies, Identity::Once, Identity::Named]
                .map(|identity| promise(durable, identity, false))
        })
        .collect();
    let mut ends = Vec::new();
    for sink in &plain {
        ends.push((*sink, None));
        ends.extend(plain.iter().map(|letters| (*sink, Some(*letters))));
    }
    for durable in BOTH {
        ends.extend(
            BOTH.map(|writes_dead_letters| {
                (promise(durable, Identity::Transaction, writes_dead_letters), None)
            }),
        );
    }
    ends
}

fn combinations() -> Vec<Capabilities> {
    let mut all = Vec::new();
    for replay in [Replay::Nothing, Replay::FromStore, Replay::FromItself] {
        for facts in 0..8_u8 {
            let [positions, stable, repeatable] = [1, 2, 4].map(|bit| facts & bit > 0);
            let capabilities = |(sink, dead_letters)| Capabilities {
                replay,
                positions,
                stable,
                repeatable,
                sink,
                dead_letters,
            };
            all.extend(ends().into_iter().map(capabilities));
        }
    }
    all
}

/// Whether a combination is possible, but useless: a store without writer, a weaker guarantee than available, or a sink that
/// must recognise all events again at every start.
fn is_pointless(said: Result<(), Refusal>, capabilities: &Capabilities) -> bool {
    match said {
        Err(Refusal::PositionsTwice | Refusal::TransactionAtMostOnce) => true,
        Err(Refusal::NoPositions(Guarantee::AtMostOnce)) => capabilities.sink.identity != Identity::Copies,
        _ => false,
    }
}

#[test]
fn refused_guarantees_would_break_and_accepted_ones_hold() {
    let mut refused = HashSet::new();
    for capabilities in combinations() {
        let courses = courses(&capabilities);
        for guarantee in [Guarantee::AtMostOnce, Guarantee::AtLeastOnce, Guarantee::EffectivelyOnce] {
            let said = check(guarantee, &capabilities);
            refused.extend(said.err().map(|refusal| discriminant(&refusal)));
            if is_pointless(said, &capabilities) {
                continue;
            }
            let kept = courses.iter().all(|course| holds(guarantee, &capabilities, *course));
            assert_eq!(said.is_ok(), kept, "{guarantee} of {capabilities:?}: {said:?}");
        }
    }
    assert_eq!(refused.len(), 10, "each reason occurs");
}
