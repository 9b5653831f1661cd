//! Repeats faulty servers with new seeds: the audit must find every defect, and nothing else.

use std::fmt::{self, Display, Formatter};

use anyhow::ensure;
use bson::Bson;
use plimsoll_host::faulty::{DefectLog, Defects};
use plimsoll_ledger::Findings;
use plimsoll_report::units::exact;
use serde::Serialize;

use super::defects::{ids, same, start};
use super::trial::{self, Trial};

/// The limit of defects of a kind in one round: an audit names at most this many documents.
pub const DEFECTS_MAX: u64 = plimsoll_ledger::audit::EXAMPLES_MAX as u64;

/// The size of a round, and the rate of its defects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Documents.
    pub documents: u64,
    /// One in this many documents is forgotten, one gets a flipped bit, and one is stored twice.
    pub one_in: u64,
}

/// Whether connections are cut while the server introduces defects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Calm,
    Broken,
}

/// The result for one kind of defect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DefectCheck {
    /// Introduced defects that the audit must find.
    pub introduced: u64,
    /// Documents that the audit found.
    pub found: u64,
    /// Whether both are the same documents.
    pub same: bool,
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The round's number, from 1.
    pub round: u32,
    /// The seed of the documents and the defects.
    pub seed: u64,
    /// Documents that were acknowledged to the load.
    pub acknowledged: u64,
    /// Documents that were in flight when a connection was cut.
    pub unknown: u64,
    /// The number of times that all connections were cut.
    pub cuts: u64,
    /// Acknowledged and not stored; found lost.
    pub forgotten: DefectCheck,
    /// Stored with a flipped bit; found corrupted.
    pub flipped: DefectCheck,
    /// Stored twice; found duplicated.
    pub doubled: DefectCheck,
    /// Whether the audit found exactly these.
    pub exact: bool,
}

/// Runs rounds with seeds from `first` on, until one is not exact. Shows each round when it ends. In every second round all connections are
/// cut during the load.
///
/// # Errors
/// A round cannot be run.
pub fn rounds(
    size: Size,
    count: u32,
    first: u64,
    mut show: impl FnMut(&Round),
) -> anyhow::Result<Vec<Round>> {
    let mut made = Vec::new();
    for number in 1..=count {
        let network = if number.is_multiple_of(2) { Network::Broken } else { Network::Calm };
        let round = round(number, first.wrapping_add(u64::from(number) - 1), size, network, &[])?;
        show(&round);
        let is_exact = round.exact;
        made.push(round);
        if !is_exact {
            break;
        }
    }
    Ok(made)
}

impl Size {
    /// Refuses a round without a defect, which proves nothing, and a round with more defects than an audit names.
    ///
    /// # Errors
    /// The number of defects of a kind is 0 or exceeds [`DEFECTS_MAX`].
    pub fn check(self) -> anyhow::Result<()> {
        let defects = self.documents / self.one_in.max(1);
        ensure!(
            (1..=DEFECTS_MAX).contains(&defects),
            "--documents {} --one-in {}: {defects} defects of a kind in a round; give numbers for 1 to {DEFECTS_MAX}",
            self.documents,
            self.one_in
        );
        Ok(())
    }
}

fn round(number: u32, seed: u64, size: Size, network: Network, more: &[String]) -> anyhow::Result<Round> {
    let every = Some(size.one_in);
    let defects = Defects {
        forget_every: every,
        flip_every: every,
        duplicate_every: every,
        seed: Some(seed),
        ..Defects::default()
    };
    let server = start(defects)?;
    let mut overrides = vec![format!("phases.0.stop.documents={}", size.documents)];
    overrides.extend((network == Network::Calm).then(|| "phases.0.faults=[]".to_owned()));
    overrides.extend_from_slice(more);
    let trial = trial::run_seeded("lies", &overrides, seed, server.address())?;
    let found = trial.audit()?;
    Ok(judge(number, seed, &trial, &server.record(), &found))
}

