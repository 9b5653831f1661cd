//! Tests crashes while Plimsoll changes documents: the audit reports no intact document, and skips only contradictions that an
//! unrecorded change explains.

use std::ops::Range;

use plimsoll_ledger::{
    Allocation, Audit, Changes, Content, Findings, Found, Intent, Intents, Journals, Ledger, OtherWriters,
    Run, Slot, State, Touched, WorkerLedger, recover, save,
};

use crate::random::Random;

const RUN: Run = Run { time_s: 1_700_000_000, tag: [1, 2, 3] };
const DOCUMENTS: u64 = 2000;

/// The stored state of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stored {
    Version(u32),
    Altered,
    Gone,
}

/// Two workers that change documents of both, and the server's storage.
struct World {
    allocation: Allocation,
    journals: Journals,
    changes: [Changes; 2],
    fresh: [Vec<Slot>; 2],
    reported: [Vec<Intent>; 2],
    stored: Vec<Stored>,
    /// The documents that the server's storage shows as changed since the last flush.
    late: Vec<bool>,
}

impl World {
    fn new(dir: &std::path::Path) -> World {
        let allocation = Allocation::new(100, 2, Some(DOCUMENTS)).expect("an allocation");
        let mut journals = Journals::create(dir, RUN, allocation, 0..2).expect("begin a ledger");
        for worker in 0..2 {
            let (mut own, mut pages) = (WorkerLedger::unjournaled(), Vec::new());
            own.set(0..allocation.allocated_to(worker), State::Acknowledged);
            own.take_dirty(&mut pages);
            journals.reserve(worker, allocation.allocated_to(worker)).expect("reserve");
            journals.flush(worker, &pages).expect("flush");
        }
        World {
            allocation,
            journals,
            changes: [Changes::default(), Changes::default()],
            fresh: [vec![], vec![]],
            reported: [vec![], vec![]],
            stored: vec![Stored::Version(0); DOCUMENTS as usize],
            late: vec![false; DOCUMENTS as usize],
        }
    }

    fn change(&mut self, random: &mut Random, kinds: &[Intent]) {
        let number = random.below(DOCUMENTS);
        let (owner, slot) = ((number % 2) as usize, self.allocation.locate(number).expect("allocated"));
        let intent = kinds[random.below(kinds.len() as u64) as usize];
        if !self.reported[owner].contains(&intent) {
            self.journals.intend(owner as u64, Intents::NONE.with(intent)).expect("intend");
            self.reported[owner].push(intent);
        }
        let (changes, stored) = (&mut self.changes[owner], &mut self.stored[number as usize]);
        match intent {
            Intent::Replace => {
                let Some(version) = changes.versions.replace(slot) else { return };
                match random.below(10) {
                    0 => {}
                    _ if *stored == Stored::Altered => changes.versions.acknowledge(slot),
                    _ => {
                        *stored = Stored::Version(version);
                        changes.versions.acknowledge(slot);
                    }
                }
            }
            Intent::Remove => {
                if !changes.versions.delete(slot) {
                    return;
                }
                *stored = Stored::Gone;
                if random.below(4) > 0 {
                    changes.versions.acknowledge(slot);
                }
            }
            Intent::Alter | Intent::Any => {
                if *stored == Stored::Gone {
                    return;
                }
                changes.touched.mark(&self.allocation, number..number + 1);
                *stored = Stored::Altered;
            }
        }
        self.fresh[owner].push(slot);
        self.late[number as usize] = true;
    }

    fn flush(&mut self, owner: usize) {
        let fresh = std::mem::take(&mut self.fresh[owner]);
        let changed: Vec<_> = fresh.iter().map(|slot| self.changes[owner].at(*slot)).collect();
        self.journals.note(owner as u64, &changed).expect("note");
        for slot in fresh {
            self.late[self.allocation.global(slot).expect("allocated") as usize] = false;
        }
    }
}

/// Some seconds of changes, and a crash in the middle of the last second.
fn world(dir: &std::path::Path, random: &mut Random, kinds: &[Intent]) -> World {
    let mut world = World::new(dir);
    for _ in 0..random.below(8) {
        (0..random.below(300)).for_each(|_| world.change(random, kinds));
        if random.below(3) > 0 {
            world.flush(0);
            world.flush(1);
        }
    }
    (0..random.below(300)).for_each(|_| world.change(random, kinds));
    world
}

fn audit(ledger: &Ledger, stored: &[Stored], numbers: Range<u64>) -> Findings {
    let touched = ledger.changes().map_or(&Touched::All, |changes| &changes.touched);
    let mut audit = Audit::with(ledger, touched, OtherWriters::Excluded);
    for number in numbers {
        let content = match stored[number as usize] {
            Stored::Version(version) => Content::Follows(version),
            Stored::Altered => Content::Differs,
            Stored::Gone => continue,
        };
        audit.see(Found::Receipt { number, content, stamp: None });
    }
    let lost = audit.lost().count() as u64;
    let findings = audit.finish();
    assert!(lost <= findings.lost, "every reported lost document is counted");
    findings
}

const MIXES: [&[Intent]; 6] = [
    &[Intent::Replace],
    &[Intent::Remove],
    &[Intent::Alter],
    &[Intent::Replace, Intent::Remove],
    &[Intent::Replace, Intent::Alter],
    &[Intent::Replace, Intent::Remove, Intent::Alter],
];

