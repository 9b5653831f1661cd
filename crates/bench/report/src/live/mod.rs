//! Renders a running or replayed run; the binary writes the lines.

mod window;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::event::{Event, Interval, Sends};
use plimsoll_measure::line::{Probe, Stage};

use crate::layout::{cut, wrap};
use crate::prose;
use crate::tables;
use crate::units::{Quantile, counted, duration, exact, exact_rate, named_percentile, percent, ratio};
use window::{Unanswered, Window};

pub use crate::layout::Width;

/// The first seconds of a phase, in which a file or pipe gets a line each second.
const DENSE_S: u64 = 20;
/// The seconds between later lines.
const SPARSE_S: u64 = 10;
/// The indentation of every part of a line except the first.
const CONTINUED: &str = "    ";
/// The number of lines about an audit in a file or pipe.
const AUDIT_PARTS: u64 = 4;

/// The medium of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A terminal, where the last lines can be drawn again.
    Terminal,
    /// A file or a pipe.
    Plain,
}

/// The output after an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Lines that stay.
    pub lines_to_print: Vec<String>,
    /// The block to draw below them in place of the last one, its lines joined by `\n`; absent if nothing is to be drawn.
    pub status: Option<String>,
}

/// Reads the events of a run.
#[derive(Debug)]
pub struct Live {
    width: Width,
    kind: Kind,
    sends: Sends,
    phase: Phase,
    trying: Option<Trying>,
    window: Window,
    audit_part: u64,
    status: Vec<String>,
}

/// The current phase.
#[derive(Debug, Default)]
struct Phase {
    name: String,
    /// The start of the phase: first the moment of its announcement, then the start of its first second.
    at_ns: u64,
    has_begun: bool,
    duration_s: Option<f64>,
    documents_max: Option<u64>,
    documents: u64,
    shown_s: u64,
    unanswered: Unanswered,
}

/// The rate under trial.
#[derive(Debug)]
struct Trying {
    at_ns: u64,
    window_s: f64,
    words: String,
}

impl Phase {
    fn new(name: &str, at_ns: u64, duration_s: Option<f64>, documents_max: Option<u64>) -> Self {
        Self { name: name.to_owned(), at_ns, duration_s, documents_max, ..Self::default() }
    }
}

impl Live {
    /// A reader that writes for `kind`, `width` columns wide.
    pub fn new(width: Width, kind: Kind) -> Self {
        Self {
            width,
            kind,
            sends: Sends::default(),
            phase: Phase::default(),
            trying: None,
            window: Window::default(),
            audit_part: 0,
            status: Vec::new(),
        }
    }

    /// The output after `event`.
    pub fn on(&mut self, event: &Event) -> Update {
        let (lines, width) = (self.lines(event), self.width);
        // A log keeps one line for one event.
        let lines = match self.kind {
            Kind::Terminal => lines.iter().flat_map(|line| unwrapped(line, width)).collect(),
            Kind::Plain => lines,
        };
        let status = (self.kind == Kind::Terminal && !self.status.is_empty())
            .then(|| self.status.iter().map(|line| cut(line, width.0)).collect::<Vec<_>>().join("\n"));
        Update { lines_to_print: lines, status }
    }

    fn lines(&mut self, event: &Event) -> Vec<String> {
        match event {
            Event::Started { title, server, sends, .. } => {
                self.sends = *sends;
                vec![format!("{title}   on {server}")]
            }
            Event::Phase { at_ns, name, duration_s, documents } => {
                self.phase = Phase::new(name, *at_ns, *duration_s, *documents);
                self.window = Window::default();
                vec![prose::phase(name)]
            }
            Event::Interval(interval) => self.interval(interval),
            Event::Server(_) => Vec::new(),
            Event::Trying { at_ns, stage, rate, window_s, unit } => {
                let words = rate_words(*stage, *rate, unit);
                self.status = vec![format!("{words}   for {}", duration(*window_s))];
                self.trying = Some(Trying { at_ns: *at_ns, window_s: *window_s, words });
                Vec::new()
            }
            Event::Probed(probe) => self.probed(probe),
            Event::Note { text, .. } => vec![text.clone()],
            Event::Fault { at_ns, phase_ns, name, undone, error } => {
                let in_phase_ns = phase_ns.unwrap_or(at_ns.saturating_sub(self.phase.at_ns));
                vec![fault(in_phase_ns, name, *undone, error.as_deref())]
            }
            Event::Auditing { read, expected } => self.auditing(*read, *expected),
            Event::Finished(_) => {
                self.status.clear();
                Vec::new()
            }
        }
    }

    fn interval(&mut self, interval: &Interval) -> Vec<String> {
        let end_ns = interval.from_ns + interval.length_ns;
        if !std::mem::replace(&mut self.phase.has_begun, true) {
            // Between the announcement and the first second, connections are opened and indexes made.
            self.phase.at_ns = interval.from_ns;
        }
        let mut second = Window::default();
        let unanswered_ns = self.phase.unanswered.after(interval);
        second.add(interval, unanswered_ns);
        self.phase.documents += second.documents();
        self.window.add(interval, unanswered_ns);
        self.status = vec![self.progress(end_ns)];
        self.status.extend(second.block(self.width.0, self.sends));
        let elapsed_s = (end_ns.saturating_sub(self.phase.at_ns) + SECOND_NS / 2) / SECOND_NS;
        let is_due = elapsed_s <= DENSE_S || elapsed_s >= self.phase.shown_s + SPARSE_S;
        if self.kind == Kind::Terminal || self.trying.is_some() || !is_due {
            return Vec::new();
        }
        self.phase.shown_s = elapsed_s;
        let window = std::mem::take(&mut self.window);
        let fields = window.fields(self.sends).join("   ");
        if window.is_partial() {
            let elapsed_s = end_ns.saturating_sub(self.phase.at_ns) as f64 / SECOND_NS as f64;
            return vec![format!("{elapsed_s:>5.1} s   {fields}")];
        }
        vec![format!("{elapsed_s:>5} s   {fields}")]
    }

