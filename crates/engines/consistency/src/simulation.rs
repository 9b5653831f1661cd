//! Simulates a transactional store, its clients and their scheduler. Everything follows from the seed.
//!
//! Without a fault its histories have no anomaly that its isolation level forbids. [`FAULTS`] has a fault for each anomaly.

use std::collections::HashMap;

use crate::claim::Isolation;
use crate::history::{Element, ListId, Outcome, Step, Transaction};

pub use faults::{FAULTS, Fault, PROCESSES};
pub use random::Random;

mod faults;
mod random;

/// The settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The isolation level: snapshot, or serializable.
    pub isolation: Isolation,
    /// The number of clients.
    pub processes: u32,
    /// The number of transactions.
    pub transactions: usize,
    /// The number of lists that are in use at a time. A list is replaced after `APPENDS_MAX` appends.
    pub lists: u64,
    /// The percentage of commits without an answer. Half of them take effect, some only much later.
    pub unknown: u64,
    /// The percentage of transactions that the client aborts.
    pub aborted: u64,
}

/// Five clients of a serializable store.
pub const SERIALIZABLE: Settings = Settings {
    isolation: Isolation::Serializable,
    processes: 5,
    transactions: 60,
    lists: 3,
    unknown: 0,
    aborted: 10,
};

const APPENDS_MAX: u64 = 24;
const STEPS_MAX: u64 = 4;

/// An open transaction of a process.
#[derive(Debug)]
struct Open {
    invoked_ns: u64,
    snapshot: Option<u64>,
    todo: Vec<Plan>,
    done: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
enum Plan {
    Read(ListId),
    Append(ListId, Element),
}

/// A commit whose answer is lost, and which takes effect later.
#[derive(Debug)]
struct Late {
    at_ns: u64,
    snapshot: u64,
    steps: Vec<Step>,
}

/// The store with its clients.
#[derive(Debug)]
pub struct Simulation {
    random: Random,
    history: Vec<Transaction>,
    settings: Settings,
    now_ns: u64,
    /// The elements of each list with the number of their commit.
    lists: HashMap<ListId, Vec<(u64, Element)>>,
    commits: u64,
    open: Vec<Option<Open>>,
    late: Vec<Late>,
    next_element: Element,
    appends_of: HashMap<ListId, u64>,
    slots: Vec<ListId>,
}

impl Simulation {
    /// A store without lists.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            history: Vec::new(),
            settings,
            now_ns: 0,
            lists: HashMap::new(),
            commits: 0,
            open: (0..settings.processes).map(|_| None).collect(),
            late: Vec::new(),
            next_element: 1,
            appends_of: HashMap::new(),
            slots: (0..settings.lists).collect(),
        }
    }

    /// Runs until half, and then all, of the transactions have ended; calls `fault` in between. Reads every list at the end.
    pub fn run(mut self, fault: impl FnOnce(&mut Self)) -> Vec<Transaction> {
        while self.history.len() < self.settings.transactions / 2 {
            self.step();
        }
        fault(&mut self);
        while self.history.len() < self.settings.transactions {
            self.step();
        }
        self.read_everything();
        self.history
    }

    /// Lets a random process do its next step.
    fn step(&mut self) {
        self.now_ns += 1 + self.random.below(3);
        self.settle_late();
        let process = self.random.below(self.open.len() as u64) as usize;
        let Some(mut open) = self.open[process].take() else {
            let todo = self.plan();
            self.open[process] =
                Some(Open { invoked_ns: self.now_ns, snapshot: None, todo, done: Vec::new() });
            return;
        };
        let snapshot = *open.snapshot.get_or_insert(self.commits);
        match open.todo.pop() {
            Some(Plan::Append(list, element)) => open.done.push(Step::Append { list, element }),
            Some(Plan::Read(list)) => {
                let elements = self.visible(list, snapshot, &open.done);
                open.done.push(Step::Read { list, elements });
            }
            None => return self.end(process, open, snapshot),
        }
        self.open[process] = Some(open);
    }

    fn plan(&mut self) -> Vec<Plan> {
        let steps = 1 + self.random.below(STEPS_MAX);
        (0..steps)
            .map(|_| if self.random.happens(50) { self.plan_append() } else { self.plan_read() })
            .collect()
    }

    fn plan_read(&mut self) -> Plan {
        let slot = self.random.below(self.settings.lists) as usize;
        Plan::Read(self.slots[slot])
    }

    fn plan_append(&mut self) -> Plan {
        let slot = self.random.below(self.settings.lists) as usize;
        let list = self.slots[slot];
        let appends = self.appends_of.entry(list).or_default();
        *appends += 1;
        if *appends == APPENDS_MAX {
            self.slots[slot] = list + self.settings.lists;
        }
        Plan::Append(list, self.element())
    }

    /// The list as of a snapshot, with the transaction's appends.
    fn visible(&self, list: ListId, snapshot: u64, done: &[Step]) -> Vec<Element> {
        let stored = self.lists.get(&list).into_iter().flatten();
        let committed = stored.filter(|(commit, _)| *commit <= snapshot).map(|(_, element)| *element);
        committed.chain(appends(done).filter(|(of, _)| *of == list).map(|(_, element)| element)).collect()
    }

    fn end(&mut self, process: usize, open: Open, snapshot: u64) {
        let Open { invoked_ns, done, .. } = open;
        let mut record = |outcome, now_ns| {
            self.history.push(Transaction {
                process: process as u32,
                invoked_ns,
                completed_ns: now_ns,
                outcome,
                steps: done.clone(),
            });
        };
        if self.random.happens(self.settings.aborted) {
            return record(Outcome::Aborted, self.now_ns);
        }
        if self.random.happens(self.settings.unknown) {
            record(Outcome::Unknown, self.now_ns);
            if self.random.happens(50) {
                let at_ns = self.now_ns + self.random.below(60);
                self.late.push(Late { at_ns, snapshot, steps: done });
            }
            return;
        }
        let outcome = if self.commit(&done, snapshot) { Outcome::Committed } else { Outcome::Aborted };
        let now_ns = self.now_ns;
        self.history.push(Transaction {
            process: process as u32,
            invoked_ns,
            completed_ns: now_ns,
            outcome,
            steps: done,
        });
    }

    /// Commits unless another commit conflicts.
    fn commit(&mut self, steps: &[Step], snapshot: u64) -> bool {
        let changed = |list: ListId| {
            let last = self.lists.get(&list).and_then(|stored| stored.last());
            last.is_some_and(|(commit, _)| *commit > snapshot)
        };
        let must_hold = |step: &&Step| self.settings.isolation == Isolation::Serializable || is_append(step);
        if steps.iter().filter(must_hold).any(|step| changed(step.list())) {
            return false;
        }
        self.commits += 1;
        for (list, element) in appends(steps) {
            self.lists.entry(list).or_default().push((self.commits, element));
        }
        true
    }

    fn settle_late(&mut self) {
        let due = |late: &mut Late| late.at_ns <= self.now_ns;
        let due: Vec<Late> = self.late.extract_if(.., due).collect();
        for late in due {
            self.commit(&late.steps, late.snapshot);
        }
    }

    fn read_everything(&mut self) {
        let mut all: Vec<ListId> = self.lists.keys().copied().collect();
        all.sort_unstable();
        for list in all {
            let invoked_ns = self.tick();
            let step = Step::Read { list, elements: self.elements(list) };
            self.record(99, invoked_ns, Outcome::Committed, vec![step]);
        }
    }
}

