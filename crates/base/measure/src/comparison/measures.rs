//! Chooses the metrics of a comparison.
//!
//! Only a few metrics are compared, because each further metric makes a difference harder to show. A load of one kind
//! of operation is compared by its rate, median, p99 and cost. A load of several kinds is compared by the rate of its
//! last phase (earlier phases prepare it), by each kind's p99, and by the cost. A scheduled rate is not compared: it
//! does not depend on the server.

use std::collections::BTreeSet;

use super::form::{Better, Unit};
use crate::run::{Operation, Run};

/// Picks a figure from a run, or from its operation of that name.
type Pick = fn(&Run, &str) -> Option<f64>;

/// A figure of a run.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The key in run.json.
    pub name: String,
    /// The description.
    pub words: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    operation: String,
    pick: Pick,
}

impl Measure {
    /// A figure of a whole run.
    fn new(name: impl Into<String>, words: impl Into<String>, unit: Unit, pick: Pick) -> Self {
        let better = match unit {
            Unit::DocumentsPerS | Unit::OperationsPerS | Unit::RequestsPerS => Better::More,
            Unit::Ns | Unit::Us | Unit::Bytes => Better::Less,
        };
        Self { name: name.into(), words: words.into(), unit, better, operation: String::new(), pick }
    }

    /// A figure of one operation.
    fn of_operation(operation: &str, key: &str, words: &str, unit: Unit, pick: Pick) -> Self {
        let measure = Self::new(format!("{operation}.{key}"), format!("{words} of {operation}"), unit, pick);
        Self { operation: operation.to_owned(), ..measure }
    }

    /// The value in a run; nothing if unknown.
    pub fn of(&self, run: &Run) -> Option<f64> {
        (self.pick)(run, &self.operation)
    }
}

/// The metrics of `runs`, the default primary metric first. Metrics that no run has are left out.
pub fn measures(runs: &[&Run]) -> Vec<Measure> {
    let mut measures = match runs.first().map_or("", |run| run.command.as_str()) {
        "line" => vec![Measure::new("line.rate", "the load line", line_unit(runs), |run, _| {
            run.line.as_ref()?.rate
        })],
        "ladder" => {
            vec![Measure::new("ladder.throughput", "the highest rung", ladder_unit(runs), |run, _| {
                run.ladder.as_ref()?.rungs.iter().map(|rung| rung.throughput).reduce(f64::max)
            })]
        }
        _ => load(runs),
    };
    measures.retain(|measure| runs.iter().any(|run| measure.of(run).is_some()));
    measures
}

fn line_unit(runs: &[&Run]) -> Unit {
    unit(runs.iter().find_map(|run| run.line.as_ref()).map(|line| line.unit.as_str()))
}

fn ladder_unit(runs: &[&Run]) -> Unit {
    unit(runs.iter().find_map(|run| run.ladder.as_ref()).map(|ladder| ladder.unit.as_str()))
}

fn unit(text: Option<&str>) -> Unit {
    match text {
        Some("documents/s") => Unit::DocumentsPerS,
        Some("requests/s") => Unit::RequestsPerS,
        _ => Unit::OperationsPerS,
    }
}

/// The word for one operation (`request` for a service), and the unit of its rate.
fn sent(runs: &[&Run]) -> (&'static str, Unit) {
    let is_service = runs.iter().any(|run| !run.answers.is_empty());
    if is_service { ("request", Unit::RequestsPerS) } else { ("operation", Unit::OperationsPerS) }
}

fn load(runs: &[&Run]) -> Vec<Measure> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.operations.keys()).collect();
    let names: Vec<&String> = names.into_iter().collect();
    let mut measures = match names[..] {
        [only] => single(runs, only),
        _ => several(runs, &names),
    };
    measures.extend(cost(runs, &names));
    measures
}

fn cost(runs: &[&Run], names: &[&String]) -> [Measure; 3] {
    let sent = sent(runs).0;
    let carries = names.iter().any(|name| operations(runs, name).any(|it| it.documents > it.count));
    let written = if sent == "request" && !carries { sent } else { "document" };
    let client = format!("Plimsoll's CPU per {sent}");
    let server = format!("the server's CPU per {sent}");
    let written = format!("written by the server per {written}");
    [
        Measure::new("client.cpu_us_per_operation", client, Unit::Us, |run, _| {
            run.client.cpu_us_per_operation
        }),
        Measure::new("server_cost.cpu_us_per_operation", server, Unit::Us, |run, _| {
            run.server_cost.cpu_us_per_operation
        }),
        Measure::new("server_cost.written_bytes_per_document", written, Unit::Bytes, |run, _| {
            run.server_cost.written_bytes_per_document
        }),
    ]
}

/// The metrics of a load of one kind of operation.
fn single(runs: &[&Run], name: &str) -> Vec<Measure> {
    let median = Measure::of_operation(name, "response_ns.p50", "median response", Unit::Ns, |run, name| {
        run.operations.get(name)?.response_ns.p50.map(|ns| ns as f64)
    });
    let rate = (!is_scheduled(runs, name)).then(|| rate(runs, name));
    rate.into_iter().chain([p99(name), median]).collect()
}

/// The metrics of a load of several kinds. The kind that was sent most comes first.
fn several(runs: &[&Run], names: &[&String]) -> Vec<Measure> {
    let mut measures = Vec::new();
    if !names.iter().any(|name| is_scheduled(runs, name)) {
        let (sent, unit) = sent(runs);
        let words = format!("{sent}s per second of the last phase");
        measures.push(Measure::new("phases.operations_per_s", words, unit, |run, _| last_phase_per_s(run)));
    }
    let sent = |name: &str| operations(runs, name).map(|it| it.count).sum::<u64>();
    let mut names = names.to_vec();
    names.sort_by_key(|name| std::cmp::Reverse(sent(name)));
    measures.extend(names.into_iter().map(|name| p99(name)));
    measures
}

