//! Tests the error rates of comparisons: a thousand of each kind, on modelled and on recorded noise.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::recorded::residues;
use super::{Comparison, Request, Settings, Subject, Verdict, compare};
use crate::histogram::Latency;
use crate::random::Random;
use crate::run::{Client, Operation, Run, ScenarioFacts, ServerCost};

/// Comparisons of each kind.
const TRIALS: u64 = 1_000;
/// The default number of pairs.
const PAIRS: usize = 10;
/// The standard deviation of one run's figures.
const NOISE: f64 = 0.03;

/// Draws the logarithm of a figure's noise.
type Scatter = fn(&mut Random) -> f64;

/// Lognormal, 3 %.
fn modelled(random: &mut Random) -> f64 {
    NOISE * random.normal()
}

/// Recorded noise, scaled to a deviation of 3 %.
fn recorded(random: &mut Random) -> f64 {
    static RESIDUES: LazyLock<Vec<f64>> = LazyLock::new(|| residues(NOISE));
    RESIDUES[(random.unit() * RESIDUES.len() as f64) as usize]
}

/// A run whose figures have noise; `factor` makes it slower.
fn run(number: u64, factor: f64, scatter: Scatter, random: &mut Random) -> Run {
    let mut each = |base: f64| base * scatter(random).exp();
    let response_ns = Latency {
        p50: Some((each(1e6) / factor) as u64),
        p99: Some((each(9e6) / factor) as u64),
        ..Latency::default()
    };
    let operation = Operation {
        count: 1_000,
        documents: 1_000,
        documents_per_s: each(50_000.0) * factor,
        response_ns,
        ..Operation::default()
    };
    let null = each(100_000.0);
    Run {
        id: format!("{number:014}"),
        command: "run".into(),
        started_ms: number,
        scenario: ScenarioFacts { hash: "aa".into(), ..ScenarioFacts::default() },
        operations: BTreeMap::from([("insert".to_owned(), operation)]),
        client: Client {
            cpu_us_per_operation: Some(each(5.0)),
            calibration_null_per_s: vec![null, each(null)],
            ..Client::default()
        },
        server_cost: ServerCost {
            cpu_us_per_operation: Some(each(20.0) / factor),
            written_bytes_per_document: Some(each(900.0)),
            ..ServerCost::default()
        },
        ..Run::default()
    }
}

fn subjects(runs: &[Run]) -> Vec<Subject<'_>> {
    runs.iter().map(|run| Subject { name: run.id.clone(), run, scenario: None }).collect()
}

/// A complete comparison; the rate of B is `factor` times that of A.
fn trial(seed: u64, pairs: usize, factor: f64, scatter: Scatter) -> Comparison {
    trial_with(Settings { seed, ..Settings::default() }, pairs, factor, scatter)
}

/// The same with other settings; their seed also determines the noise.
fn trial_with(settings: Settings, pairs: usize, factor: f64, scatter: Scatter) -> Comparison {
    let seed = settings.seed;
    let mut random = Random::new(seed);
    let mut side = |first: u64, factor: f64| -> Vec<Run> {
        (0..pairs as u64).map(|pair| run(2 * pair + first, factor, scatter, &mut random)).collect()
    };
    let (a, b) = (side(1, 1.0), side(2, factor));
    let request = Request {
        names: ["A".into(), "B".into()],
        a: subjects(&a),
        b: subjects(&b),
        varied: Vec::new(),
        force: false,
        primary: None,
        settings,
    };
    compare(request).unwrap()
}

