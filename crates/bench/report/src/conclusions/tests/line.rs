//! Checks the conclusions on load lines and ladders.

use super::*;

#[test]
fn an_estimate_has_its_interval_its_objective_and_its_arrivals() {
    check(
        |run| run.line = Some(Line { load: "insert".into(), ..estimate(47_225.0, Some(50_300.0)) }),
        &[
            "The load line of insert is 47,225 documents/s, 90 % interval 44,864 to 50,300: the rate at which the objective \
             (p99 response < 50 ms and no errors) just holds on average, with Poisson arrivals.",
            "No bottleneck was found.",
        ],
    );
    check(
        |run| {
            let arrivals = Some("constant".into());
            run.line = Some(Line { arrivals, objective: Vec::new(), ..estimate(1_000.0, Some(1_100.0)) });
        },
        &[
            "The load line is 1,000 documents/s, 90 % interval 950 to 1,100: the rate at which its objective just holds on \
             average, with constant arrivals.",
            "No bottleneck was found.",
        ],
    );
}

#[test]
fn an_estimate_without_a_failed_rate_is_a_lower_bound() {
    check(
        |run| run.line = Some(estimate(47_225.0, None)),
        &["The load line is at least 47,225 documents/s: no rate that was tried failed."],
    );
}

#[test]
fn a_rate_that_failed_within_the_interval_of_an_estimate_needs_no_sentence() {
    let mut line = estimate(1_000.0, Some(1_100.0));
    line.probes.push(Probe { stage: Stage::Estimate, rate: 990.0, excess: Some(3.0), ..Probe::default() });
    check(
        |run| run.line = Some(line),
        &[
            "The load line is 1,000 documents/s, 90 % interval 950 to 1,100: the rate at which the objective (p99 response < \
             50 ms and no errors) just holds on average, with Poisson arrivals.",
            "No bottleneck was found.",
        ],
    );
}

#[test]
fn a_load_line_that_moved_is_given_for_both_halves_of_the_search() {
    let drift = Drift { first: 52_000.0, second: 45_000.0, ..Drift::default() };
    let counted = Drift { documents_first: Some(1_200_000), documents_second: Some(4_523_118), ..drift };
    for (drift, unit, sentence) in [
        (
            counted,
            "documents/s",
            "The load line moved during the search: 52,000 documents/s in its first half (about 1.20 M documents stored), \
             45,000 in its second (about 4.52 M).",
        ),
        (
            counted,
            "requests/s",
            "The load line moved during the search: 52,000 requests/s in its first half (about 1.20 M requests answered), \
             45,000 in its second (about 4.52 M).",
        ),
        (
            drift,
            "documents/s",
            "The load line moved during the search: 52,000 documents/s in its first half, 45,000 in its second.",
        ),
    ] {
        let line = Line { drift: Some(drift), unit: unit.into(), ..estimate(47_000.0, None) };
        let headline = format!("The load line is at least 47,000 {unit}: no rate that was tried failed.");
        check(|run| run.line = Some(line), &[&headline, sentence]);
    }
}

#[test]
fn a_soak_says_whether_the_objective_held_over_its_time() {
    let soak = |held, reasons| Probe {
        stage: Stage::Soak,
        rate: 900.0,
        window_s: 600.0,
        held,
        reasons,
        ..Probe::default()
    };
    for (soak, sentence) in [
        (
            soak(true, Vec::new()),
            "Afterwards 900 documents/s, 90 % of the line, held the objective over 10 min 0 s.",
        ),
        (
            soak(false, vec!["3 errors".into()]),
            "Afterwards 900 documents/s, 90 % of the line, did not hold the objective over 10 min 0 s: 3 errors.",
        ),
    ] {
        let line = Line { soak: Some(soak), ..estimate(1_000.0, None) };
        let headline = "The load line is at least 1,000 documents/s: no rate that was tried failed.";
        check(|run| run.line = Some(line), &[headline, sentence]);
    }
}

#[test]
fn an_older_load_line_has_its_interval_and_its_objective() {
    check(
        |run| run.line = Some(line(Some(163_000.0), Some(171_000.0))),
        &[
            "The load line is 163,000 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
             and no errors. It lies between 163,000, which held all 3 times it was tried, and 171,000, which failed all 3 times it was tried.",
            "No bottleneck was found.",
        ],
    );
}

#[test]
fn a_load_line_of_batches_is_given_in_operations_too() {
    check(
        |run| {
            let candidate = candidate("server CPU", "1.97 of 2 cores");
            let line = line(Some(163_000.0), None);
            run.line = Some(Line { documents_per_operation: 1000.0, bottlenecks: vec![candidate], ..line });
        },
        &[
            "The load line is at least 163,000 documents/s: that rate was confirmed to hold p99 response < 50 ms and \
             no errors, and no rate that was tried failed.",
            "In operations of 1,000 documents each that is 163 operations/s.",
            "Bottleneck: server CPU: 1.97 of 2 cores.",
        ],
    );
}

