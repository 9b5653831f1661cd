//! A row of the table: subjects that are measured by turns.

use serde_json::{Value, json};

use crate::Failure;
use crate::figures::Figures;

/// What a turn of a subject measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// Events that were counted.
    pub(crate) events: u64,
    /// How long they took, in nanoseconds.
    pub(crate) wall_ns: u64,
    /// CPU time of the client meanwhile, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Bytes of BSON that are stored of each event, where that is asked.
    pub(crate) stored_bytes: Option<f64>,
    /// The rate of the later half of what was counted, in that of the earlier one: near 1 if everything was warm.
    pub(crate) later_half: Option<f64>,
    /// The time that all but one of a thousand events took at most, where a pipeline of this process moved them.
    pub(crate) p999: Option<P999>,
}

/// The time that all but one of a thousand events took at most, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct P999 {
    /// From the sink's taking them to its acknowledgement.
    pub(crate) sink_ns: u64,
    /// From the source's append to that; absent where the events were there long before.
    pub(crate) delivery_ns: Option<u64>,
}

/// What somebody else published of a subject's like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// Which subject stands beside it, by its place.
    pub(crate) subject: usize,
    /// Events a second.
    pub(crate) per_s: f64,
    /// Of what, and of which machine.
    pub(crate) of: &'static str,
}

/// Measures a subject once.
pub(crate) type Measure = Box<dyn FnMut() -> Result<Turn, Failure>>;

/// Something that is measured.
pub(crate) struct Subject {
    name: String,
    /// What must be known beside its speed.
    remark: Option<String>,
    measure: Measure,
}

/// What a subject is to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// Which subject, by its place.
    pub(crate) subject: usize,
    /// The subject that it is held beside, by its place.
    pub(crate) beside: usize,
    /// In words.
    pub(crate) words: &'static str,
    /// What counts.
    pub(crate) of: Of,
    /// The bound.
    pub(crate) bound: Bound,
}

/// What counts for a goal: the median of this over the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// The rate, in that of the other subject.
    Rate,
    /// Events a second of CPU time.
    PerCpuS,
    /// CPU time an event, in that of the other subject.
    Cpu,
}

/// On which side of a number something is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// At least.
    Least(f64),
    /// At most.
    Most(f64),
}

/// A row.
pub(crate) struct Row {
    /// What is measured.
    title: String,
    /// With what: sizes, settings.
    setup: String,
    subjects: Vec<Subject>,
    goals: Vec<Goal>,
    published: Vec<Published>,
}

/// A row that was measured.
pub(crate) struct Measured {
    /// What was measured.
    pub(crate) title: String,
    /// With what.
    pub(crate) setup: String,
    /// The subjects, each with its turns, one a round.
    pub(crate) subjects: Vec<(String, Vec<Turn>)>,
    /// What must be known beside the speed of each.
    pub(crate) remarks: Vec<Option<String>>,
    /// What they were to reach.
    pub(crate) goals: Vec<Goal>,
    /// What others published.
    pub(crate) published: Vec<Published>,
}

impl Row {
    pub(crate) fn new(title: impl Into<String>, setup: impl Into<String>) -> Self {
        let (subjects, goals, published) = (Vec::new(), Vec::new(), Vec::new());
        Self { title: title.into(), setup: setup.into(), subjects, goals, published }
    }

    /// Adds a subject; the first is the one that the others are measured beside.
    pub(crate) fn subject(
        mut self,
        name: impl Into<String>,
        measure: impl FnMut() -> Result<Turn, Failure> + 'static,
    ) -> Self {
        self.subjects.push(Subject { name: name.into(), remark: None, measure: Box::new(measure) });
        self
    }

    /// What must be known beside the speed of the subject that was added last.
    pub(crate) fn remark(mut self, remark: Option<String>) -> Self {
        if let Some(subject) = self.subjects.last_mut() {
            subject.remark = remark;
        }
        self
    }

    /// What somebody else published.
    pub(crate) fn published(mut self, published: Published) -> Self {
        self.published.push(published);
        self
    }

    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goals.push(goal);
        self
    }

    /// Measures every subject once a round, in another order each time. A round before the first does not count: files are opened in
    /// it, and buffers grow.
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

/// Which of some subjects takes this place of a round. Another one begins each time, and every other round goes backwards: none is
/// measured behind the same one always, whose writes a server may still be busy with.
pub(crate) fn taking(round: usize, place: usize, subjects: usize) -> usize {
    let first = round % subjects;
    if round.is_multiple_of(2) { (first + place) % subjects } else { (first + subjects - place) % subjects }
}

impl Of {
    /// What counts of a turn beside the other one of its round.
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

    /// The same where the events were there long before: from append to acknowledgement is how long they lay there.
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
    /// All of it, with what follows.
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
