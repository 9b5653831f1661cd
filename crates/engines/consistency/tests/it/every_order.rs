//! Compares the checker with trying every order of small histories.

use std::collections::HashMap;

use plimsoll_consistency::simulation::Random;
use plimsoll_consistency::{Claim, Element, ListId, Outcome, Step, Transaction, check};

const ROUNDS: u64 = 20_000;

#[test]
fn the_checker_agrees_with_trying_every_order() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..ROUNDS {
        let history = history(seed);
        let report = check(&history).unwrap();
        let is_explained = explains(&history, &mut HashMap::new(), 0);
        let is_clean = report.violation_count(Claim::STRICT_SERIALIZABLE) == 0;
        assert_eq!(is_clean, is_explained, "seed {seed}: {history:#?}\n{:#?}", report.examples);
        *(if is_clean { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > ROUNDS / 10 && wrong > ROUNDS / 10, "{right} right, {wrong} wrong");
}

/// Random transactions in one order, with some of their answers and times changed, and reads of both lists at the end.
fn history(seed: u64) -> Vec<Transaction> {
    let mut random = Random::new(seed);
    let (mut lists, mut all) = (HashMap::<ListId, Vec<Element>>::new(), Vec::new());
    for number in 0..3 + random.below(3) {
        let outcome = if random.happens(15) { Outcome::Unknown } else { Outcome::Committed };
        let takes_effect = outcome == Outcome::Committed || random.happens(50);
        let mut steps = Vec::new();
        for index in 0..1 + random.below(3) {
            let (list, element) = (random.below(2), number * 10 + index);
            if random.happens(50) {
                steps.push(Step::Append { list, element });
                if takes_effect {
                    lists.entry(list).or_default().push(element);
                }
            } else {
                let mut elements = lists.get(&list).cloned().unwrap_or_default();
                if random.happens(10) {
                    elements.pop();
                }
                steps.push(Step::Read { list, elements });
            }
        }
        let (early, late) = (random.below(15), random.below(15));
        let (invoked_ns, completed_ns) = ((20 + number * 10).saturating_sub(early), 25 + number * 10 + late);
        all.push(Transaction { process: number as u32, invoked_ns, completed_ns, outcome, steps });
    }
    let steps = [0, 1].map(|list| Step::Read { list, elements: lists.remove(&list).unwrap_or_default() });
    all.push(Transaction {
        process: 9,
        invoked_ns: 1_000,
        completed_ns: 1_001,
        outcome: Outcome::Committed,
        steps: steps.to_vec(),
    });
    all
}

/// Whether some order of the remaining transactions explains all answers. An unknown transaction may be left out.
fn explains(history: &[Transaction], lists: &mut HashMap<ListId, Vec<Element>>, placed: u32) -> bool {
    let remaining: Vec<usize> = (0..history.len()).filter(|index| placed & 1 << index == 0).collect();
    let is_committed = |index: &usize| history[*index].outcome == Outcome::Committed;
    if !remaining.iter().any(is_committed) {
        return true;
    }
    let first_end =
        remaining.iter().filter(|index| is_committed(index)).map(|index| history[*index].completed_ns);
    let first_end = first_end.min().unwrap_or(u64::MAX);
    remaining.into_iter().filter(|index| history[*index].invoked_ns <= first_end).any(|index| {
        let mut after = lists.clone();
        applies(&history[index], &mut after) && explains(history, &mut after, placed | 1 << index)
    })
}

/// Runs a transaction. False if a committed transaction read another state.
fn applies(transaction: &Transaction, lists: &mut HashMap<ListId, Vec<Element>>) -> bool {
    let is_committed = transaction.outcome == Outcome::Committed;
    transaction.steps.iter().all(|step| match step {
        Step::Append { list, element } => {
            lists.entry(*list).or_default().push(*element);
            true
        }
        Step::Read { list, elements } => {
            !is_committed || lists.get(list).map_or(&[][..], |state| &state[..]) == &elements[..]
        }
    })
}