#[test]
fn the_load_that_was_searched_is_named_with_its_background_loads() {
    check(
        |run| {
            let background = ["feed (constant 200/s over 50 connections)", "hours (closed, 2 writers)"];
            let background = background.map(str::to_owned).to_vec();
            let line = line(Some(1_000.0), None);
            run.line = Some(Line { load: "ingest".into(), background, unit: "requests/s".into(), ..line });
        },
        &[
            "The load line of ingest is at least 1,000 requests/s: that rate was confirmed to hold p99 response < 50 ms \
             and no errors, and no rate that was tried failed.",
            "Background load: feed (constant 200/s over 50 connections); hours (closed, 2 writers). It had to keep up \
             without errors; its latency was not judged.",
        ],
    );
}

#[test]
fn several_suspects_are_listed_and_notes_are_kept() {
    check(
        |run| {
            let bottlenecks = vec![candidate("wake", "p99 2 ms"), candidate("client CPU", "98 % of a core")];
            let notes = vec!["no full checkpoint cycle fell into the search".into()];
            run.line = Some(Line { bottlenecks, notes, ..line(Some(1_000.0), Some(1_100.0)) });
        },
        &[
            "The load line is 1,000 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
             and no errors. It lies between 1,000, which held all 3 times it was tried, and 1,100, which failed all 3 times it was tried.",
            "Possible bottlenecks, most likely first: wake: p99 2 ms; client CPU: 98 % of a core.",
            "No full checkpoint cycle fell into the search.",
        ],
    );
}

#[test]
fn unchecked_resources_are_listed_by_reason() {
    check(
        |run| {
            let unseen = |name: &str, reason: &str| Unchecked { name: name.into(), reason: reason.into() };
            let local = "not reported: it can be seen only where the server runs on this machine";
            let unchecked = vec![
                unseen("server CPU", local),
                unseen("tickets", "not reported"),
                unseen("flow control", "not reported"),
                unseen("disk", local),
            ];
            run.line = Some(Line { unchecked, ..line(Some(1_000.0), Some(1_100.0)) });
        },
        &[
            "The load line is 1,000 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
             and no errors. It lies between 1,000, which held all 3 times it was tried, and 1,100, which failed all 3 times it was tried.",
            "No bottleneck was found.",
            "Not checked: server CPU, disk (not reported: it can be seen only \
             where the server runs on this machine); tickets, flow control (not reported).",
        ],
    );
}

#[test]
fn a_scalability_law_has_its_peak_or_its_bound() {
    let law = |peak, bound: Option<f64>, measured| Scalability {
        lambda: 995.0,
        sigma: 0.0267,
        kappa: if bound.is_some() { 0.0 } else { 0.000_77 },
        r_squared: 0.9961,
        peak,
        bound,
        points: vec![Point { concurrency: measured, throughput: 9_000.0 }],
    };
    let fit = |kappa: &str| -> String {
        format!(
            "One operation at a time does 995 documents/s, and throughput follows the universal scalability law \
             (contention 2.6 %, coherency {kappa}, R² 0.996): it "
        )
    };
    let peak = Some(Peak { concurrency: 35.5, throughput: 12_332.0 });
    for (law, sentence) in [
        (
            law(peak, None, 64.0),
            fit("0.00077") + "is highest at 35.5 operations in flight, with 12,332 documents/s.",
        ),
        (
            law(peak, None, 32.0),
            fit("0.00077")
                + "is highest at 35.5 operations in flight, which is beyond the measured range, with 12,332 documents/s.",
        ),
        (law(None, Some(37_266.0), 32.0), fit("0") + "never falls and stays under 37,266 documents/s."),
    ] {
        let ladder = Ladder { unit: "documents/s".into(), scalability: Some(law), ..Ladder::default() };
        check(|run| run.ladder = Some(ladder), &[&sentence]);
    }
}

#[test]
fn a_line_that_was_not_confirmed_is_not_called_confirmed() {
    check(
        |run| {
            let mut line = line(Some(1_000.0), Some(1_100.0));
            line.confirmed = Some(false);
            line.probes[0].held = false;
            line.probes.truncate(4);
            run.line = Some(line);
        },
        &[
            "The load line is 1,000 documents/s: the highest rate that was found, but not confirmed, to hold p99 \
             response < 50 ms and no errors. It lies between 1,000, which held in 2 of the 3 times it was tried, \
             and 1,100, which failed the one time it was tried.",
            "No bottleneck was found.",
        ],
    );
}

#[test]
fn a_rate_that_failed_inside_the_interval_is_reported() {
    check(
        |run| {
            let mut line = line(Some(40_500.0), Some(43_699.0));
            let failed = |rate| Probe { stage: Stage::Estimate, rate, ..Probe::default() };
            line.probes.extend([failed(42_606.0), failed(40_577.0)]);
            run.line = Some(line);
        },
        &[
            "The load line is 40,500 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
             and no errors. It lies between 40,500, which held all 3 times it was tried, and 43,699, which failed all 3 times it was tried.",
            "The lowest rate that failed is 40,577, which failed the one time it was tried.",
            "No bottleneck was found.",
        ],
    );
}

#[test]
fn a_missing_load_line_is_reported() {
    check(
        |run| run.line = Some(line(None, Some(500.0))),
        &["No load line was found: no rate that was tried held p99 response < 50 ms and no errors, and 500 \
           documents/s, the lowest, failed all 3 times it was tried."],
    );
}
