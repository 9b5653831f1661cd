//! Measures the cost of a document in the ledger and in the audit.
//!
//! Goals, on one core: a range of 1000 is set in well under 100 ns, a single document in under 10 ns. The
//! audit takes 20 million sightings a second: in number order at any size, in random order as long as ledger
//! and audit fit in the cache. The disk has no goal: another thread waits for it. Seed: the shuffle
//! multiplies by a fixed odd number.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use plimsoll_ledger::{Allocation, Audit, Content, Found, Ledger, Run, State, WorkerLedger};

const RUN: Run = Run { time_s: 1_700_000_000, tag: [1, 2, 3] };
const DOCUMENTS: u64 = 1 << 24;

fn main() {
    divan::main();
}

#[divan::bench(args = [1, 100, 1000])]
fn set(bencher: Bencher, length: u64) {
    let mut ledger = WorkerLedger::unjournaled();
    ledger.set(0..DOCUMENTS, State::Unknown);
    let mut at = 0;
    bencher.counter(ItemsCount::new(length)).bench_local(|| {
        ledger.set(black_box(at..at + length), State::Acknowledged);
        at = (at + length) % (DOCUMENTS - length);
    });
}

#[divan::bench]
fn take_dirty_page(bencher: Bencher) {
    let mut ledger = WorkerLedger::unjournaled();
    let mut pages = Vec::new();
    bencher.bench_local(|| {
        pages.clear();
        ledger.set(0..1000, State::Unknown);
        ledger.take_dirty(&mut pages);
    });
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn see_in_order(bencher: Bencher) {
    see(bencher, |at| at);
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn see_shuffled(bencher: Bencher) {
    see(bencher, |at| at.wrapping_mul(plimsoll_measure::random::STEP) % DOCUMENTS);
}

fn see(bencher: Bencher, number: impl Fn(u64) -> u64) {
    let ledger = acknowledged();
    bencher.counter(ItemsCount::new(DOCUMENTS)).bench_local(|| {
        let mut audit = Audit::new(&ledger);
        for number in (0..DOCUMENTS).map(&number) {
            let stamp = Some(RUN.receipt(number).stamp());
            audit.see(black_box(Found::Receipt { number, content: Content::Follows(0), stamp }));
        }
        assert!(audit.finish().holds());
    });
}

fn acknowledged() -> Ledger {
    let allocation = Allocation::new(1000, 4, Some(DOCUMENTS)).expect("a valid allocation");
    let mut ledger = Ledger::new(RUN, allocation);
    for worker in 0..4 {
        let mut own = WorkerLedger::unjournaled();
        own.set(0..allocation.allocated_to(worker), State::Acknowledged);
        ledger.adopt(worker, own);
    }
    ledger
}
