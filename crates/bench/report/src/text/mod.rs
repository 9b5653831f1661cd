//! Renders the summary of a run for a terminal.

use plimsoll_measure::environment::ServerKind;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::line::{Line, Probe};
use plimsoll_measure::run::{Run, Verdict};

use crate::derived::{arrivals, doubt, interval, objective};
use crate::inspection::changed;
use crate::layout::{Document, bullets, cut, paint, wrap};
use crate::prose::joined;
use crate::tables::{self, Table, Tone, server_in_words};
use crate::units::{duration, exact_rate};

pub use crate::layout::{Screen, Style, Width};

/// `text` in lines of at most `width`. The first line starts with `first`, the others with as many blanks.
pub fn hanging(text: &str, first: &str, width: Width) -> String {
    wrap(text, first, width).join("\n")
}

/// `text` cut to `width`, the last character then an ellipsis, for a line that is drawn again.
pub fn clipped(text: &str, width: Width) -> String {
    cut(text, width.0)
}

/// The summary of `run` for `screen`, with a line feed at its end. `directory` holds the run's files. The conclusions shown are
/// those stored in the run: see [`crate::conclusions()`].
pub fn summary(run: &Run, directory: Option<&str>, screen: Screen) -> String {
    let mut document = Document::new(screen);
    document.title(&run.scenario.title, &facts(run));
    document.verdict(tables::run_word(run), &run.reasons);
    document.section(line(run, screen));
    tables(run).iter().for_each(|table| document.table(table));
    if !run.conclusions.is_empty() {
        let title = paint("Conclusions", Tone::Strong, screen.style);
        document.section(std::iter::once(title).chain(bullets(&run.conclusions, screen.width)));
    }
    if let Some(directory) = directory {
        document.ending(&format!("{directory}/report.html"), &next(run, directory));
    }
    document.finish()
}

/// The command that helps most after this run.
fn next(run: &Run, directory: &str) -> String {
    let is_kept = run.integrity.as_ref().is_none_or(Integrity::holds);
    match run.verdict {
        _ if !is_kept && run.server.kind == ServerKind::Address => format!("plimsoll audit {directory}"),
        Verdict::Pass => format!("plimsoll compare {directory} OTHER-RUN"),
        Verdict::Fail | Verdict::Invalid => format!("plimsoll show {directory} --replay"),
    }
}

/// The tables of the summary.
fn tables(run: &Run) -> Vec<Table> {
    let mut tables: Vec<_> = run.line.iter().map(tables::probes).collect();
    tables.extend(run.ladder.iter().map(tables::ladder));
    tables.push(tables::latencies(run));
    // The table of phases is for several phases: the table of operations covers a single one, and a search
    // shows probes.
    if run.phases.len() > 1 && run.line.is_none() && run.ladder.is_none() {
        tables.push(tables::phase_figures(run));
    }
    tables.extend(tables::workflow(run));
    tables.extend(tables::outcomes(run));
    tables.extend(changed(run));
    tables.extend([tables::cost(run), tables::traffic(run), tables::accuracy(run)]);
    tables
}

/// The headline's label; details are indented by its length.
const LABEL: &str = "LOAD LINE  ";

/// The facts that identify a run.
fn facts(run: &Run) -> [String; 5] {
    [
        run.scenario.name.clone(),
        format!("run {}", run.id),
        run.started.clone(),
        format!("{} under load", duration(run.duration_s)),
        server_in_words(&run.server),
    ]
}

/// The load line as a headline: rate, interval, objective and bottleneck.
fn line(run: &Run, screen: Screen) -> Vec<String> {
    let Some(line) = &run.line else { return Vec::new() };
    let rate = line
        .rate
        .map_or_else(|| "none found".to_owned(), |rate| format!("{} {}", exact_rate(rate), line.unit));
    let doubt = doubt(line).map(|doubt| format!(", {doubt}")).unwrap_or_default();
    let mut lines = wrap(&format!("{rate}{doubt}"), LABEL, screen.width);
    // Colour has no width, so it comes after the wrapping.
    if let Some(headline) = lines.first_mut() {
        *headline = headline.replacen(&rate, &paint(&rate, Tone::Strong, screen.style), 1);
    }
    lines.extend(details(line, screen.width));
    lines
}

fn details(line: &Line, width: Width) -> Vec<String> {
    let found = joined(&line.bottlenecks, ", ", |it| it.name.clone());
    let bottleneck = if found.is_empty() { "not found".to_owned() } else { found };
    let unchecked = joined(&line.unchecked, ", ", |it| it.name.clone());
    let facts = [
        ("load", Some(line.load.clone()).filter(|load| !load.is_empty())),
        ("background", Some(line.background.join("; ")).filter(|loads| !loads.is_empty())),
        ("interval", interval(line)),
        ("objective", Some(objective(line))),
        ("arrivals", arrivals(line).map(str::to_owned)),
        ("soak", line.soak.as_ref().map(|soak| soaked(soak, &line.unit))),
        ("bottleneck", line.rate.map(|_| bottleneck)),
        ("not checked", line.rate.map(|_| unchecked).filter(|names| !names.is_empty())),
    ];
    let indent = " ".repeat(LABEL.len());
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    facts.flat_map(|(name, value)| wrap(&value, &format!("{indent}{name:<14}"), width)).collect()
}

