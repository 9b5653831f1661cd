//! The audit against a model in plain maps, over random histories.

use std::collections::{HashMap, HashSet};

use plimsoll_ledger::{Audit, Content, Deal, Findings, Found, Ledger, Neighbours, Run, State, Touched};

use crate::dice::Dice;

const RUN: Run = Run { time_s: 1_700_000_000, tag: [0xab, 0xcd, 0xef] };

/// A history and what a scan found of it.
struct History {
    deal: Deal,
    states: HashMap<u64, State>,
    touched: HashSet<u64>,
    neighbours: Neighbours,
    found: Vec<Found>,
}

impl History {
    fn roll(dice: &mut Dice) -> History {
        let limit = dice.roll(600);
        let deal = Deal::new(1 + dice.roll(40), 1 + dice.roll(5), Some(limit)).expect("a deal");
        let states: HashMap<_, _> = (0..limit).map(|number| (number, roll_state(dice))).collect();
        let touched = match dice.roll(2) {
            0 => HashSet::new(),
            _ => (0..dice.roll(30)).map(|_| dice.roll(limit + 1)).filter(|n| *n < limit).collect(),
        };
        let neighbours = if dice.roll(2) == 0 { Neighbours::Expected } else { Neighbours::Excluded };
        let found = (0..limit + 20).flat_map(|number| roll_found(dice, number, limit)).collect();
        History { deal, states, touched, neighbours, found }
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(RUN, self.deal);
        self.states.iter().for_each(|(number, state)| ledger.set(*number..*number + 1, *state));
        ledger
    }

    fn marks(&self) -> Touched {
        let mut touched = Touched::None;
        self.touched.iter().for_each(|number| touched.mark(&self.deal, *number..*number + 1));
        touched
    }

    fn state(&self, number: u64) -> State {
        self.states.get(&number).copied().unwrap_or_default()
    }
}

fn roll_state(dice: &mut Dice) -> State {
    match dice.roll(10) {
        0 => State::NotSent,
        1 => State::Rejected,
        2 => State::Unknown,
        _ => State::Acknowledged,
    }
}

/// Mostly one intact sighting; sometimes none, two, a corrupted one, or a stranger.
fn roll_found(dice: &mut Dice, number: u64, limit: u64) -> Vec<Found> {
    let stamp = Some(RUN.receipt(number).stamp());
    let intact = Found::Receipt { number, content: Content::Matches, stamp };
    let other = Some(RUN.receipt(dice.roll(limit + 9)).stamp());
    match dice.roll(24) {
        0 => vec![],
        1 => vec![intact, intact],
        2 => vec![intact, Found::Receipt { number, content: Content::Differs, stamp: None }, intact],
        3 => vec![Found::Receipt { number, content: Content::Differs, stamp: None }],
        4 => vec![Found::Receipt { number, content: Content::Matches, stamp: other }],
        5 => vec![intact, Found::Foreign { stamp: other }],
        6 => vec![intact, Found::Foreign { stamp: None }],
        7 => vec![intact, Found::Foreign { stamp: Some(dice.roll(1 << 41) as i64) }],
        _ => vec![intact],
    }
}

/// The rules once more, the slow and plain way.
fn model(history: &History) -> Findings {
    let mut findings = Findings::default();
    let mut copies: HashMap<u64, u64> = HashMap::new();
    for found in &history.found {
        match *found {
            Found::Receipt { number, content, stamp } => {
                *copies.entry(number).or_default() += 1;
                let right = stamp.is_none_or(|stamp| stamp == RUN.receipt(number).stamp());
                let wrong = content == Content::Differs || !right;
                let judged = history.state(number) != State::NotSent && !history.touched.contains(&number);
                findings.corrupted += u64::from(wrong && judged);
            }
            Found::Foreign { stamp } => model_foreign(history, stamp, &mut findings),
        }
    }
    let numbers: HashSet<u64> = history.states.keys().chain(copies.keys()).copied().collect();
    for number in numbers {
        model_number(history, number, copies.get(&number).copied().unwrap_or(0), &mut findings);
    }
    findings
}

fn model_foreign(history: &History, stamp: Option<i64>, findings: &mut Findings) {
    let known = stamp.and_then(|stamp| RUN.stamped(stamp));
    match (known, history.neighbours) {
        (Some(number), _) if history.state(number) != State::NotSent => findings.duplicated += 1,
        (Some(_), _) | (None, Neighbours::Excluded) => findings.phantom += 1,
        (None, Neighbours::Expected) => findings.foreign += 1,
    }
}

fn model_number(history: &History, number: u64, copies: u64, findings: &mut Findings) {
    let (state, present) = (history.state(number), u64::from(copies > 0));
    findings.duplicated += u64::from(copies > 1 && state != State::NotSent);
    match (state, history.touched.contains(&number)) {
        (State::NotSent, true) => findings.not_audited += copies,
        (_, true) => findings.not_audited += 1,
        (State::NotSent, _) => findings.phantom += copies,
        (State::Acknowledged, _) => {
            findings.acknowledged += 1;
            findings.found += present;
            findings.lost += 1 - present;
        }
        (State::Rejected, _) => {
            findings.rejected += 1;
            findings.phantom += present;
        }
        (State::Unknown, _) => {
            findings.unknown_present += present;
            findings.unknown_absent += 1 - present;
        }
    }
}

fn audit(history: &History, found: &[Found], scanners: usize) -> Findings {
    let (ledger, touched) = (history.ledger(), history.marks());
    let mut parts: Vec<Audit> =
        (0..scanners).map(|_| Audit::with(&ledger, &touched, history.neighbours)).collect();
    found.iter().enumerate().for_each(|(at, found)| parts[at % scanners].see(*found));
    let mut whole = Audit::with(&ledger, &touched, history.neighbours);
    parts.iter().for_each(|part| whole.merge(part));
    whole.finish()
}

#[test]
fn the_fold_agrees_with_the_model() {
    for seed in 0..400 {
        let history = History::roll(&mut Dice(seed));
        let findings = audit(&history, &history.found, 1);
        let counts = Findings { examples: Default::default(), ..findings.clone() };
        assert_eq!(counts, model(&history), "seed {seed}");
        assert_eq!(findings.acknowledged, findings.found + findings.lost, "seed {seed}");
    }
}

#[test]
fn neither_order_nor_the_number_of_scanners_matters() {
    for seed in 1000..1300 {
        let mut dice = Dice(seed);
        let history = History::roll(&mut dice);
        let expected = audit(&history, &history.found, 1);
        let mut shuffled = history.found.clone();
        dice.shuffle(&mut shuffled);
        let scanners = 1 + dice.roll(4) as usize;
        assert_eq!(audit(&history, &shuffled, scanners), expected, "seed {seed}, {scanners} scanners");
    }
}

#[test]
fn each_document_that_was_sent_is_counted_in_one_place() {
    for seed in 2000..2200 {
        let mut history = History::roll(&mut Dice(seed));
        history.found.clear();
        let sent = history.ledger().counts().sent();
        let f = audit(&history, &[], 1);
        let placed = f.acknowledged + f.rejected + f.unknown_absent + f.not_audited;
        assert_eq!(placed, sent, "seed {seed}");
        assert_eq!((f.phantom, f.duplicated, f.corrupted), (0, 0, 0), "seed {seed}");
    }
}