/// Operations acknowledged per second of the last phase.
fn last_phase_per_s(run: &Run) -> Option<f64> {
    let phase = run.phases.last()?;
    let seconds = phase.to_s - phase.from_s;
    (phase.operations > 0 && seconds > 0.0).then(|| phase.operations as f64 / seconds)
}

fn rate(runs: &[&Run], name: &str) -> Measure {
    let (sent, unit) = sent(runs);
    // Requests that carry at most one document each are counted as requests.
    let least = |it: &Operation| if unit == Unit::RequestsPerS { it.count } else { 0 };
    if operations(runs, name).any(|it| it.documents > least(it)) {
        let pick: Pick = |run, name| Some(run.operations.get(name)?.documents_per_s);
        return Measure::of_operation(
            name,
            "documents_per_s",
            "documents per second",
            Unit::DocumentsPerS,
            pick,
        );
    }
    let words = format!("{sent}s per second");
    Measure::of_operation(name, "rate_per_s", &words, unit, |run, name| {
        Some(run.operations.get(name)?.rate_per_s)
    })
}

fn p99(name: &str) -> Measure {
    Measure::of_operation(name, "response_ns.p99", "p99 response", Unit::Ns, |run, name| {
        run.operations.get(name)?.response_ns.p99.map(|ns| ns as f64)
    })
}

/// Whether the schedule gave the rate of an operation.
fn is_scheduled(runs: &[&Run], name: &str) -> bool {
    operations(runs, name).any(|it| it.achieved.is_some())
}

fn operations<'a>(runs: &'a [&Run], name: &'a str) -> impl Iterator<Item = &'a Operation> {
    runs.iter().filter_map(move |run| run.operations.get(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::histogram::Latency;
    use crate::line::Line;
    use crate::run::{Client, PhaseFacts};

    fn operation(count: u64, achieved: Option<f64>) -> Operation {
        let response_ns = Latency { p50: Some(5), p99: Some(9), ..Latency::default() };
        Operation {
            count,
            documents: count,
            documents_per_s: 7.0,
            achieved,
            response_ns,
            ..Operation::default()
        }
    }

    fn run(operations: &[(&str, Operation)]) -> Run {
        let phase = PhaseFacts { from_s: 1.0, to_s: 3.0, operations: 10, ..PhaseFacts::default() };
        let operations: BTreeMap<_, _> =
            operations.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
        let client = Client { cpu_us_per_operation: Some(3.0), ..Client::default() };
        Run { command: "run".into(), operations, phases: vec![phase], client, ..Run::default() }
    }

    #[track_caller]
    fn check(run: &Run, expected: &[(&str, f64)]) {
        let measures = measures(&[run]);
        let found: Vec<_> = measures.iter().map(|it| (it.name.as_str(), it.of(run).unwrap())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn one_kind_of_operation_is_compared_by_rate_latency_and_cost() {
        check(
            &run(&[("insert", operation(10, None))]),
            &[
                ("insert.documents_per_s", 7.0),
                ("insert.response_ns.p99", 9.0),
                ("insert.response_ns.p50", 5.0),
                ("client.cpu_us_per_operation", 3.0),
            ],
        );
    }

    #[test]
    fn a_rate_that_the_schedule_gave_is_not_compared() {
        check(
            &run(&[("insert", operation(10, Some(1.0)))]),
            &[
                ("insert.response_ns.p99", 9.0),
                ("insert.response_ns.p50", 5.0),
                ("client.cpu_us_per_operation", 3.0),
            ],
        );
    }

    #[test]
    fn a_mix_is_compared_by_its_last_phase_and_the_most_frequent_operation_comes_first() {
        check(
            &run(&[("read", operation(5, None)), ("update", operation(50, None))]),
            &[
                ("phases.operations_per_s", 5.0),
                ("update.response_ns.p99", 9.0),
                ("read.response_ns.p99", 9.0),
                ("client.cpu_us_per_operation", 3.0),
            ],
        );
    }

    #[test]
    fn requests_to_a_service_are_compared_as_requests() {
        let of_service = |documents| {
            let asked = Operation { rate_per_s: 8.0, documents, ..operation(10, None) };
            let answers = vec![crate::run::Answers::default()];
            Run { answers, ..run(&[("ask", asked)]) }
        };
        let words = |run: &Run| {
            measures(&[run]).into_iter().map(|it| (it.name, it.words, it.unit)).collect::<Vec<_>>()
        };
        let single = words(&of_service(10));
        assert_eq!(
            single[0],
            ("ask.rate_per_s".into(), "requests per second of ask".into(), Unit::RequestsPerS)
        );
        assert_eq!(single[3].1, "Plimsoll's CPU per request");
        let several = words(&of_service(1_000));
        assert_eq!(several[0].1, "documents per second of ask");
        let two = Run {
            answers: vec![crate::run::Answers::default()],
            ..run(&[("a", operation(5, None)), ("b", operation(5, None))])
        };
        assert_eq!(words(&two)[0].1, "requests per second of the last phase");
    }

    #[test]
    fn a_search_is_compared_by_its_line_alone() {
        let line = Line { rate: Some(4.0), unit: "documents/s".into(), ..Line::default() };
        let run = Run { command: "line".into(), line: Some(line), ..run(&[("insert", operation(10, None))]) };
        check(&run, &[("line.rate", 4.0)]);
        assert_eq!(measures(&[&run])[0].unit, Unit::DocumentsPerS);
    }
}
