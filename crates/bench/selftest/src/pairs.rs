//! Compares real runs: a server with itself, and with a server that takes 10 % longer.

use std::time::Duration;

use anyhow::Context;
use plimsoll_host::null;
use plimsoll_measure::clock;
use plimsoll_measure::comparison::{Comparison, Request, Settings, Subject, Verdict, compare};
use plimsoll_measure::run::Run;
use plimsoll_report::comparison::change;

use super::{Finding, trial};

/// The scenario, with a load that waits for each answer.
const SCENARIO: &str = "rate";
const OVERRIDES: [&str; 2] =
    ["phases.0.load.insert.arrivals={closed: {writers: 4}}", "phases.0.stop.duration=1s"];
/// Pairs of each comparison.
const PAIRS: u64 = 10;
/// The metric that decides: a busy machine delays some operations, which does not affect the median.
const PRIMARY: &str = "insert.response_ns.p50";
/// The delay of each answer: so long that it alone determines the median.
const DELAY: Duration = Duration::from_millis(5);
/// The factor between the delays of both servers.
const HANDICAP: f64 = 1.1;

/// A null server compared with itself shows no difference.
///
/// # Errors
/// The load cannot be sent.
pub fn same() -> anyhow::Result<Finding> {
    finding("A against A shows no difference", 1.0, Verdict::NoDifference)
}

/// A server that takes 10 % longer for each answer is found to be slower.
///
/// # Errors
/// The load cannot be sent.
pub fn handicap() -> anyhow::Result<Finding> {
    finding("a handicap of 10 % is found", HANDICAP, Verdict::Worse)
}

fn finding(name: &'static str, factor: f64, expected: Verdict) -> anyhow::Result<Finding> {
    judged(name, &measure(factor)?, expected)
}

/// Only the expected verdict passes; a missing verdict proves nothing.
fn judged(name: &'static str, comparison: &Comparison, expected: Verdict) -> anyhow::Result<Finding> {
    let metric = comparison.primary().context("nothing was measured")?;
    let shown = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| change(ratio - 1.0));
    let figure = format!(
        "{}, interval {} to {}, p {:.3}, {PAIRS} pairs",
        shown(metric.ratio),
        shown(metric.low),
        shown(metric.high),
        metric.p.unwrap_or(1.0)
    );
    let advice = match comparison.verdict {
        Verdict::TooNoisy => "; too noisy to tell: run it again on a quiet machine",
        Verdict::NoVerdict => "; no verdict: not every run could be measured",
        _ => "",
    };
    Ok(Finding { name, passed: comparison.verdict == expected, figure: figure + advice, score: None })
}

/// Measures both servers in turns, and alternates which of them comes first.
fn measure(factor: f64) -> anyhow::Result<Comparison> {
    let delays = [DELAY, DELAY.mul_f64(factor)];
    let servers =
        delays.map(|delay| null::Server::start(null::Options { delay, ..null::Options::default() }));
    let [a, b] = servers.map(|server| server.context("start the null server"));
    let (servers, mut runs) = ([a?, b?], [Vec::new(), Vec::new()]);
    for number in 0..2 * PAIRS {
        let side = usize::from((number + number / 2) % 2 == 1);
        let trial = trial::run_with(SCENARIO, &OVERRIDES.map(str::to_owned), servers[side].address())?;
        runs[side].push(Run {
            id: number.to_string(),
            command: "run".to_owned(),
            started_ms: clock::wall_ms(),
            scenario: plimsoll_measure::run::ScenarioFacts {
                hash: SCENARIO.to_owned(),
                ..Default::default()
            },
            operations: trial.summary.operations(),
            ..Run::default()
        });
    }
    let request = Request {
        names: ["A".to_owned(), "B".to_owned()],
        a: subjects(&runs[0]),
        b: subjects(&runs[1]),
        varied: Vec::new(),
        force: false,
        primary: Some(PRIMARY.to_owned()),
        settings: Settings::default(),
    };
    Ok(compare(request)?)
}

fn subjects(runs: &[Run]) -> Vec<Subject<'_>> {
    runs.iter().map(|run| Subject { name: run.id.clone(), run, scenario: None }).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::comparison::{Better as Good, Metric, Unit};

    use super::*;

    fn judged_as(verdict: Verdict, expected: Verdict) -> Finding {
        let metric = Metric {
            name: PRIMARY.into(),
            words: "median".into(),
            unit: Unit::Ns,
            better: Good::Less,
            primary: true,
            pairs: Vec::new(),
            a: None,
            b: None,
            ratio: None,
            low: None,
            high: None,
            p: None,
            p_adjusted: None,
            must_show: None,
            verdict,
            reason: None,
            pairs_needed: None,
            correlation: None,
        };
        let comparison = Comparison { verdict, metrics: vec![metric], ..Comparison::default() };
        judged("claim", &comparison, expected).unwrap()
    }

    #[test]
    fn only_the_expected_verdict_passes() {
        use Verdict::{Better, NoDifference, NoVerdict, TooNoisy, Worse};
        for expected in [NoDifference, Worse] {
            for verdict in [Better, Worse, NoDifference, TooNoisy, NoVerdict] {
                let found = judged_as(verdict, expected);
                assert_eq!(found.passed, verdict == expected, "{verdict:?} for {expected:?}");
            }
        }
        let noisy = judged_as(TooNoisy, NoDifference).figure;
        assert!(noisy.contains("too noisy to tell: run it again on a quiet machine"), "{noisy}");
    }
}