#[test]
fn changes_of_the_last_moment_are_not_reported_and_the_rest_is_audited() {
    for (seed, kinds) in (0..60).zip(MIXES.iter().cycle()) {
        let dir = tempfile::tempdir().unwrap();
        let world = world(dir.path(), &mut Random(seed), kinds);
        let ledger = recover(dir.path()).unwrap().ledger;
        let findings = audit(&ledger, &world.stored, 0..DOCUMENTS);
        assert!(findings.holds(), "seed {seed}, {kinds:?}: {findings:?}");
        let late = world.late.iter().filter(|late| **late).count() as u64;
        let known = |number: u64| {
            let slot = world.allocation.locate(number).unwrap();
            let changes = ledger.changes().unwrap();
            changes.touched.contains(slot) || changes.versions.at(slot).is_doubtful()
        };
        let known = (0..DOCUMENTS).filter(|number| known(*number)).count() as u64;
        assert!(findings.not_audited <= late + known, "seed {seed}, {kinds:?}: {late} {known} {findings:?}");
    }
}

#[test]
fn unexplained_contradictions_are_found_after_a_crash_too() {
    let check = |kinds: &[Intent], damage: &dyn Fn(&mut Stored), expected: (u64, u64, u64)| {
        for seed in 100..110 {
            let dir = tempfile::tempdir().unwrap();
            let mut world = world(dir.path(), &mut Random(seed), kinds);
            world.flush(0);
            world.flush(1);
            let ledger = recover(dir.path()).unwrap().ledger;
            let version = |number: &u64| {
                ledger.changes().unwrap().versions.at(world.allocation.locate(*number).unwrap())
            };
            let fit = |number: &u64| {
                let known = version(number);
                let content = world.stored[*number as usize];
                !known.is_doubtful() && matches!(content, Stored::Version(version) if version > 0)
            };
            let Some(victim) = (0..DOCUMENTS).find(fit) else { continue };
            damage(&mut world.stored[victim as usize]);
            let found = audit(&ledger, &world.stored, 0..DOCUMENTS);
            assert_eq!((found.lost, found.corrupted, found.phantom), expected, "seed {seed}, {kinds:?}");
        }
    };
    let older = |stored: &mut Stored| *stored = Stored::Version(0);
    let gone = |stored: &mut Stored| *stored = Stored::Gone;
    let other = |stored: &mut Stored| *stored = Stored::Altered;
    check(&[Intent::Replace], &older, (1, 0, 0));
    check(&[Intent::Replace], &gone, (1, 0, 0));
    check(&[Intent::Replace], &other, (0, 1, 0));
    check(&[Intent::Replace, Intent::Remove], &older, (1, 0, 0));
    check(&[Intent::Replace, Intent::Remove], &gone, (0, 0, 0));
    check(&[Intent::Replace, Intent::Alter], &gone, (1, 0, 0));
    check(&[Intent::Replace, Intent::Alter], &other, (0, 0, 0));
}

#[test]
fn a_deleted_document_that_exists_is_a_phantom_whatever_else_was_intended() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut world = World::new(dir.path());
    (0..400).for_each(|_| world.change(&mut random, &[Intent::Remove, Intent::Alter, Intent::Replace]));
    world.flush(0);
    world.flush(1);
    let ledger = recover(dir.path()).unwrap().ledger;
    let deleted = |number: &u64| {
        let changes = ledger.changes().unwrap();
        let slot = world.allocation.locate(*number).unwrap();
        changes.versions.at(slot).is_deleted() && !changes.touched.contains(slot)
    };
    let back = (0..DOCUMENTS).find(deleted).unwrap();
    world.stored[back as usize] = Stored::Version(0);
    let findings = audit(&ledger, &world.stored, 0..DOCUMENTS);
    assert_eq!((findings.phantom, &findings.examples.phantom[..]), (1, &[back][..]));
}

#[test]
fn changes_of_unnamed_documents_leave_no_document_to_audit() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(dir.path());
    world.journals.intend(1, Intents::NONE.with(Intent::Any)).unwrap();
    let ledger = recover(dir.path()).unwrap().ledger;
    assert_eq!(ledger.changes().unwrap().touched, Touched::All);
    assert_eq!(audit(&ledger, &world.stored, 5..DOCUMENTS).not_audited, DOCUMENTS);
}

#[test]
fn a_list_repeats_the_intents() {
    let dir = tempfile::tempdir().unwrap();
    let allocation = Allocation::new(10, 1, None).unwrap();
    let mut journals = Journals::create(dir.path(), RUN, allocation, 0..1).unwrap();
    journals.intend(0, Intents::NONE.with(Intent::Replace)).unwrap();
    journals.intend(0, Intents::NONE.with(Intent::Remove)).unwrap();
    journals.note(0, &[Changes::default().at(Slot { worker: 0, local: 3 })]).unwrap();
    let path = dir.path().join("worker-00000.journal");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[..64].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let recovered = recover(dir.path()).unwrap();
    let meant = Intents::NONE.with(Intent::Replace).with(Intent::Remove);
    assert_eq!((recovered.skipped_bytes, recovered.ledger.unseen()), (64, meant));
}

#[test]
fn a_saved_recovered_ledger_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    world(dir.path(), &mut Random(3), MIXES[5]);
    let ledger = recover(dir.path()).unwrap().ledger;
    save(dir.path(), &ledger).unwrap();
    assert_eq!(recover(dir.path()).unwrap().ledger, ledger);
}

#[test]
fn journals_of_the_older_format_contain_no_changes() {
    let dir = tempfile::tempdir().unwrap();
    drop(World::new(dir.path()));
    let path = dir.path().join("ledger.txt");
    let text = std::fs::read_to_string(&path).unwrap().replace("plimsoll-ledger 2", "plimsoll-ledger 1");
    let body = &text[..text.rfind("crc ").unwrap()];
    std::fs::write(&path, format!("{body}crc {:08x}\n", crc32(body.as_bytes()))).unwrap();
    let ledger = recover(dir.path()).unwrap().ledger;
    assert_eq!((ledger.changes(), ledger.counts().acknowledged), (None, DOCUMENTS));
}

/// CRC-32 as in zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
