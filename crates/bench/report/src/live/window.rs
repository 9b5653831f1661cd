//! Formats a live line of one or several seconds, or of a partial second at the end of a phase.

use std::collections::BTreeMap;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::event::{Interval, Sends};
use plimsoll_measure::interval::{IntervalLine, Spread};

use crate::derived::classes;
use crate::units::{duration, exact, exact_rate, latency, percent};

/// The length from which on a window counts as a full second. The counts of a shorter window are not scaled
/// up to a rate.
const FULL_NS: u64 = SECOND_NS / 100 * 99;
/// The live line reports a silence from this number of missing answers on. Random arrivals leave such a gap once in 20,000 times.
const MISSING_MIN: u64 = 10;
/// The live line reports a silence of a closed load from this length on.
const CLOSED_SILENCE_NS: u64 = 3 * SECOND_NS;
/// Blanks between two fields.
const GAP: &str = "   ";

/// Sums of one or more intervals. Percentiles cannot be summed: the largest one is a bound of the whole.
#[derive(Debug, Default)]
pub(super) struct Window {
    length_ns: u64,
    operations: BTreeMap<String, Sums>,
    cpu_busiest_worker: Option<f64>,
    /// The time since the server's last answer to any worker, at the end of the last interval; 0 if it
    /// answers.
    unreachable_ns: u64,
    /// The time without an answer to operations that wait for one, at the end of the last interval.
    unanswered_ns: u64,
}

/// Follows the operations of a phase that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    due: u64,
    ended: u64,
    /// The number of answers in the last interval with any answer.
    last: u64,
    silent_ns: u64,
}

impl Unanswered {
    /// The time without an answer at the end of `interval`; zero if no operation waits.
    pub(super) fn after(&mut self, interval: &Interval) -> u64 {
        let errors = |line: &IntervalLine| classes(&line.errors).map_or(0, |(total, _)| total);
        let answered: u64 = interval.operations.values().map(|line| line.count + errors(line)).sum();
        self.due += interval.operations.values().map(|line| line.due).sum::<u64>();
        self.ended += answered + interval.operations.values().map(|line| line.skipped).sum::<u64>();
        if answered > 0 {
            (self.last, self.silent_ns) = (answered, 0);
            return 0;
        }
        self.silent_ns += interval.length_ns;
        // A closed load counts an operation when the operation ends. So only a comparison with earlier answers shows a silence.
        let missing = self.last * self.silent_ns / SECOND_NS;
        // A slow stage after a fast one is silent for a moment too. So are writers whose think times coincide.
        let is_long = missing >= MISSING_MIN && self.silent_ns >= CLOSED_SILENCE_NS;
        if self.due > self.ended || is_long { self.silent_ns } else { 0 }
    }
}

/// Sums of one operation.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    documents: u64,
    count: u64,
    errors: u64,
    response: Spread,
    /// The number of distributions that `response` bounds. The bound of a single distribution is exact.
    spreads: u32,
}

impl Sums {
    fn of(line: &IntervalLine) -> Self {
        let errors = classes(&line.errors).map_or(0, |(total, _)| total);
        let spreads = u32::from(line.response.max.is_some());
        Self { documents: line.documents, count: line.count, errors, response: line.response, spreads }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            documents: self.documents + other.documents,
            count: self.count + other.count,
            errors: self.errors + other.errors,
            response: Spread {
                p50: self.response.p50.max(other.response.p50),
                p99: self.response.p99.max(other.response.p99),
                max: self.response.max.max(other.response.max),
            },
            spreads: self.spreads + other.spreads,
        }
    }

    /// p50, p99 and max; bounds are marked as bounds.
    fn latencies(&self) -> Vec<String> {
        let sign = if self.spreads > 1 { "≤ " } else { "" };
        let fields = [
            ("p50", self.response.p50, sign),
            ("p99", self.response.p99, sign),
            ("max", self.response.max, ""),
        ];
        fields
            .into_iter()
            .filter_map(|(name, ns, sign)| Some(format!("{name} {sign}{}", latency(ns?))))
            .collect()
    }
}