    /// The progress of the phase or the trial, at `now_ns` from the run's start.
    fn progress(&self, now_ns: u64) -> String {
        let since_s = |from_ns: u64| now_ns.saturating_sub(from_ns) as f64 / SECOND_NS as f64;
        if let Some(trying) = &self.trying {
            return time_bar(&trying.words, since_s(trying.at_ns), trying.window_s);
        }
        let (phase, elapsed_s) = (&self.phase, since_s(self.phase.at_ns));
        match (phase.documents_max, phase.duration_s) {
            (Some(max), _) => count_bar(&phase.name, phase.documents, max, self.counted()),
            (None, Some(duration_s)) => time_bar(&phase.name, elapsed_s, duration_s),
            (None, None) => format!("{}   {}", phase.name, duration(elapsed_s)),
        }
    }

    /// The noun of the count in a phase that ends after a number of documents.
    const fn counted(&self) -> &'static str {
        match self.sends {
            Sends::Operations => "document",
            Sends::Requests => "request",
        }
    }

    fn probed(&mut self, probe: &Probe) -> Vec<String> {
        let unit =
            self.trying.take().and_then(|trying| trying.words.split(' ').next_back().map(str::to_owned));
        self.status.clear();
        self.window = Window::default();
        vec![format!(
            "{}   {}   {}",
            rate_words(probe.stage, probe.rate, unit.as_deref().unwrap_or("per second")),
            self.measured(probe),
            tables::result(probe).text
        )]
    }

    /// The figures that decide whether a rate held: the excess; in an older file the achieved rate and the p99.
    fn measured(&self, probe: &Probe) -> String {
        let latency = &probe.response_ns;
        match probe.excess {
            Some(excess) => {
                // A trial may have too few operations for a p99, but hardly for a median.
                let quantile = if latency.p99.is_some() { Quantile::P99 } else { Quantile::P50 };
                let percentile = aligned(&named_percentile(quantile, latency, self.sent()));
                format!("{percentile}   excess {:>7}", ratio(excess))
            }
            None => {
                let p99 = aligned(&named_percentile(Quantile::P99, latency, self.sent()));
                format!("achieved {:>6}   {p99}", percent(probe.achieved_ratio))
            }
        }
    }

    /// The operations of a run in the plural.
    const fn sent(&self) -> &'static str {
        match self.sends {
            Sends::Operations => "operations",
            Sends::Requests => "requests",
        }
    }

    fn auditing(&mut self, read: u64, expected: u64) -> Vec<String> {
        self.status = vec![count_bar("reading back", read, expected, "document")];
        let part = (read * AUDIT_PARTS).checked_div(expected).unwrap_or(0);
        let is_new = part > std::mem::replace(&mut self.audit_part, part);
        if is_new && self.kind == Kind::Plain { self.status.clone() } else { Vec::new() }
    }
}

/// A line as it is, or in parts that a terminal does not wrap again.
fn unwrapped(line: &str, width: Width) -> Vec<String> {
    if line.chars().count() <= width.0 { vec![line.to_owned()] } else { hung(line, width) }
}

/// The parts of a line; all but the first are indented.
fn hung(line: &str, width: Width) -> Vec<String> {
    let mut parts = wrap(line, "", Width(width.0.saturating_sub(CONTINUED.len())));
    parts.iter_mut().skip(1).for_each(|part| part.insert_str(0, CONTINUED));
    parts
}

/// A fault in one line, with its moment in the phase.
fn fault(in_phase_ns: u64, name: &str, undone: bool, error: Option<&str>) -> String {
    let at_s = in_phase_ns as f64 / SECOND_NS as f64;
    let edge = if undone { "over" } else { "begins" };
    let error = error.map(|error| format!(", which failed: {error}")).unwrap_or_default();
    format!("{at_s:>5.1} s   {name} {edge}{error}")
}

/// A named percentile whose value ends in one column for all probes.
fn aligned(percentile: &str) -> String {
    let (name, value) = percentile.split_once(' ').unwrap_or((percentile, ""));
    format!("{name} {value:>11}")
}

/// A rate with its stage and its unit in short: `climb         12,000 docs/s`.
fn rate_words(stage: Stage, rate: f64, unit: &str) -> String {
    let unit = unit.replace("documents", "docs").replace("operations", "ops");
    format!("{:<9} {:>9} {unit}", tables::stage(stage), exact_rate(rate))
}

/// The width of a bar, in characters.
const CELLS: usize = 20;

/// Progress by count: `load   ██████░░░░ 61 %   610,000 of 1,000,000 documents`.
fn count_bar(what: &str, done: u64, all: u64, thing: &str) -> String {
    let share = done as f64 / all.max(1) as f64;
    format!("{what}   {}   {} of {}", bar(share), exact(done), counted(all, thing))
}

/// Progress by time in seconds.
fn time_bar(what: &str, done_s: f64, all_s: f64) -> String {
    let share = if all_s > 0.0 { done_s / all_s } else { 1.0 };
    format!("{what}   {}   {} of {}", bar(share), duration(done_s), duration(all_s))
}

fn bar(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = (share * CELLS as f64) as usize;
    format!("{}{} {:.0} %", "█".repeat(full), "░".repeat(CELLS - full), (share * 100.0).floor())
}

#[cfg(test)]
mod tests;
