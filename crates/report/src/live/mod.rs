//! What to show while a run goes on, or is replayed: pure, the binary does the writing.

mod bar;
mod window;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::event::{Event, Interval};
use plimsoll_measure::line::{Probe, Stage};

use crate::tables;
use crate::text::cut;
use crate::units::{duration, exact_rate, percent, percentile};
use window::Window;

/// For so many seconds of a phase a plain reader gets a line each second.
const DENSE_S: u64 = 20;
/// After that it gets a line every so many seconds.
const SPARSE_S: u64 = 10;
/// A plain reader hears of an audit each time another one in so many parts is done.
const AUDIT_PARTS: u64 = 4;

/// Columns of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(pub usize);

/// What the lines are read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A terminal, where the last lines can be drawn again.
    Terminal,
    /// A file or a pipe.
    Plain,
}

/// What to write after an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Lines that stay.
    pub lines_to_print: Vec<String>,
    /// The block to draw below them in place of the last one, its lines joined by `\n`; absent: there is none.
    pub status: Option<String>,
}

/// Reads the events of a run.
#[derive(Debug)]
pub struct Live {
    width: usize,
    kind: Kind,
    phase: Phase,
    trying: Option<Trying>,
    window: Window,
    audit_part: u64,
    status: Vec<String>,
}

/// The phase under way.
#[derive(Debug, Default)]
struct Phase {
    name: String,
    at_ns: u64,
    duration_s: Option<f64>,
    documents_max: Option<u64>,
    documents: u64,
    shown_s: u64,
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
        Self { name: name.to_owned(), at_ns, duration_s, documents_max, documents: 0, shown_s: 0 }
    }
}

impl Live {
    /// A reader that writes for `kind`, `width` columns wide.
    pub fn new(width: Width, kind: Kind) -> Self {
        Self {
            width: width.0,
            kind,
            phase: Phase::default(),
            trying: None,
            window: Window::default(),
            audit_part: 0,
            status: Vec::new(),
        }
    }

    /// What to write after `event`.
    pub fn on(&mut self, event: &Event) -> Update {
        let lines = self.lines(event);
        let width = self.width;
        let status = (self.kind == Kind::Terminal && !self.status.is_empty())
            .then(|| self.status.iter().map(|line| cut(line, width)).collect::<Vec<_>>().join("\n"));
        Update { lines_to_print: lines, status }
    }