/// The result of the long load after a search: `held at 40,100 documents/s over 10 min 0 s`.
fn soaked(soak: &Probe, unit: &str) -> String {
    let word = if soak.held { "held" } else { "failed" };
    format!("{word} at {} {unit} over {}", exact_rate(soak.rate), duration(soak.window_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_measure::environment::ServerFacts;
    use plimsoll_measure::histogram::Latency;
    use plimsoll_measure::line::{Candidate, Stage, Unchecked};
    use plimsoll_measure::run::{Client, Expectation, Operation, ScenarioFacts, ServerCost};
    use std::collections::BTreeMap;

    fn latency(count: u64, p50: u64) -> Latency {
        let p99_9 = (count >= 10_000).then_some(p50 * 8);
        let [p50, p95, p99, max] = [p50, p50 * 2, p50 * 4, p50 * 10].map(Some);
        Latency { count, p50, p95, p99, p99_9, max, ..Latency::default() }
    }

    fn operation() -> Operation {
        Operation {
            count: 1_000,
            documents: 1_000_000,
            documents_per_s: 123_456.7,
            response_ns: latency(1_000, 1_270_000),
            service_ns: latency(1_000, 1_260_000),
            ..Operation::default()
        }
    }

    fn run() -> Run {
        let name = "partitioned".to_owned();
        Run {
            id: "5a3ed00dc0ffee".into(),
            started: "2026-03-22T16:36:59Z".into(),
            duration_s: 8.1,
            scenario: ScenarioFacts {
                name,
                title: "partitioned bulk insert".into(),
                ..ScenarioFacts::default()
            },
            server: ServerFacts {
                kind: ServerKind::Embedded,
                version: Some("7.0".into()),
                storage_engine: Some("wiredTiger".into()),
                ..ServerFacts::default()
            },
            client: client(),
            ..Run::default()
        }
    }

    fn client() -> Client {
        Client {
            workers: 2,
            connections: 4,
            cpu_us_per_operation: Some(310.0),
            cpu_us_per_document: Some(0.31),
            cpu_busiest_worker: 0.45,
            rss_bytes_max: 41_943_040,
            headroom: Some(5.2),
            null_server_per_s: Some(640_000.0),
            ..Client::default()
        }
    }

    fn finished() -> Run {
        let expectation = |metric: &str, expression: &str, value, held| {
            let (metric, expression) = (metric.to_owned(), expression.to_owned());
            Expectation { metric, expression, value: Some(value), held, reason: None, by_default: false }
        };
        let (write_concern, documents) = ("{\"w\":1}".into(), 1_000_000);
        let kept =
            Integrity { write_concern, acknowledged: documents, found: documents, ..Integrity::default() };
        Run {
            verdict: Verdict::Fail,
            reasons: vec!["insert.response p(99)<5ms did not hold".into()],
            operations: BTreeMap::from([("insert".into(), operation())]),
            integrity: Some(kept),
            expectations: vec![
                expectation("insert.response", "p(99)<5ms", 5_080_000.0, false),
                expectation("integrity.lost", "count==0", 0.0, true),
            ],
            conclusions: vec!["All 1,000,000 acknowledged documents were found intact.".into()],
            ..run()
        }
    }

    fn candidate(name: &str, evidence: &str) -> Candidate {
        Candidate { name: name.into(), evidence: evidence.into(), ..Candidate::default() }
    }

    /// The run of an older file.
    fn searched() -> Run {
        let probe = |stage, rate: f64, held: bool| Probe {
            stage,
            rate,
            achieved: rate * 0.9995,
            achieved_ratio: 0.9995,
            response_ns: latency(40_000, if held { 1_270_000 } else { 40_000_000 }),
            held,
            reasons: if held { Vec::new() } else { vec!["p99 response is 160 ms".into()] },
            ..Probe::default()
        };
        let probes = vec![
            probe(Stage::WarmUp, 8_000.0, false),
            probe(Stage::Climb, 16_000.0, true),
            probe(Stage::Estimate, 19_000.0, false),
        ];
        let line = Line {
            confirmed: Some(false),
            rate: Some(16_000.0),
            low: Some(16_000.0),
            high: Some(19_000.0),
            unit: "documents/s".into(),
            objective: vec!["p99 response < 50 ms".into(), "no errors".into()],
            bottlenecks: vec![candidate("server CPU", "1.97 of 2 cores")],
            unchecked: vec![Unchecked { name: "tickets".into(), reason: "not reported".into() }],
            probes,
            ..Line::default()
        };
        let server_cost = ServerCost { cores: Some(1.97), ..ServerCost::default() };
        Run { verdict: Verdict::Pass, line: Some(line), server_cost, ..run() }
    }

    #[track_caller]
    fn check(run: &Run, directory: Option<&str>, text: &str) {
        let found = summary(run, directory, Screen::PIPE);
        assert_eq!(found, text.trim_start_matches('\n'), "found:\n{found}");
    }

    #[test]
    fn a_run_is_summed_up() {
        check(
            &finished(),
            Some("plimsoll-runs/a"),
            r#"
partitioned bulk insert
partitioned · run 5a3ed00dc0ffee · 2026-03-22T16:36:59Z · 8.10 s under load · embedded server 7.0,
wiredTiger

FAIL
  • insert.response p(99)<5ms did not hold

Operations
  operation  time      count  documents/s      p50      p95      p99        p99.9      max
  insert     response  1,000      123,457  1.27 ms  2.54 ms  5.08 ms  n too small  12.7 ms
             service   1,000               1.26 ms  2.52 ms  5.04 ms  n too small  12.6 ms

Integrity: proven, write concern {"w":1}
  acknowledged      found  lost  phantom  duplicated  corrupted
     1,000,000  1,000,000     0        0           0          0

Expectations
  expectation      bound      measured  result
  insert.response  p(99)<5ms   5.08 ms  failed
  integrity.lost   count==0          0  held

Cost
            CPU/operation  CPU/document                             CPU        memory
  Plimsoll         310 µs        310 ns  45 % of a core, busiest worker      40.0 MiB
  server     not reported  not reported                    not reported  not reported

Traffic
  bytes on the wire      not reported
  context switches       not reported
  written by the server  not reported
  to its journal         not reported

Accuracy of the tool
  headroom     5.20 times (640,000 operations/s against the null server)
  connections  4 connections, 2 workers
  reconnects   0
  pacing       timer

Conclusions
  • All 1,000,000 acknowledged documents were found intact.

Page  plimsoll-runs/a/report.html
Next  plimsoll show plimsoll-runs/a --replay
"#,
        );
    }

    #[test]
    fn a_warm_up_shows_no_verdict() {
        let found = summary(&Run { warm_up: true, ..finished() }, None, Screen::PIPE);
        assert!(found.contains("\nWARM-UP\n") && !found.contains("FAIL"), "{found}");
    }

    #[test]
    fn a_search_is_summed_up_under_its_load_line() {
        let mut run = searched();
        if let Some(line) = &mut run.line {
            (line.confidence, line.confirmed) = (Some(0.9), None);
            (line.rate, line.low, line.arrivals) = (Some(17_225.0), Some(16_100.0), Some("poisson".into()));
            let excess = [None, Some(0.0123), Some(3.5)];
            line.probes.iter_mut().zip(excess).for_each(|(probe, excess)| probe.excess = excess);
            let soak =
                |it: &Probe| Probe { stage: Stage::Soak, rate: 15_502.0, window_s: 600.0, ..it.clone() };
            line.soak = line.probes.get(1).map(soak);
        }
        let text = summary(&run, None, Screen::PIPE);
        let expected = r#"
LOAD LINE  17,225 documents/s
           interval      16,100 to 19,000 documents/s (90 %)
           objective     p99 response < 50 ms and no errors
           arrivals      Poisson
           soak          held at 15,502 documents/s over 10 min 0 s
           bottleneck    server CPU
           not checked   tickets

Probes, in documents/s
  stage      asked    done  achieved      p50      p99      max  excess  result
  warm-up    8,000   7,996    99.9 %  40.0 ms   160 ms   400 ms       –  not judged
  climb     16,000  15,992    99.9 %  1.27 ms  5.08 ms  12.7 ms  0.0123  held
  estimate  19,000  18,991    99.9 %  40.0 ms   160 ms   400 ms    3.50  failed: p99 response is
                                                                         160 ms
  soak      15,502  15,992    99.9 %  1.27 ms  5.08 ms  12.7 ms  0.0123  held

Cost
"#;
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn an_older_search_is_summed_up_with_its_doubt() {
        check(
            &searched(),
            None,
            r#"
partitioned bulk insert
partitioned · run 5a3ed00dc0ffee · 2026-03-22T16:36:59Z · 8.10 s under load · embedded server 7.0,
wiredTiger

PASS

LOAD LINE  16,000 documents/s, not confirmed
           interval      16,000 to 19,000 documents/s
           objective     p99 response < 50 ms and no errors
           bottleneck    server CPU
           not checked   tickets

Probes, in documents/s
  stage     asked    done  achieved      p50      p99      max  result
  warm-up   8,000   7,996    99.9 %  40.0 ms   160 ms   400 ms  not judged
  climb    16,000  15,992    99.9 %  1.27 ms  5.08 ms  12.7 ms  held
  confirm  19,000  18,991    99.9 %  40.0 ms   160 ms   400 ms  failed: p99 response is 160 ms

Cost
            CPU/operation  CPU/document                             CPU        memory
  Plimsoll         310 µs        310 ns  45 % of a core, busiest worker      40.0 MiB
  server     not reported  not reported                      1.97 cores  not reported

Traffic
  bytes on the wire      not reported
  context switches       not reported
  written by the server  not reported
  to its journal         not reported

Accuracy of the tool
  headroom     5.20 times (640,000 operations/s against the null server)
  connections  4 connections, 2 workers
  reconnects   0
  pacing       timer
"#,
        );
    }
}
