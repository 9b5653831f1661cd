//! Computes medians and ratios of the measurements, and compares them with the goals.

use plimsoll_measure::matrix::Spread;
use serde_json::{Value, json};

use crate::row::{Goal, Measured, Turn};

/// The figures of a subject.
pub(crate) struct Line {
    /// The ratio of its rate to the first subject's, round by round.
    pub(crate) ratio: Spread,
    /// Events a second.
    pub(crate) per_s: Spread,
    /// Events a second of CPU time: the rate of one core.
    pub(crate) per_cpu_s: Spread,
    /// CPU time of an event, in nanoseconds.
    pub(crate) cpu_ns: Spread,
    /// The ratio of its CPU time to the first subject's, round by round.
    pub(crate) cpu_ratio: Spread,
    /// The additional cost of an event compared with the first subject, in nanoseconds.
    pub(crate) cpu_more_ns: Spread,
    /// Bytes of a stored event.
    pub(crate) stored_bytes: Option<f64>,
    /// The ratio of the rates of the later and the earlier half.
    pub(crate) later_half: Option<Spread>,
    /// p99.9 of the sink and of delivery, in nanoseconds.
    pub(crate) p999_ns: [Option<Spread>; 2],
}

/// A goal and its measurements.
pub(crate) struct Held {
    /// The goal in words.
    pub(crate) words: &'static str,
    /// The values over the rounds.
    pub(crate) measured: Spread,
    /// Whether the median reaches the goal.
    pub(crate) met: bool,
    /// The number of rounds that reached the goal.
    pub(crate) rounds_held: usize,
    /// The number of rounds.
    pub(crate) rounds: usize,
}

/// The figures of a row.
pub(crate) struct Figures {
    /// One entry for each subject.
    pub(crate) lines: Vec<Line>,
    /// The goals.
    pub(crate) goals: Vec<Held>,
}

impl Figures {
    pub(crate) fn of(measured: &Measured) -> Self {
        let first = measured.subjects.first().map_or(&[][..], |(_, turns)| turns);
        let lines: Vec<Line> = measured.subjects.iter().map(|(_, turns)| line(turns, first)).collect();
        let goals = measured.goals.iter().map(|goal| held(goal, &measured.subjects)).collect();
        Self { lines, goals }
    }
}

fn line(turns: &[Turn], first: &[Turn]) -> Line {
    let each = |of: fn(&Turn) -> f64| Spread::of(turns.iter().map(of)).unwrap_or(Spread::NONE);
    let ratio = |of: &dyn Fn(&Turn, &Turn) -> f64| {
        let values = turns.iter().zip(first).map(|(turn, first)| of(turn, first));
        Spread::of(values).unwrap_or(Spread::NONE)
    };
    Line {
        ratio: ratio(&|turn, first| turn.per_s() / first.per_s()),
        per_s: each(Turn::per_s),
        per_cpu_s: each(Turn::per_cpu_s),
        cpu_ns: each(Turn::cpu_ns_each),
        cpu_ratio: ratio(&|turn, first| turn.cpu_ns_each() / first.cpu_ns_each()),
        cpu_more_ns: ratio(&|turn, first| turn.cpu_ns_each() - first.cpu_ns_each()),
        stored_bytes: turns.last().and_then(|turn| turn.stored_bytes),
        later_half: known(turns, |turn| turn.later_half),
        p999_ns: [
            known(turns, |turn| turn.p999.map(|it| it.sink_ns as f64)),
            known(turns, |turn| turn.p999.and_then(|it| it.delivery_ns).map(|ns| ns as f64)),
        ],
    }
}

/// A figure over the rounds that have it. `None` if no round has it.
fn known(turns: &[Turn], of: fn(&Turn) -> Option<f64>) -> Option<Spread> {
    Spread::of(turns.iter().filter_map(of))
}

/// Compares two subjects round by round, so that disturbances of the machine affect both.
fn held(goal: &Goal, subjects: &[(String, Vec<Turn>)]) -> Held {
    let (turns, others) = (&subjects[goal.subject].1, &subjects[goal.peer].1);
    let values: Vec<f64> = turns.iter().zip(others).map(|(turn, other)| goal.of.value(turn, other)).collect();
    let (rounds, rounds_held) = (values.len(), values.iter().filter(|it| goal.bound.holds(**it)).count());
    let measured = Spread::of(values).unwrap_or(Spread::NONE);
    Held { words: goal.words, met: goal.bound.holds(measured.median), measured, rounds_held, rounds }
}

impl Line {
    pub(crate) fn json(&self) -> Value {
        json!({
            "ratio": self.ratio,
            "events_per_s": self.per_s,
            "events_per_cpu_s": self.per_cpu_s,
            "cpu_ns_each": self.cpu_ns,
            "cpu_ratio": self.cpu_ratio,
            "cpu_more_ns_each": self.cpu_more_ns,
            "stored_bytes_each": self.stored_bytes,
            "later_half": self.later_half,
            "sink_p999_ns": self.p999_ns[0],
            "delivery_p999_ns": self.p999_ns[1],
        })
    }
}

impl Held {
    pub(crate) fn json(&self) -> Value {
        let Self { words, measured, met, rounds_held, rounds } = self;
        json!({
            "goal": words, "measured": measured.median, "least": measured.min, "most": measured.max, "met": met,
            "rounds_held": rounds_held, "rounds": rounds,
        })
    }
}
