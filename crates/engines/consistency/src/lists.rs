//! Indexes a history by list: the order of its elements, their writers, and the states that reads showed.

use std::collections::HashMap;

use crate::history::{Element, InvalidHistory, ListId, Outcome, Step, TRANSACTIONS_MAX, Transaction};

/// The moment of an event that is not known to have happened.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// One append of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Append {
    pub transaction: u32,
    /// Whether this is the transaction's last append to the list.
    pub is_last: bool,
    /// The position in the list's order, once a read showed it.
    pub position: Option<u32>,
}

/// The state of a list that a committed transaction read, without the transaction's appends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a> {
    pub transaction: u32,
    pub elements: &'a [Element],
}

/// A list.
#[derive(Debug)]
pub(crate) struct List<'a> {
    pub id: ListId,
    /// The longest state that was read: the order of the elements.
    pub order: &'a [Element],
    /// The transaction that appended each element of `order`. Empty if the list is not sound.
    pub writers: Vec<u32>,
    pub reads: Vec<Read<'a>>,
    /// Transactions that append to it, in the order of the history, with each element.
    pub appended: Vec<(u32, Element)>,
    /// Whether all reads agree on an order of committed elements, so that dependencies can be inferred.
    pub is_sound: bool,
}

/// A history by list.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    pub history: &'a [Transaction],
    pub all: Vec<List<'a>>,
    pub appends: HashMap<(ListId, Element), Append>,
    /// Transactions whose reads contradict their earlier steps, with the number of the step.
    pub inconsistent: Vec<(u32, usize)>,
    /// The moment from which each transaction is known to be committed: its completion, or the first completed read of it.
    pub known_ns: Vec<u64>,
}

impl<'a> Lists<'a> {
    pub fn new(history: &'a [Transaction]) -> Result<Self, InvalidHistory> {
        if history.len() > TRANSACTIONS_MAX {
            return Err(InvalidHistory::TooLong(history.len()));
        }
        let appends = HashMap::with_capacity(history.len());
        let (all, inconsistent) = (Vec::new(), Vec::new());
        let mut lists = Self { history, all, appends, inconsistent, known_ns: Vec::new() };
        let mut slots = HashMap::new();
        for (number, transaction) in numbered(history) {
            check_interval(number, transaction)?;
            for (index, step) in transaction.steps.iter().enumerate() {
                let slot = *slots.entry(step.list()).or_insert_with(|| lists.add(step.list()));
                lists.index(number, index, slot)?;
            }
        }
        (0..lists.all.len()).for_each(|slot| lists.lay_out(slot));
        lists.know();
        Ok(lists)
    }

    /// Whether the transaction is known to have committed.
    pub fn is_present(&self, transaction: u32) -> bool {
        self.known_ns[transaction as usize] != NEVER_NS
    }

    pub fn transaction(&self, number: u32) -> &'a Transaction {
        &self.history[number as usize]
    }

    pub fn append(&self, list: ListId, element: Element) -> Option<&Append> {
        self.appends.get(&(list, element))
    }

    pub fn is_aborted(&self, transaction: u32) -> bool {
        self.transaction(transaction).outcome == Outcome::Aborted
    }

    fn add(&mut self, id: ListId) -> usize {
        self.all.push(List {
            id,
            order: &[],
            writers: Vec::new(),
            reads: Vec::new(),
            appended: Vec::new(),
            is_sound: true,
        });
        self.all.len() - 1
    }

    fn index(&mut self, number: u32, index: usize, slot: usize) -> Result<(), InvalidHistory> {
        let transaction = self.transaction(number);
        let (earlier, step) = (&transaction.steps[..index], &transaction.steps[index]);
        let list = step.list();
        if let Step::Append { element, .. } = *step {
            let is_last = !appends_to(&transaction.steps[index + 1..], list);
            let append = Append { transaction: number, is_last, position: None };
            if let Some(first) = self.appends.insert((list, element), append) {
                let (first, second) = (first.transaction, number);
                return Err(InvalidHistory::RepeatedElement { list, element, first, second });
            }
            self.all[slot].appended.push((number, element));
        }
        let is_first = earlier.iter().all(|step| step.list() != list);
        if is_first && transaction.outcome == Outcome::Committed {
            match state_before(&transaction.steps, list) {
                Ok(None) => {}
                Ok(Some(elements)) => self.all[slot].see(Read { transaction: number, elements }),
                Err(step) => self.inconsistent.push((number, step)),
            }
        }
        Ok(())
    }

    /// Gives each element its position, and decides whether the list is sound.
    fn lay_out(&mut self, slot: usize) {
        let list = &self.all[slot];
        let (id, order) = (list.id, list.order);
        let mut is_sound = list.reads.iter().all(|read| order.starts_with(read.elements));
        let mut writers = Vec::with_capacity(order.len());
        for (position, element) in order.iter().enumerate() {
            let Some(append) = self.appends.get_mut(&(id, *element)) else {
                is_sound = false;
                continue;
            };
            is_sound &= append.position.replace(position as u32).is_none();
            is_sound &= self.history[append.transaction as usize].outcome != Outcome::Aborted;
            writers.push(append.transaction);
        }
        let list = &mut self.all[slot];
        list.is_sound = is_sound;
        list.writers = if is_sound { writers } else { Vec::new() };
    }

    /// Finds out since when each transaction is known to be committed.
    fn know(&mut self) {
        let completed = |transaction: &Transaction| match transaction.outcome {
            Outcome::Committed => transaction.completed_ns,
            Outcome::Aborted | Outcome::Unknown => NEVER_NS,
        };
        let mut known_ns: Vec<u64> = self.history.iter().map(completed).collect();
        for list in &self.all {
            for (writer, seen_ns) in list.writers.iter().zip(list.first_seen_ns(self.history)) {
                let known = &mut known_ns[*writer as usize];
                *known = (*known).min(seen_ns);
            }
        }
        self.known_ns = known_ns;
    }
}

