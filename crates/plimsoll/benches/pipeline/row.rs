//! Defines a row of the table: subjects that are measured in turns.

use serde_json::{Value, json};

use crate::Failure;
use crate::figures::Figures;

/// The measurements of one turn of a subject.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// The counted events.
    pub(crate) events: u64,
    /// The elapsed time of these events, in nanoseconds.
    pub(crate) wall_ns: u64,
    /// The client's CPU time in that time, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Stored BSON bytes of each event, where measured.
    pub(crate) stored_bytes: Option<f64>,
    /// The ratio of the rates of the later and the earlier half: near 1 after the warm-up.
    pub(crate) later_half: Option<f64>,
    /// p99.9 of the events' times, where a pipeline of this process moved them.
    pub(crate) p999: Option<P999>,
}

/// p99.9 of the events' times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct P999 {
    /// From the sink's receipt to its acknowledgement.
    pub(crate) sink_ns: u64,
    /// From the source's append to the acknowledgement; absent if the events existed long before.
    pub(crate) delivery_ns: Option<u64>,
}

/// A published figure for a similar subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The index of the compared subject.
    pub(crate) subject: usize,
    /// Events a second.
    pub(crate) per_s: f64,
    /// The source of the figure, and its machine.
    pub(crate) of: &'static str,
}

/// Measures a subject once.
pub(crate) type Measure = Box<dyn FnMut() -> Result<Turn, Failure>>;

/// A subject of the measurement.
pub(crate) struct Subject {
    name: String,
    /// A note on its speed.
    remark: Option<String>,
    measure: Measure,
}

/// A goal of a subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// The index of the subject.
    pub(crate) subject: usize,
    /// The index of the compared subject.
    pub(crate) peer: usize,
    /// The goal in words.
    pub(crate) words: &'static str,
    /// The compared value.
    pub(crate) of: Of,
    /// The bound.
    pub(crate) bound: Bound,
}

/// The compared value of a goal: the median over the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// The ratio of the rates.
    Rate,
    /// Events a second of CPU time.
    PerCpuS,
    /// The ratio of the CPU times of an event.
    Cpu,
}

/// The side of a number on which a value must lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// The value must be at least this number.
    Least(f64),
    /// The value must be at most this number.
    Most(f64),
}

/// A row.
pub(crate) struct Row {
    /// The title.
    title: String,
    /// The setup: sizes, settings.
    setup: String,
    subjects: Vec<Subject>,
    goals: Vec<Goal>,
    published: Vec<Published>,
}

/// A measured row.
pub(crate) struct Measured {
    /// The title.
    pub(crate) title: String,
    /// The setup.
    pub(crate) setup: String,
    /// The subjects, each with its turns, one for each round.
    pub(crate) subjects: Vec<(String, Vec<Turn>)>,
    /// The note on each subject's speed.
    pub(crate) remarks: Vec<Option<String>>,
    /// The goals.
    pub(crate) goals: Vec<Goal>,
    /// Published figures.
    pub(crate) published: Vec<Published>,
}

impl Row {
    pub(crate) fn new(title: impl Into<String>, setup: impl Into<String>) -> Self {
        let (subjects, goals, published) = (Vec::new(), Vec::new(), Vec::new());
        Self { title: title.into(), setup: setup.into(), subjects, goals, published }
    }

    /// Adds a subject; the first is the baseline of the others.
    pub(crate) fn subject(
        mut self,
        name: impl Into<String>,
        measure: impl FnMut() -> Result<Turn, Failure> + 'static,
    ) -> Self {
        self.subjects.push(Subject { name: name.into(), remark: None, measure: Box::new(measure) });
        self
    }

    /// Adds a note on the speed of the newest subject.
    pub(crate) fn remark(mut self, remark: Option<String>) -> Self {
        if let Some(subject) = self.subjects.last_mut() {
            subject.remark = remark;
        }
        self
    }

