//! Measures how long a check takes as the history grows.
//!
//! Goal: a million transactions with four steps each in less than half a minute and 4 GB on one core, in time
//! nearly linear in their number. Histories with many anomalies have no goal. The history is the same in
//! every run.

use divan::counter::ItemsCount;
use plimsoll_consistency::{Element, Outcome, Step, Transaction, check};

const PROCESSES: u64 = 16;
const LISTS: u64 = 32;
const APPENDS_MAX: usize = 32;
const STEPS: u64 = 4;

fn main() {
    divan::main();
}

#[divan::bench(args = [10_000, 100_000, 1_000_000], sample_count = 1, sample_size = 1)]
fn clean(bencher: divan::Bencher<'_, '_>, transactions: u64) {
    let history = history(transactions);
    bencher.counter(ItemsCount::new(transactions)).bench_local(|| {
        let report = check(&history).expect("the history is valid");
        assert!(report.counts.is_empty() && report.committed == transactions);
    });
}

/// Transactions that take effect one after the other, while `PROCESSES` of them overlap. Every second step appends.
fn history(transactions: u64) -> Vec<Transaction> {
    let mut lists: Vec<(u64, Vec<Element>)> = (0..LISTS).map(|list| (list, Vec::new())).collect();
    let mut next = LISTS;
    let transaction = |number: u64| {
        let mut steps = Vec::new();
        for index in 0..STEPS {
            let (list, elements) = &mut lists[((number * 7 + index * 5) % LISTS) as usize];
            if index % 2 == 0 {
                steps.push(Step::Read { list: *list, elements: elements.clone() });
                continue;
            }
            let element = number * STEPS + index;
            elements.push(element);
            steps.push(Step::Append { list: *list, element });
            if elements.len() == APPENDS_MAX {
                (*list, next) = (next, next + 1);
                elements.clear();
            }
        }
        let middle = PROCESSES * 10 + number * 10;
        Transaction {
            process: (number % PROCESSES) as u32,
            invoked_ns: middle - PROCESSES * 5 + 1,
            completed_ns: middle + PROCESSES * 5 - 1,
            outcome: Outcome::Committed,
            steps,
        }
    };
    (0..transactions).map(transaction).collect()
}