impl<'a> List<'a> {
    fn see(&mut self, read: Read<'a>) {
        if read.elements.len() > self.order.len() {
            self.order = read.elements;
        }
        self.reads.push(read);
    }

    /// The completion of the first read that shows each element of `order`.
    fn first_seen_ns(&self, history: &[Transaction]) -> Vec<u64> {
        let mut first_ns = vec![NEVER_NS; self.writers.len()];
        for read in self.reads.iter().filter(|read| !read.elements.is_empty()) {
            if let Some(first) = first_ns.get_mut(read.elements.len() - 1) {
                *first = (*first).min(history[read.transaction as usize].completed_ns);
            }
        }
        let mut least = NEVER_NS;
        for first in first_ns.iter_mut().rev() {
            least = least.min(*first);
            *first = least;
        }
        first_ns
    }

    /// The read that started last.
    pub fn last_read(&self, history: &[Transaction]) -> Option<Read<'a>> {
        self.reads.iter().max_by_key(|read| history[read.transaction as usize].invoked_ns).copied()
    }

    /// The state that a transaction read.
    pub fn read_of(&self, transaction: u32) -> Option<Read<'a>> {
        self.reads.iter().find(|read| read.transaction == transaction).copied()
    }
}

/// The transactions with their numbers.
pub(crate) fn numbered(history: &[Transaction]) -> impl Iterator<Item = (u32, &Transaction)> {
    history.iter().enumerate().map(|(number, transaction)| (number as u32, transaction))
}

/// Writes elements as `[1 2 3]`, a long list by its end.
pub(crate) fn shown(elements: &[Element]) -> String {
    const SHOWN_MAX: usize = 8;
    let from = elements.len().saturating_sub(SHOWN_MAX);
    let words: Vec<String> = elements[from..].iter().map(Element::to_string).collect();
    let cut = if from > 0 { format!("… ({from} more) ") } else { String::new() };
    format!("[{cut}{}]", words.join(" "))
}

fn check_interval(number: u32, transaction: &Transaction) -> Result<(), InvalidHistory> {
    let has_end = transaction.outcome != Outcome::Unknown;
    if has_end && transaction.completed_ns < transaction.invoked_ns {
        return Err(InvalidHistory::Interval(number));
    }
    Ok(())
}

fn appends_to(steps: &[Step], wanted: ListId) -> bool {
    steps.iter().any(|step| matches!(step, Step::Append { list, .. } if *list == wanted))
}

/// The state of a list before the transaction's appends, if the transaction reads the list.
///
/// # Errors
/// The first read that contradicts the transaction's earlier steps.
fn state_before(steps: &[Step], wanted: ListId) -> Result<Option<&[Element]>, usize> {
    let (mut before, mut own) = (None, Vec::new());
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.list() == wanted) {
        match step {
            Step::Append { element, .. } => own.push(*element),
            Step::Read { elements, .. } => {
                let state = elements.strip_suffix(&own[..]).ok_or(index)?;
                if before.is_some_and(|before| before != state) {
                    return Err(index);
                }
                before = Some(state);
            }
        }
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(element: Element) -> Step {
        Step::Append { list: 0, element }
    }

    fn read(elements: &[Element]) -> Step {
        Step::Read { list: 0, elements: elements.to_vec() }
    }

    #[test]
    fn a_read_counts_without_the_appends_of_its_transaction() {
        assert_eq!(state_before(&[append(3), append(4), read(&[1, 3, 4])], 0), Ok(Some(&[1][..])));
        assert_eq!(state_before(&[append(3)], 0), Ok(None));
        assert_eq!(state_before(&[append(3), read(&[3, 1])], 0), Err(1));
        assert_eq!(state_before(&[read(&[1]), append(3), read(&[1, 2, 3])], 0), Err(2));
    }

    #[test]
    fn a_long_list_is_shown_by_its_end() {
        assert_eq!(shown(&[]), "[]");
        assert_eq!(shown(&(0..10).collect::<Vec<_>>()), "[… (2 more) 2 3 4 5 6 7 8 9]");
    }

    #[test]
    fn an_unknown_transaction_is_present_once_a_read_showed_it() {
        let transaction = |outcome, completed_ns, steps| Transaction {
            process: 0,
            invoked_ns: 0,
            completed_ns,
            outcome,
            steps,
        };
        let history = [
            transaction(Outcome::Unknown, 0, vec![append(1)]),
            transaction(Outcome::Unknown, 0, vec![append(2)]),
            transaction(Outcome::Committed, 30, vec![read(&[1])]),
            transaction(Outcome::Committed, 20, vec![read(&[1])]),
        ];
        assert_eq!(Lists::new(&history).unwrap().known_ns, [20, NEVER_NS, 30, 20]);
    }
}