    /// Adds a published figure.
    pub(crate) fn published(mut self, published: Published) -> Self {
        self.published.push(published);
        self
    }

    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goals.push(goal);
        self
    }

    /// Measures every subject once a round, in a different order. A warm-up round does not count: it opens
    /// files and grows buffers.
    pub(crate) fn measure(&mut self, rounds: usize) -> Result<Measured, Failure> {
        let mut turns = vec![Vec::new(); self.subjects.len()];
        let warm_up = usize::from(rounds > 1);
        for round in 0..rounds + warm_up {
            for place in 0..self.subjects.len() {
                let at = taking(round, place, self.subjects.len());
                let Subject { name, measure, .. } = &mut self.subjects[at];
                let turn = measure().map_err(|failure| format!("{}, {name}: {failure}", self.title))?;
                eprintln!("  {:>2} {name}: {:.0} events/s", round + 1 - warm_up, turn.per_s());
                if round >= warm_up {
                    turns[at].push(turn);
                }
            }
        }
        let names = self.subjects.iter().map(|subject| subject.name.clone());
        Ok(Measured {
            title: self.title.clone(),
            setup: self.setup.clone(),
            subjects: names.zip(turns).collect(),
            remarks: self.subjects.iter().map(|subject| subject.remark.clone()).collect(),
            goals: self.goals.clone(),
            published: self.published.clone(),
        })
    }
}

/// Selects the subject for a position of a round. Each round begins with another subject, and every other
/// round runs backwards. So no subject always follows the same other subject, whose writes may still occupy a
/// server.
pub(crate) fn taking(round: usize, place: usize, subjects: usize) -> usize {
    let first = round % subjects;
    if round.is_multiple_of(2) { (first + place) % subjects } else { (first + subjects - place) % subjects }
}

impl Of {
    /// The compared value of a turn and the other turn of its round.
    pub(crate) fn value(self, turn: &Turn, other: &Turn) -> f64 {
        match self {
            Self::Rate => turn.per_s() / other.per_s(),
            Self::PerCpuS => turn.per_cpu_s(),
            Self::Cpu => turn.cpu_ns_each() / other.cpu_ns_each(),
        }
    }
}

impl Bound {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::Least(bound) => value >= bound,
            Self::Most(bound) => value <= bound,
        }
    }
}

impl Turn {
    /// Events a second.
    pub(crate) fn per_s(&self) -> f64 {
        self.events as f64 * 1e9 / self.wall_ns.max(1) as f64
    }

    /// Events a second of CPU time.
    pub(crate) fn per_cpu_s(&self) -> f64 {
        1e9 / self.cpu_ns_each()
    }

    /// CPU time of an event, in nanoseconds.
    pub(crate) fn cpu_ns_each(&self) -> f64 {
        self.cpu_ns.max(1) as f64 / self.events.max(1) as f64
    }

    /// The turn without the time of delivery. Its events existed long before, so the time from append to
    /// acknowledgement means nothing.
    pub(crate) fn of_what_was_there(mut self) -> Self {
        self.p999 = self.p999.map(|p999| P999 { delivery_ns: None, ..p999 });
        self
    }

    fn json(&self) -> Value {
        let Self { events, wall_ns, cpu_ns, stored_bytes, later_half, p999 } = self;
        json!({
            "events": events, "wall_ns": wall_ns, "cpu_ns": cpu_ns, "stored_bytes_each": stored_bytes, "later_half": later_half,
            "sink_p999_ns": p999.map(|it| it.sink_ns), "delivery_p999_ns": p999.and_then(|it| it.delivery_ns),
        })
    }
}

impl Measured {
    /// The whole row with its figures.
    pub(crate) fn json(&self, name: &str) -> Value {
        let figures = Figures::of(self);
        let subjects = self.subjects.iter().zip(&figures.lines).zip(&self.remarks);
        let subjects = subjects.map(|(((name, turns), line), remark)| {
            let turns: Vec<Value> = turns.iter().map(Turn::json).collect();
            json!({"name": name, "remark": remark, "figures": line.json(), "turns": turns})
        });
        let published =
            |it: &Published| json!({"subject": it.subject, "events_per_s": it.per_s, "of": it.of});
        json!({
            "row": name, "title": self.title, "setup": self.setup, "subjects": subjects.collect::<Vec<_>>(),
            "goals": figures.goals.iter().map(|goal| goal.json()).collect::<Vec<_>>(),
            "published": self.published.iter().map(published).collect::<Vec<_>>(),
        })
    }
}