    fn lines(&mut self, event: &Event) -> Vec<String> {
        match event {
            Event::Started { title, server, .. } => vec![format!("{title}   on {server}")],
            Event::Phase { at_ns, name, duration_s, documents } => {
                self.phase = Phase::new(name, *at_ns, *duration_s, *documents);
                self.window = Window::default();
                vec![format!("phase {name}")]
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
            Event::Fault { at_ns, name, undone, error } => {
                vec![self.fault(*at_ns, name, *undone, error.as_deref())]
            }
            Event::Auditing { read, expected } => self.auditing(*read, *expected),
            Event::Finished(_) => {
                self.status.clear();
                Vec::new()
            }
        }
    }

    /// A fault in one line, with its moment in the phase.
    fn fault(&self, at_ns: u64, name: &str, undone: bool, error: Option<&str>) -> String {
        let at_s = at_ns.saturating_sub(self.phase.at_ns) as f64 / SECOND_NS as f64;
        let edge = if undone { "over" } else { "begins" };
        let error = error.map(|error| format!(", which failed: {error}")).unwrap_or_default();
        format!("{at_s:>5.1} s   {name} {edge}{error}")
    }

    fn interval(&mut self, interval: &Interval) -> Vec<String> {
        let end_ns = interval.from_ns + interval.length_ns;
        let mut second = Window::default();
        second.add(interval);
        self.phase.documents += second.documents();
        self.window.add(interval);
        self.status = vec![self.progress(end_ns)];
        self.status.extend(second.block(self.width));
        let elapsed_s = (end_ns.saturating_sub(self.phase.at_ns) + SECOND_NS / 2) / SECOND_NS;
        let is_due = elapsed_s <= DENSE_S || elapsed_s >= self.phase.shown_s + SPARSE_S;
        if self.kind == Kind::Terminal || self.trying.is_some() || !is_due {
            return Vec::new();
        }
        self.phase.shown_s = elapsed_s;
        let window = std::mem::take(&mut self.window);
        vec![format!("{elapsed_s:>5} s   {}", window.fields().join("   "))]
    }

    /// How far the phase or the trial is, at `now_ns` from the run's start.
    fn progress(&self, now_ns: u64) -> String {
        let since_s = |from_ns: u64| now_ns.saturating_sub(from_ns) as f64 / SECOND_NS as f64;
        if let Some(trying) = &self.trying {
            return bar::time(&trying.words, since_s(trying.at_ns), trying.window_s);
        }
        let (phase, elapsed_s) = (&self.phase, since_s(self.phase.at_ns));
        match (phase.documents_max, phase.duration_s) {
            (Some(max), _) => bar::documents(&phase.name, phase.documents, max),
            (None, Some(duration_s)) => bar::time(&phase.name, elapsed_s, duration_s),
            (None, None) => format!("{}   {}", phase.name, duration(elapsed_s)),
        }
    }

    fn probed(&mut self, probe: &Probe) -> Vec<String> {
        let unit =
            self.trying.take().and_then(|trying| trying.words.split(' ').next_back().map(str::to_owned));
        self.status.clear();
        self.window = Window::default();
        let latency = &probe.response_ns;
        vec![format!(
            "{}   achieved {:>6}   p99 {:>11}   {}",
            rate_words(probe.stage, probe.rate, unit.as_deref().unwrap_or("per second")),
            percent(probe.achieved_ratio),
            percentile(latency.p99, latency),
            tables::result(probe).text
        )]
    }

    fn auditing(&mut self, read: u64, expected: u64) -> Vec<String> {
        self.status = vec![bar::documents("reading back", read, expected)];
        let part = (read * AUDIT_PARTS).checked_div(expected).unwrap_or(0);
        let is_new = part > std::mem::replace(&mut self.audit_part, part);
        if is_new && self.kind == Kind::Plain { self.status.clone() } else { Vec::new() }
    }
}

/// A rate with its stage and its unit in short: `climb     12,000 docs/s`.
fn rate_words(stage: Stage, rate: f64, unit: &str) -> String {
    let unit = unit.replace("documents", "docs").replace("operations", "ops");
    format!("{:<8} {:>9} {unit}", tables::stage(stage), exact_rate(rate))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_measure::histogram::Latency;
    use plimsoll_measure::interval::{IntervalLine, Spread};

    use super::*;

    fn second(number: u64, operations: &[&str]) -> Event {
        let spread = Spread { p50: Some(1_200_000), p99: Some(3_100_000), max: Some(12_000_000) };
        let errors = BTreeMap::from([("timeout".to_owned(), 2)]);
        let line = IntervalLine {
            count: 120,
            documents: 12_000,
            response: spread,
            errors,
            ..IntervalLine::default()
        };
        Event::Interval(Interval {
            from_ns: number * SECOND_NS,
            length_ns: SECOND_NS,
            operations: operations.iter().map(|name| ((*name).to_owned(), line.clone())).collect(),
            worker_cpu: vec![0.2, 0.45],
        })
    }

    fn phase(duration_s: Option<f64>, documents: Option<u64>) -> Event {
        Event::Phase { at_ns: 0, name: "load".into(), duration_s, documents }
    }

    #[track_caller]
    fn check(live: &mut Live, event: &Event, lines: &[&str], status: Option<&str>) {
        let update = live.on(event);
        assert_eq!(update.lines_to_print, lines);
        assert_eq!(update.status.as_deref(), status);
    }

    #[test]
    fn a_terminal_shows_the_last_second_and_the_progress_by_documents() {
        let mut live = Live::new(Width(120), Kind::Terminal);
        check(&mut live, &phase(None, Some(48_000)), &["phase load"], None);
        check(
            &mut live,
            &second(0, &["insert"]),
            &[],
            Some(
                "load   █████░░░░░░░░░░░░░░░ 25 %   12,000 of 48,000 documents\n\
                 12,000 docs/s   120 ops/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms   errors 2   busiest worker 45 %",
            ),
        );
        check(&mut live, &Event::Finished(Box::default()), &[], None);
    }

    #[test]
    fn a_terminal_shows_operations_one_by_one_and_the_progress_by_time() {
        let mut live = Live::new(Width(120), Kind::Terminal);
        live.on(&phase(Some(2.0), None));
        let status = "load   ██████████░░░░░░░░░░ 50 %   1.00 s of 2.00 s\n\
                      24,000 docs/s   240 ops/s   errors 4   busiest worker 45 %\n\
                      find     12,000 docs/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms\n\
                      insert   12,000 docs/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms";
        check(&mut live, &second(0, &["insert", "find"]), &[], Some(status));
    }

    #[test]
    fn a_narrow_terminal_gets_more_lines_and_none_too_long() {
        let mut live = Live::new(Width(40), Kind::Terminal);
        live.on(&phase(Some(60.0), None));
        let status = live.on(&second(0, &["insert"])).status.unwrap();
        assert!(status.lines().all(|line| line.chars().count() <= 40), "{status}");
        assert!(status.contains("busiest worker 45 %"), "{status}");
    }

    #[test]
    fn a_plain_reader_gets_a_line_a_second_and_later_every_ten() {
        let mut live = Live::new(Width(80), Kind::Plain);
        live.on(&phase(None, None));
        let line = "    1 s   12,000 docs/s   120 ops/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms   errors 2   \
                    busiest worker 45 %";
        check(&mut live, &second(0, &["insert"]), &[line], None);
        let shown: Vec<u64> =
            (1..60).filter(|at| !live.on(&second(*at, &["insert"])).lines_to_print.is_empty()).collect();
        assert_eq!(shown, (1..20).chain([29, 39, 49, 59]).collect::<Vec<_>>());
    }

    #[test]
    fn percentiles_over_several_seconds_are_bounds_and_no_averages() {
        let mut live = Live::new(Width(80), Kind::Plain);
        live.on(&phase(None, None));
        let lines: Vec<_> = (0..30).flat_map(|at| live.on(&second(at, &["insert"])).lines_to_print).collect();
        assert_eq!(
            lines.last().unwrap(),
            "   30 s   12,000 docs/s   120 ops/s   p50 ≤ 1.20 ms   p99 ≤ 3.10 ms   max 12.0 ms   errors 20   \
             busiest worker 45 %"
        );
    }

    #[test]
    fn a_search_prints_a_line_a_probe() {
        let unit = "documents/s".to_owned();
        let trying = Event::Trying { at_ns: 0, stage: Stage::Climb, rate: 12_000.0, window_s: 4.0, unit };
        let response_ns = Latency { count: 9000, p99: Some(3_100_000), ..Latency::default() };
        let probe = Probe {
            stage: Stage::Climb,
            rate: 12_000.0,
            achieved_ratio: 1.0,
            held: true,
            response_ns,
            ..Probe::default()
        };
        let held = "climb       12,000 docs/s   achieved  100 %   p99     3.10 ms   held";
        let failed =
            "climb       12,000 docs/s   achieved  100 %   p99     3.10 ms   failed: p99 is not < 3 ms";
        let reasons = vec!["p99 is not < 3 ms".to_owned()];
        for kind in [Kind::Plain, Kind::Terminal] {
            let mut live = Live::new(Width(120), kind);
            live.on(&trying);
            let update = live.on(&second(0, &["insert"]));
            assert!(update.lines_to_print.is_empty());
            assert_eq!(update.status.is_some_and(|it| it.contains("25 %")), kind == Kind::Terminal);
            check(&mut live, &Event::Probed(probe.clone()), &[held], None);
            live.on(&trying);
            let lost = Probe { held: false, reasons: reasons.clone(), ..probe.clone() };
            check(&mut live, &Event::Probed(lost), &[failed], None);
        }
    }

    #[test]
    fn a_plain_reader_hears_of_every_quarter_of_an_audit() {
        let mut live = Live::new(Width(80), Kind::Plain);
        let events = [10, 25, 26, 50, 99, 100].map(|read| Event::Auditing { read, expected: 100 });
        let printed: Vec<_> = events.iter().map(|event| live.on(event).lines_to_print.len()).collect();
        assert_eq!(printed, [0, 1, 0, 1, 1, 1]);
        assert_eq!(live.on(&Event::Auditing { read: 0, expected: 0 }), Update::default());
    }

    #[test]
    fn notes_are_printed_and_leave_the_status_alone() {
        let mut live = Live::new(Width(80), Kind::Terminal);
        live.on(&Event::Auditing { read: 1, expected: 2 });
        let status = "reading back   ██████████░░░░░░░░░░ 50 %   1 of 2 documents";
        check(&mut live, &Event::Note { at_ns: 0, text: "said".into() }, &["said"], Some(status));
    }
}