impl Window {
    /// Adds one interval, with the time without an answer at its end.
    pub(super) fn add(&mut self, interval: &Interval, unanswered_ns: u64) {
        self.length_ns += interval.length_ns;
        self.unanswered_ns = unanswered_ns;
        self.unreachable_ns = interval.unreachable_ns;
        for (name, line) in &interval.operations {
            let sums = self.operations.entry(name.clone()).or_default();
            *sums = sums.plus(Sums::of(line));
        }
        let busiest = interval.worker_cpu.iter().copied().max_by(f64::total_cmp);
        self.cpu_busiest_worker =
            [self.cpu_busiest_worker, busiest].into_iter().flatten().max_by(f64::total_cmp);
    }

    /// The number of acknowledged documents.
    pub(super) fn documents(&self) -> u64 {
        self.total().documents
    }

    /// Whether the window is too short for a rate.
    pub(super) const fn is_partial(&self) -> bool {
        self.length_ns < FULL_NS
    }

    /// All fields in one line.
    pub(super) fn fields(&self, sends: Sends) -> Vec<String> {
        let total = self.total();
        let mut fields: Vec<_> = self.silence().into_iter().chain(self.amounts(&total, sends)).collect();
        fields.extend(self.is_partial().then(|| format!("in {}", duration(self.length_ns as f64 / 1e9))));
        fields.extend(total.latencies());
        fields.push(format!("errors {}", exact(total.errors)));
        fields.extend(self.cpu_busiest_worker.map(|cpu| format!("busiest worker {}", percent(cpu))));
        fields
    }

    /// A lost server, or one that keeps its connections and answers nothing.
    fn silence(&self) -> Option<String> {
        match (self.unreachable_ns / SECOND_NS, self.unanswered_ns / SECOND_NS) {
            (0, 0) => None,
            (0, seconds) => Some(format!("no answer for {seconds} s")),
            (seconds, _) => Some(format!("server unreachable for {seconds} s")),
        }
    }

    /// All fields in lines of at most `width` characters, with a line for each of several operations.
    pub(super) fn block(&self, width: usize, sends: Sends) -> Vec<String> {
        if self.operations.len() <= 1 {
            return flow(&self.fields(sends), width);
        }
        let is_latency = |field: &String| ["p50", "p99", "max"].iter().any(|name| field.starts_with(name));
        let mut fields = self.fields(sends);
        fields.retain(|field| !is_latency(field));
        let longest = self.operations.keys().map(|name| name.chars().count()).max().unwrap_or(0);
        let each = self.operations.iter().flat_map(|(name, sums)| {
            let amount = self.amounts(sums, sends).into_iter().take(1);
            let mut fields: Vec<_> = std::iter::once(format!("{name:<longest$}")).chain(amount).collect();
            fields.extend(sums.latencies());
            flow(&fields, width)
        });
        flow(&fields, width).into_iter().chain(each).collect()
    }

    fn total(&self) -> Sums {
        self.operations.values().copied().fold(Sums::default(), Sums::plus)
    }

    /// The work done: documents and operations, or requests, with documents only if there are more.
    fn amounts(&self, sums: &Sums, sends: Sends) -> Vec<String> {
        let documents = || self.amount(sums.documents, "docs");
        match sends {
            Sends::Operations => vec![documents(), self.amount(sums.count, "ops")],
            Sends::Requests if sums.documents > sums.count => {
                vec![documents(), self.amount(sums.count, "requests")]
            }
            Sends::Requests => vec![self.amount(sums.count, "requests")],
        }
    }

    fn amount(&self, count: u64, unit: &str) -> String {
        if self.is_partial() {
            return format!("{} {unit}", exact(count));
        }
        format!("{} {unit}/s", exact_rate(count as f64 * SECOND_NS as f64 / self.length_ns as f64))
    }
}

/// `fields` in as few lines as fit into `width`.
fn flow(fields: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for field in fields {
        match lines.last_mut() {
            Some(line) if line.chars().count() + GAP.len() + field.chars().count() <= width => {
                *line += GAP;
                *line += field;
            }
            _ => lines.push(field.clone()),
        }
    }
    lines
}
