//! Renders a comparison for a terminal and as a page.

mod failures;
mod figures;
mod numbers;
mod page;
mod sentences;
mod tables;

pub use numbers::change;
pub(crate) use numbers::{p, value};
pub use page::{Links, page};
pub use sentences::conclusions;
pub(crate) use tables::short;

use plimsoll_measure::comparison::{Comparison, Method, Verdict};

use crate::layout::{Document, Screen, wrap};
use crate::tables::{Tone, server_in_words};
use crate::units::counted;

/// The summary of a comparison for `screen`, with a line feed at its end. `directory` holds its files. The
/// conclusions shown are those stored in the comparison: see [`conclusions`].
pub fn summary(comparison: &Comparison, directory: Option<&str>, screen: Screen) -> String {
    let mut document = Document::new(screen);
    let sides = sides(comparison);
    let sides = sides.into_iter().flat_map(|(name, side)| wrap(&side, &format!("{name}  "), screen.width));
    let (word, tone) = word(comparison);
    document.title(&comparison.title, &facts(comparison));
    document.section(sides);
    document.verdict((&word, tone), []);
    document.table(&tables::brief(comparison));
    document.bullets(&comparison.conclusions);
    if let Some(directory) = directory {
        document
            .ending(&format!("{directory}/comparison.html"), &format!("plimsoll show {directory} --json"));
    }
    document.finish()
}

/// The headline. If only B fails or breaks expectations, the headline says so, even if B is faster.
fn word(comparison: &Comparison) -> (String, Tone) {
    let (word, tone) = verdict(comparison.verdict);
    if comparison.is_broken() {
        return (format!("{word}, AND B BREAKS AN EXPECTATION"), Tone::Bad);
    }
    if comparison.is_unsound() {
        return (format!("{word}, AND B FAILS WHERE A DOES NOT"), Tone::Bad);
    }
    (word.to_owned(), tone)
}

const fn verdict(verdict: Verdict) -> (&'static str, Tone) {
    match verdict {
        Verdict::Better => ("B IS BETTER", Tone::Good),
        Verdict::Worse => ("B IS WORSE", Tone::Bad),
        Verdict::NoDifference => ("NO DIFFERENCE SHOWN", Tone::Strong),
        Verdict::TooNoisy => ("TOO NOISY TO TELL", Tone::Doubtful),
        Verdict::NoVerdict => ("NO VERDICT", Tone::Doubtful),
    }
}

/// The facts that identify a comparison.
fn facts(comparison: &Comparison) -> Vec<String> {
    let method = match comparison.method {
        Method::Single => "two single runs".to_owned(),
        Method::Exact { pairs } => format!("{}, exact sign-flip test", counted(pairs.into(), "pair")),
        Method::Sampled { pairs, samples } => {
            format!("{}, sign-flip test with {samples} samples", counted(pairs.into(), "pair"))
        }
    };
    vec![comparison.started.clone(), method]
}