/// Compares the audit's findings with the server's defects. A forgotten document that was in flight when a
/// connection was cut was never acknowledged, so it is not lost. A flipped or duplicated document exists,
/// acknowledged or not.
fn judge(number: u32, seed: u64, trial: &Trial, record: &DefectLog, found: &Findings) -> Round {
    let was_promised = |id: &Bson| match id {
        Bson::ObjectId(id) => trial.is_acknowledged(id.bytes()),
        _ => false,
    };
    let forgotten: Vec<_> =
        record.forgotten.iter().map(|it| it.id.clone()).filter(|id| was_promised(id)).collect();
    let flipped: Vec<_> = record.flipped.iter().map(|it| it.victim.id.clone()).collect();
    let doubled: Vec<_> = record.duplicated.iter().map(|it| it.victim.id.clone()).collect();
    let check_defect = |introduced: &[Bson], count: u64, examples: &[u64]| {
        let is_same = count == introduced.len() as u64 && same(ids(trial, examples), introduced);
        DefectCheck { introduced: introduced.len() as u64, found: count, same: is_same }
    };
    let forgotten = check_defect(&forgotten, found.lost, &found.examples.lost);
    let flipped = check_defect(&flipped, found.corrupted, &found.examples.corrupted);
    let doubled = check_defect(&doubled, found.duplicated, &found.examples.duplicated);
    let all = [forgotten, flipped, doubled];
    let has_defects = all.iter().any(|check| check.introduced > 0);
    Round {
        round: number,
        seed,
        acknowledged: found.acknowledged,
        unknown: found.unknown_present + found.unknown_absent,
        cuts: trial.summary.faults().iter().filter(|fault| fault.error.is_none()).count() as u64,
        forgotten,
        flipped,
        doubled,
        exact: has_defects && found.phantom == 0 && all.iter().all(|check| check.same),
    }
}

impl Display for Round {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let describe = |name: &str, check: DefectCheck| {
            let but = if check.same { "" } else { ", NOT THE SAME" };
            format!("{name} {} of {}{but}", check.found, check.introduced)
        };
        write!(
            out,
            "{}  round {:>3}  seed {}  {} acknowledged, {} unknown, {} cuts: {}; {}; {}{}",
            if self.exact { "pass" } else { "FAIL" },
            self.round,
            self.seed,
            exact(self.acknowledged),
            exact(self.unknown),
            self.cuts,
            describe("lost", self.forgotten),
            describe("corrupted", self.flipped),
            describe("duplicated", self.doubled),
            if self.exact { "; the same documents" } else { "" },
        )
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::{self, MILLISECOND_NS};

    use super::*;

    /// Small enough for a test, with ten defects of a kind.
    const SMALL: Size = Size { documents: 40_000, one_in: 4_000 };

    fn seed() -> u64 {
        let seed = clock::now().as_ns() / MILLISECOND_NS;
        println!("seed {seed}");
        seed
    }

    #[test]
    fn every_defect_is_found_and_nothing_else() {
        let round = round(1, seed(), SMALL, Network::Calm, &[]).unwrap();
        assert!(round.exact, "{round}");
        assert_eq!((round.acknowledged, round.unknown, round.cuts), (40_000, 0, 0));
        let introduced = round.forgotten.introduced + round.flipped.introduced + round.doubled.introduced;
        assert!((20..=30).contains(&introduced), "each document has at most one defect: {round}");
    }

    #[test]
    fn every_defect_is_found_while_connections_break() {
        // Often enough for a short load, and in small batches, so that some are in flight.
        let more = [
            "phases.0.faults.0.at=5ms",
            "phases.0.faults.0.every=40ms",
            "phases.0.faults.0.inject.network.lasts=5ms",
            "phases.0.load.insert.operation.insert.batch=20",
        ];
        let round = round(2, seed(), SMALL, Network::Broken, &more.map(str::to_owned)).unwrap();
        assert!(round.exact && round.cuts > 0, "{round}");
        assert_eq!(round.acknowledged + round.unknown, 40_000, "{round}");
    }

    #[test]
    fn a_round_that_missed_one_or_found_another_is_not_exact() {
        let server = start(Defects { forget_every: Some(1000), ..Defects::default() }).unwrap();
        let overrides = ["phases.0.stop.documents=5000".to_owned(), "phases.0.faults=[]".to_owned()];
        let trial = trial::run_seeded("lies", &overrides, 3, server.address()).unwrap();
        let (record, found) = (server.record(), trial.audit().unwrap());
        assert!(judge(1, 3, &trial, &record, &found).exact);

        let mut missed = record.clone();
        missed.forgotten.pop();
        assert!(!judge(1, 3, &trial, &missed, &found).exact, "the audit named a document without a defect");
        let mut another = found.clone();
        another.examples.lost[0] += 1;
        let round = judge(1, 3, &trial, &record, &another);
        assert!(!round.exact && round.to_string().contains("NOT THE SAME"), "{round}");
        let more = Findings { phantom: 1, ..found.clone() };
        assert!(!judge(1, 3, &trial, &record, &more).exact);
        let nothing = Findings { lost: 0, examples: Default::default(), ..found };
        assert!(
            !judge(1, 3, &trial, &DefectLog::default(), &nothing).exact,
            "a round without defects proves nothing"
        );
    }

    #[test]
    fn inconclusive_rounds_are_refused() {
        for (documents, one_in, defects) in [(10, 100, "0 defects"), (1_000_000, 100, "10000 defects")] {
            let message = Size { documents, one_in }.check().unwrap_err().to_string();
            assert!(message.contains(defects), "{message}");
        }
        assert!(Size { documents: 2_000_000, one_in: 1_000_000 }.check().is_ok());
    }
}
