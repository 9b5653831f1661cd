//! Tests the journal's content after Plimsoll crashes at a random moment.

use std::fs::{self, OpenOptions};
use std::path::Path;

use plimsoll_ledger::{Allocation, Journals, Ledger, Run, Slot, Source, State, WorkerLedger, recover};

use crate::random::Random;

const RUN: Run = Run { time_s: 1_700_000_000, tag: [1, 2, 3] };

/// A running worker: its ledger, and the states on disk.
struct Writer {
    own: WorkerLedger,
    flushed: WorkerLedger,
    sent: u64,
    allocated: u64,
}

impl Writer {
    fn new(allocated: u64) -> Writer {
        Writer { own: WorkerLedger::new(), flushed: WorkerLedger::unjournaled(), sent: 0, allocated }
    }

    fn step(&mut self, random: &mut Random, journals: &mut Journals, worker: u64) {
        if let Some(until) = self.own.wants(self.sent, 4000) {
            journals.reserve(worker, until.min(self.allocated)).expect("reserve");
            self.own.grant(until.min(self.allocated));
        }
        let until = self.own.reserved_until().min(self.sent + random.below(3000));
        self.own.set(self.sent..until, State::Unknown);
        let learned = [State::Acknowledged, State::Acknowledged, State::Rejected, State::Unknown];
        self.own.set(self.sent..until, learned[random.below(4) as usize]);
        self.sent = until;
        if random.below(4) == 0 {
            let mut pages = Vec::new();
            self.own.take_dirty(&mut pages);
            journals.flush(worker, &pages).expect("flush");
            self.flushed = self.own.clone();
        }
    }
}

fn check(ledger: &Ledger, allocation: &Allocation, worker: u64, writer: &Writer, seed: u64) {
    for local in 0..writer.allocated {
        let number = allocation.global(Slot { worker, local }).expect("allocated");
        let expected = match writer.flushed.state(local) {
            State::NotSent if local < writer.own.reserved_until() => State::Unknown,
            flushed => flushed,
        };
        assert_eq!(ledger.state(number), expected, "seed {seed}, worker {worker}, document {local}");
        assert!(local >= writer.sent || expected != State::NotSent, "seed {seed}, sent {local}");
    }
}

fn run(dir: &Path, allocation: Allocation, seed: u64) -> Vec<Writer> {
    let mut random = Random(seed);
    let mut journals =
        Journals::create(dir, RUN, allocation, 0..allocation.workers()).expect("begin a ledger");
    let mut writers: Vec<_> =
        (0..allocation.workers()).map(|worker| Writer::new(allocation.allocated_to(worker))).collect();
    for _ in 0..random.below(60) {
        let worker = random.below(allocation.workers());
        writers[worker as usize].step(&mut random, &mut journals, worker);
    }
    writers
}

#[test]
fn unflushed_documents_are_unknown_after_a_crash() {
    for seed in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let allocation = Allocation::new(500, 3, Some(100_000)).unwrap();
        let writers = run(dir.path(), allocation, seed);
        let recovered = recover(dir.path()).unwrap();
        assert_eq!((recovered.source, recovered.skipped_bytes), (Source::Journals, 0), "seed {seed}");
        for (worker, writer) in (0..).zip(&writers) {
            check(&recovered.ledger, &allocation, worker, writer, seed);
        }
    }
}

#[test]
fn a_journal_cut_anywhere_is_read_without_new_claims() {
    let dir = tempfile::tempdir().unwrap();
    let allocation = Allocation::new(500, 1, Some(40_000)).unwrap();
    let writers = run(dir.path(), allocation, 3);
    let path = dir.path().join("worker-00000.journal");
    let length = fs::metadata(&path).unwrap().len();
    for cut in (0..length).rev().step_by(97) {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
        let recovered = recover(dir.path()).unwrap();
        for number in (0..40_000).step_by(50) {
            let state = recovered.ledger.state(number);
            let claims = matches!(state, State::Acknowledged | State::Rejected);
            assert!(!claims || state == writers[0].flushed.state(number), "document {number}, cut at {cut}");
        }
    }
}

#[test]
fn a_page_repeats_the_reservation() {
    let dir = tempfile::tempdir().unwrap();
    let mut journals =
        Journals::create(dir.path(), RUN, Allocation::new(10, 1, None).unwrap(), 0..1).unwrap();
    let (mut own, mut pages) = (WorkerLedger::unjournaled(), Vec::new());
    own.set(0..50, State::Unknown);
    own.take_dirty(&mut pages);
    journals.reserve(0, 100).unwrap();
    journals.flush(0, &pages).unwrap();
    let path = dir.path().join("worker-00000.journal");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..32].fill(0);
    fs::write(&path, &bytes).unwrap();
    let recovered = recover(dir.path()).unwrap();
    assert_eq!((recovered.skipped_bytes, recovered.ledger.counts().unknown), (32, 100));
}

#[test]
fn files_of_noise_are_read_without_panic() {
    let mut random = Random(9);
    for length in [0, 1, 31, 32, 33, 4096, 20_000] {
        let dir = tempfile::tempdir().unwrap();
        Journals::create(dir.path(), RUN, Allocation::new(10, 1, None).unwrap(), 0..1).unwrap();
        let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        fs::write(dir.path().join("worker-00000.journal"), &noise).unwrap();
        let recovered = recover(dir.path()).unwrap();
        assert_eq!(recovered.skipped_bytes, length);
        assert_eq!(recovered.ledger.counts().sent(), 0);
        fs::write(dir.path().join("ledger.txt"), &noise).unwrap();
        assert!(recover(dir.path()).is_err());
    }
}

#[test]
fn a_missing_journal_is_an_error_because_it_may_record_sent_documents() {
    let dir = tempfile::tempdir().unwrap();
    Journals::create(dir.path(), RUN, Allocation::new(10, 2, None).unwrap(), 0..2).unwrap();
    fs::remove_file(dir.path().join("worker-00001.journal")).unwrap();
    assert!(recover(dir.path()).unwrap_err().to_string().contains("worker-00001.journal is missing"));
}

#[test]
fn separately_recovered_shards_are_joined() {
    let allocation = Allocation::new(500, 4, Some(10_000)).unwrap();
    let shards = [0..2, 2..4].map(|kept: std::ops::Range<u64>| {
        let dir = tempfile::tempdir().unwrap();
        let mut journals = Journals::create(dir.path(), RUN, allocation, kept.clone()).unwrap();
        kept.for_each(|worker| journals.reserve(worker, 100).unwrap());
        recover(dir.path()).unwrap().ledger
    });
    let [mut whole, other] = shards;
    whole.merge(other).unwrap();
    assert_eq!(whole.counts().unknown, 400);
}