/// The names of A and B, with their servers if these differ.
fn sides(comparison: &Comparison) -> [(&'static str, String); 2] {
    let (a, b) = (&comparison.a, &comparison.b);
    let differs = server_in_words(&a.server) != server_in_words(&b.server);
    let said = |side: &plimsoll_measure::comparison::Side| {
        let name = side.name.clone();
        if differs { format!("{name} · {}", server_in_words(&side.server)) } else { name }
    };
    [("A", said(a)), ("B", said(b))]
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use plimsoll_measure::comparison::{Broken, Request, Settings, Subject, compare};
    use plimsoll_measure::histogram::Latency;
    use plimsoll_measure::run::{Client, Operation, Run, ScenarioFacts, Verdict as Worth};

    use super::*;
    use crate::layout::tests::assert_fits;

    fn run(number: u64, rate: f64) -> Run {
        let response_ns = Latency {
            count: 5_000,
            p50: Some((1e9 / rate) as u64),
            p99: Some((4e9 / rate) as u64),
            ..Latency::default()
        };
        let operation = Operation {
            count: 1_000,
            documents: 1_000,
            documents_per_s: rate,
            response_ns,
            ..Operation::default()
        };
        Run {
            id: format!("{number}"),
            command: "run".into(),
            started: "2026-11-21T12:00:00Z".into(),
            started_ms: number,
            verdict: Worth::Pass,
            scenario: ScenarioFacts {
                title: "single <inserts>".into(),
                hash: if number.is_multiple_of(2) { "bb" } else { "aa" }.into(),
                ..ScenarioFacts::default()
            },
            operations: BTreeMap::from([("insert".to_owned(), operation)]),
            client: Client { calibration_null_per_s: vec![1e5, 1.04e5], ..Client::default() },
            ..Run::default()
        }
    }

    /// A comparison of `pairs` pairs. B's value is `factor` times A's, plus or minus `noise`.
    pub(crate) fn sample(pairs: u64, factor: f64, noise: f64) -> Comparison {
        let wave = |index: u64| 1.0 + noise * ((index * 7 % 11) as f64 / 5.0 - 1.0);
        let runs: Vec<Run> = (1..=2 * pairs)
            .map(|number| run(number, 5_000.0 * wave(number) * if number % 2 == 0 { factor } else { 1.0 }))
            .collect();
        let subjects = |rest: u64| {
            let mine = runs.iter().filter(move |run| run.started_ms % 2 == rest);
            let client = if rest == 1 { "lean" } else { "driver" };
            let subject = move |run| Subject {
                name: format!("{:03}-{client}", run_number(run)),
                run,
                scenario: Some(BTreeMap::from([("client", client)])).and_then(|it| to_value(&it)),
            };
            mine.map(subject).collect()
        };
        let request = Request {
            names: ["client=lean".into(), "client=driver".into()],
            a: subjects(1),
            b: subjects(0),
            varied: vec!["client".into()],
            force: false,
            primary: None,
            settings: Settings::default(),
        };
        let mut comparison = compare(request).unwrap();
        comparison.conclusions = conclusions(&comparison);
        comparison
    }

    fn run_number(run: &Run) -> u64 {
        run.started_ms.div_ceil(2)
    }

    fn to_value(map: &BTreeMap<&str, &str>) -> Option<plimsoll_measure::inspection::Value> {
        let pairs = map.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
        Some(plimsoll_measure::inspection::Value::Object(pairs.collect()))
    }

    #[test]
    fn a_comparison_is_summarised() {
        let found = summary(&sample(10, 0.9, 0.03), Some("plimsoll-runs/c"), Screen::PIPE);
        for part in [
            "single <inserts>",
            "10 pairs, exact sign-flip test",
            "A  client=lean",
            "B IS WORSE",
            "documents/s of insert",
            "worse",
            "B is slower",
            "comparison.html",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert_fits(|screen| summary(&sample(10, 0.9, 0.03), Some("plimsoll-runs/c"), screen));
    }

    #[test]
    fn every_verdict_has_a_headline_and_a_page() {
        for (pairs, factor, noise, expected) in [
            (10, 0.9, 0.03, "B IS WORSE"),
            (10, 1.2, 0.03, "B IS BETTER"),
            (10, 1.0, 0.03, "NO DIFFERENCE SHOWN"),
            (10, 1.0, 0.6, "TOO NOISY TO TELL"),
            (1, 0.5, 0.0, "NO VERDICT"),
        ] {
            let comparison = sample(pairs, factor, noise);
            let text = summary(&comparison, None, Screen::PIPE);
            assert!(text.contains(expected), "{expected}: {text}");
            assert!(page(&comparison, Links::None).contains(expected), "{expected}");
            let failing = Comparison { fails_more: true, ..comparison.clone() };
            let said = format!("{expected}, AND B FAILS WHERE A DOES NOT");
            assert!(summary(&failing, None, Screen::PIPE).contains(&said), "{said}");
            let broken = Comparison { broken: vec![Broken { b: 1, ..Broken::default() }], ..comparison };
            let expected = format!("{expected}, AND B BREAKS AN EXPECTATION");
            assert!(summary(&broken, None, Screen::PIPE).contains(&expected), "{expected}");
        }
    }
}