/// The store without its rules, for faults.
impl Simulation {
    /// A new element.
    pub fn element(&mut self) -> Element {
        self.next_element += 1;
        self.next_element - 1
    }

    /// Two lists that are in use.
    pub fn two_lists(&mut self) -> (ListId, ListId) {
        let first = self.random.below(self.settings.lists);
        let second = (first + 1 + self.random.below(self.settings.lists - 1)) % self.settings.lists;
        (self.slots[first as usize], self.slots[second as usize])
    }

    /// A moment after all others.
    pub fn tick(&mut self) -> u64 {
        self.now_ns += 1;
        self.now_ns
    }

    /// The present state of a list.
    pub fn elements(&self, list: ListId) -> Vec<Element> {
        self.visible(list, u64::MAX, &[])
    }

    /// A read of the present state.
    pub fn read(&self, list: ListId) -> Step {
        Step::Read { list, elements: self.elements(list) }
    }

    /// Appends at once.
    pub fn append(&mut self, list: ListId) -> Step {
        let element = self.element();
        self.push(list, element);
        Step::Append { list, element }
    }

    /// Stores an element at once.
    pub fn push(&mut self, list: ListId, element: Element) {
        self.commits += 1;
        self.lists.entry(list).or_default().push((self.commits, element));
    }

    /// Forgets the last element of a list. Open transactions conflict, as after a change.
    pub fn forget(&mut self, list: ListId) {
        self.lists.entry(list).or_default().pop();
        self.open.iter_mut().for_each(|open| *open = None);
        self.late.clear();
    }

    /// Records a transaction that ends now.
    pub fn record(&mut self, process: u32, invoked_ns: u64, outcome: Outcome, steps: Vec<Step>) {
        let completed_ns = self.tick();
        self.history.push(Transaction { process, invoked_ns, completed_ns, outcome, steps });
    }

    /// Records a committed transaction that ends now.
    pub fn committed(&mut self, process: u32, invoked_ns: u64, steps: Vec<Step>) {
        self.record(process, invoked_ns, Outcome::Committed, steps);
    }
}

const fn is_append(step: &Step) -> bool {
    matches!(step, Step::Append { .. })
}

fn appends(steps: &[Step]) -> impl Iterator<Item = (ListId, Element)> {
    steps.iter().filter_map(|step| match step {
        Step::Append { list, element } => Some((*list, *element)),
        Step::Read { .. } => None,
    })
}