/// Whether a metric is called different.
fn is_called(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// The number of [`TRIALS`] comparisons that result in `expected`, and the number that find a difference in another metric.
fn count(seed: u64, factor: f64, scatter: Scatter, expected: Verdict) -> (u64, u64) {
    let (mut right, mut others) = (0, 0);
    for trial_seed in seed..seed + TRIALS {
        let it = trial(trial_seed, PAIRS, factor, scatter);
        right += u64::from(it.verdict == expected);
        others += u64::from(it.metrics.iter().skip(1).any(|metric| is_called(metric.verdict)));
    }
    println!(
        "seeds {seed} to {}: {right} are {expected:?}, another metric is called in {others}",
        seed + TRIALS - 1
    );
    (right, others)
}

#[test]
fn a_against_a_shows_no_difference_in_at_least_98_of_100() {
    for (seed, scatter) in [(1_000, modelled as Scatter), (2_000, recorded)] {
        let (right, others) = count(seed, 1.0, scatter, Verdict::NoDifference);
        assert!(right >= 980, "seeds from {seed}: {right} of {TRIALS}");
        // Five other metrics are tested together at the same level.
        assert!(others <= 20, "seeds from {seed}: {others} of {TRIALS}");
    }
}

/// With a minimum effect of 3 % almost no difference is shown, regardless of the test. Only without a minimum
/// effect does the error rate equal alpha.
#[test]
fn without_a_minimum_effect_one_in_a_hundred_comparisons_of_a_with_a_is_wrong() {
    for (first, scatter) in [(6_000, modelled as Scatter), (7_000, recorded)] {
        let settings = |seed| Settings { seed, min_effect: 0.0, ..Settings::default() };
        let is_wrong = |seed: &u64| is_called(trial_with(settings(*seed), PAIRS, 1.0, scatter).verdict);
        let wrong = (first..first + TRIALS).filter(is_wrong).count();
        println!("seeds {first} to {}: {wrong} are called", first + TRIALS - 1);
        // 5 of 512 splits may be rejected: 9.8 of 1,000. At 0.05 they would be 49, at 0.001 none.
        assert!((3..=20).contains(&wrong), "seeds from {first}: {wrong} of {TRIALS}");
    }
}

#[test]
fn a_handicap_of_10_percent_is_found_in_at_least_95_of_100() {
    for (seed, scatter) in [(3_000, modelled as Scatter), (4_000, recorded)] {
        let (found, _) = count(seed, 0.9, scatter, Verdict::Worse);
        assert!(found >= 950, "seeds from {seed}: {found} of {TRIALS}");
    }
}

#[test]
fn a_gain_of_10_percent_is_found_as_often() {
    let (found, _) = count(5_000, 1.0 / 0.9, modelled, Verdict::Better);
    assert!(found >= 950, "seeds from 5000: {found} of {TRIALS}");
}

#[test]
fn the_recommended_number_of_pairs_makes_the_interval_narrow_enough() {
    let width = |it: &Comparison| {
        let metric = &it.metrics[0];
        (metric.high.unwrap() / metric.low.unwrap()).ln() / 2.0
    };
    let (mut narrow, mut said) = (Vec::new(), 0);
    for seed in 0..8 {
        let Some(needed) = trial(seed, PAIRS, 1.0, modelled).metrics[0].pairs_needed else { continue };
        said += 1;
        narrow.push(width(&trial(seed + 100, needed as usize, 1.0, modelled)) / 1.03f64.ln());
    }
    narrow.sort_by(f64::total_cmp);
    let median = narrow[narrow.len() / 2];
    assert!(
        said >= 6 && (0.75..1.15).contains(&median),
        "seeds 0 to 7: {said} named a number of pairs; the median width is {median} of the required one"
    );
}

#[test]
fn drift_of_the_machine_widens_the_required_difference_up_to_the_noise_of_the_pairs() {
    let it = trial(1, PAIRS, 1.0, modelled);
    let metric = &it.metrics[0];
    let must_show = metric.must_show.unwrap();
    let own = it.noise.null_server.unwrap().ln_1p() / (PAIRS as f64).sqrt();
    assert!(must_show > 0.03 && must_show <= (1.03f64.ln() + own).exp_m1() + 1e-12, "seed 1: {must_show}");
}
