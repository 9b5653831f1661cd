//! Medians and ratios of what was measured, and the goals that they are held against.

use serde_json::{Value, json};

use crate::row::{Bound, Goal, Measured, Of, Turn};

/// A median with its extremes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// Half of the rounds lie below.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The most.
    pub(crate) max: f64,
}

/// What is said of a subject.
pub(crate) struct Line {
    /// Its rate in those of the first subject, round by round.
    pub(crate) ratio: Spread,
    /// Events a second.
    pub(crate) per_s: Spread,
    /// Events a second of CPU time: what one core would do.
    pub(crate) per_cpu_s: Spread,
    /// CPU time of an event, in nanoseconds.
    pub(crate) cpu_ns: Spread,
    /// Its CPU time in those of the first subject, round by round.
    pub(crate) cpu_ratio: Spread,
    /// By how many nanoseconds an event costs more than with the first subject.
    pub(crate) cpu_more_ns: Spread,
    /// Bytes of an event where it is stored.
    pub(crate) stored_bytes: Option<f64>,
}

/// A goal, and what was measured.
pub(crate) struct Held {
    /// In words.
    pub(crate) words: &'static str,
    /// What was measured.
    pub(crate) measured: f64,
    /// Whether it holds.
    pub(crate) met: bool,
}

/// What is said of a row.
pub(crate) struct Figures {
    /// One a subject.
    pub(crate) lines: Vec<Line>,
    /// What they were to reach.
    pub(crate) goals: Vec<Held>,
}

impl Figures {
    pub(crate) fn of(measured: &Measured) -> Self {
        let first = measured.subjects.first().map_or(&[][..], |(_, turns)| turns);
        let lines: Vec<Line> = measured.subjects.iter().map(|(_, turns)| line(turns, first)).collect();
        let goals = measured.goals.iter().map(|goal| held(goal, &lines[goal.subject])).collect();
        Self { lines, goals }
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { median: f64::midpoint(at(last / 2), at(last.div_ceil(2))), min: at(0), max: at(last) }
    }

    fn json(self) -> Value {
        json!({"median": self.median, "min": self.min, "max": self.max})
    }
}

fn line(turns: &[Turn], first: &[Turn]) -> Line {
    let each = |of: fn(&Turn) -> f64| Spread::of(turns.iter().map(of));
    let beside = |of: &dyn Fn(&Turn, &Turn) -> f64| {
        Spread::of(turns.iter().zip(first).map(|(turn, first)| of(turn, first)))
    };
    Line {
        ratio: beside(&|turn, first| turn.per_s() / first.per_s()),
        per_s: each(Turn::per_s),
        per_cpu_s: each(Turn::per_cpu_s),
        cpu_ns: each(Turn::cpu_ns_each),
        cpu_ratio: beside(&|turn, first| turn.cpu_ns_each() / first.cpu_ns_each()),
        cpu_more_ns: beside(&|turn, first| turn.cpu_ns_each() - first.cpu_ns_each()),
        stored_bytes: turns.last().and_then(|turn| turn.stored_bytes),
    }
}

fn held(goal: &Goal, line: &Line) -> Held {
    let measured = match goal.of {
        Of::Rate => line.ratio.median,
        Of::PerCpuS => line.per_cpu_s.median,
        Of::Cpu => line.cpu_ratio.median,
    };
    let met = match goal.bound {
        Bound::Least(bound) => measured >= bound,
        Bound::Most(bound) => measured <= bound,
    };
    Held { words: goal.words, measured, met }
}

impl Line {
    pub(crate) fn json(&self) -> Value {
        json!({
            "ratio": self.ratio.json(),
            "events_per_s": self.per_s.json(),
            "events_per_cpu_s": self.per_cpu_s.json(),
            "cpu_ns_each": self.cpu_ns.json(),
            "cpu_ratio": self.cpu_ratio.json(),
            "cpu_more_ns_each": self.cpu_more_ns.json(),
            "stored_bytes_each": self.stored_bytes,
        })
    }
}

impl Held {
    pub(crate) fn json(&self) -> Value {
        json!({"goal": self.words, "measured": self.measured, "met": self.met})
    }
}
