//! Writes the conclusions on the load line, the bottleneck and the ladder.

use plimsoll_measure::ladder::Scalability;
use plimsoll_measure::line::{Candidate, Drift, Line, Probe, Unchecked};
use plimsoll_measure::run::{Bottleneck, Run};

use crate::derived::{SAME, arrivals, doubt, estimated_interval, is_estimate, judged, objective, probes_at};
use crate::prose::{joined, phase, sentence};
use crate::units::{duration, exact_rate, percent, short, small, three_digits};

/// The line with its interval, objective and bottleneck, and the open questions of the search.
pub(super) fn line(run: &Run) -> Vec<String> {
    let Some(line) = &run.line else { return Vec::new() };
    let mut sentences = match line.rate {
        Some(rate) if is_estimate(line) => vec![estimate(line, rate)],
        _ => vec![bracket(line)],
    };
    sentences.extend(failed_within(line).filter(|_| !is_estimate(line)));
    sentences.extend(line.drift.map(|drift| drifted(line, drift)));
    sentences.extend(line.soak.iter().map(|soak| soaked(line, soak)));
    sentences.extend(background(line));
    if let Some(rate) = line.rate {
        sentences.extend(in_operations(line, rate));
        sentences.extend(bottleneck(line));
        sentences.extend(unchecked(&line.unchecked));
    }
    sentences.extend(line.notes.iter().map(|note| sentence(note)));
    sentences
}

/// The estimate with its interval; a lower bound if no rate failed.
fn estimate(line: &Line, rate: f64) -> String {
    let (rate, unit, of) = (exact_rate(rate), &line.unit, of(line));
    let Some(interval) = estimated_interval(line) else {
        return format!("The load line{of} is at least {rate} {unit}: no rate that was tried failed.");
    };
    let objective = match line.objective.as_slice() {
        [] => "its objective".to_owned(),
        _ => format!("the objective ({})", objective(line)),
    };
    let arrivals = arrivals(line).map(|arrivals| format!(", with {arrivals} arrivals")).unwrap_or_default();
    format!(
        "The load line{of} is {rate} {unit}, {interval}: the rate at which {objective} just holds on average{arrivals}."
    )
}

/// The change of the load line during the search.
fn drifted(line: &Line, drift: Drift) -> String {
    let stored = if line.unit == "requests/s" { "requests answered" } else { "documents stored" };
    let (first, second) = match drift.documents_first.zip(drift.documents_second) {
        Some((first, second)) => {
            let [first, second] = [first, second].map(|count| short(count as f64));
            (format!(" (about {first} {stored})"), format!(" (about {second})"))
        }
        None => <(String, String)>::default(),
    };
    format!(
        "The load line moved during the search: {} {} in its first half{first}, {} in its second{second}.",
        exact_rate(drift.first),
        line.unit,
        exact_rate(drift.second)
    )
}

/// Whether the long load after the search held.
fn soaked(line: &Line, soak: &Probe) -> String {
    let share = line.rate.map(|rate| format!(", {:.0} % of the line,", soak.rate / rate * 100.0));
    let share = share.unwrap_or_default();
    let load = format!("Afterwards {} {}{share}", exact_rate(soak.rate), line.unit);
    let time = duration(soak.window_s);
    match (soak.held, soak.reasons.as_slice()) {
        (true, _) => format!("{load} held the objective over {time}."),
        (false, []) => format!("{load} did not hold the objective over {time}."),
        (false, reasons) => format!("{load} did not hold the objective over {time}: {}.", reasons.join("; ")),
    }
}

/// The bracket of an older file, or the sentence that no rate held.
fn bracket(line: &Line) -> String {
    let (unit, objective, of) = (&line.unit, objective(line), of(line));
    match (line.rate, line.low, line.high) {
        (None, _, None) => format!("No load line{of} was found: no rate that was tried held {objective}."),
        (None, _, Some(high)) => format!(
            "No load line{of} was found: no rate that was tried held {objective}, and {} {unit}, the lowest, {}.",
            exact_rate(high),
            Trials::of(line, high).failed()
        ),
        (Some(rate), _, None) => format!(
            "The load line{of} is at least {} {unit}: that rate {} to hold {objective}, and no rate that was tried failed.",
            exact_rate(rate),
            established(line)
        ),
        (Some(rate), low, Some(high)) => {
            let low = low.unwrap_or(rate);
            format!(
                "The load line{of} is {} {unit}: the highest rate that {} to hold {objective}. It lies between {}, which {}, \
                 and {}, which {}.",
                exact_rate(rate),
                established(line),
                exact_rate(low),
                Trials::of(line, low).held(),
                exact_rate(high),
                Trials::of(line, high).failed()
            )
        }
    }
}

/// The lowest rate that failed, if it lies inside the interval. Then that rate or a higher one also held.
fn failed_within(line: &Line) -> Option<String> {
    let lowest = failed_between(line)?;
    let failed = Trials::of(line, lowest).failed();
    Some(format!("The lowest rate that failed is {}, which {failed}.", exact_rate(lowest)))
}

/// ` of ` and the load of the line; empty without a load.
fn of(line: &Line) -> String {
    if line.load.is_empty() { String::new() } else { format!(" of {}", line.load) }
}

/// The background loads, if there were any.
fn background(line: &Line) -> Option<String> {
    let background = line.background.join("; ");
    (!background.is_empty()).then(|| {
        format!(
            "Background load: {background}. It had to keep up without errors; its latency was not judged."
        )
    })
}

/// The certainty of the load line of an older file, in words.
fn established(line: &Line) -> &'static str {
    if doubt(line).is_none() { "was confirmed" } else { "was found, but not confirmed," }
}

fn in_operations(line: &Line, rate: f64) -> Option<String> {
    let documents = line.documents_per_operation;
    (documents > 1.0 && line.unit == "documents/s").then(|| {
        format!(
            "In operations of {} documents each that is {} operations/s.",
            exact_rate(documents),
            exact_rate(rate / documents)
        )
    })
}

fn bottleneck(line: &Line) -> Option<String> {
    match line.bottlenecks.as_slice() {
        [] if line.high.is_none() => None,
        [] => Some("No bottleneck was found.".to_owned()),
        [Candidate { name, evidence, .. }] => Some(format!("Bottleneck: {name}: {evidence}.")),
        several => {
            let list = joined(several, "; ", |it| format!("{}: {}", it.name, it.evidence));
            Some(format!("Possible bottlenecks, most likely first: {list}."))
        }
    }
}

/// The resources at their limit in the last phase, or the reason why they were not assessed.
pub(super) fn run_bottleneck(run: &Run) -> Vec<String> {
    run.bottleneck.iter().flat_map(|it| assessed(run, it)).collect()
}

fn assessed(run: &Run, bottleneck: &Bottleneck) -> Vec<String> {
    let name = phase(&bottleneck.phase);
    if let Some(reason) = &bottleneck.reason {
        return vec![format!("{name}: bottleneck not assessed: {reason}.")];
    }
    let found = if bottleneck.at_limit.is_empty() {
        let is_open = run.phases.iter().any(|it| it.name == bottleneck.phase && it.open);
        format!("{name}: no bottleneck found{}.", if is_open { "" } else { "; try more writers" })
    } else {
        format!(
            "{name}: bottleneck: perhaps {}, at its limit under load. `plimsoll line` compares with a rate that holds.",
            joined(&bottleneck.at_limit, " or ", |it| format!("{} ({})", it.name, it.evidence))
        )
    };
    std::iter::once(found).chain(unchecked(&bottleneck.unchecked)).collect()
}

/// Resources that were not checked, grouped by reason. Each may be the bottleneck.
fn unchecked(resources: &[Unchecked]) -> Option<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for Unchecked { name, reason } in resources {
        match groups.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    let groups = joined(&groups, "; ", |(reason, names)| format!("{} ({reason})", names.join(", ")));
    (!groups.is_empty()).then(|| format!("Not checked: {groups}."))
}

/// The conclusions of a ladder.
pub(super) fn ladder(run: &Run) -> Vec<String> {
    let Some(ladder) = &run.ladder else { return Vec::new() };
    let law = ladder.scalability.iter().map(|law| scalability(law, &ladder.unit));
    let note = ladder.note.iter().map(|note| format!("No scalability law fits the ladder: {note}."));
    law.chain(note).collect()
}

/// The growth of throughput with concurrency.
fn scalability(law: &Scalability, unit: &str) -> String {
    let fit = format!(
        "One operation at a time does {} {unit}, and throughput follows the universal scalability law (contention {}, \
         coherency {}, R² {:.3})",
        exact_rate(law.lambda),
        percent(law.sigma),
        small(law.kappa),
        law.r_squared
    );
    match (law.peak, law.bound) {
        (Some(peak), _) => {
            let at = three_digits(peak.concurrency);
            let most = exact_rate(peak.throughput);
            let seen = if law.is_peak_beyond() { ", which is beyond the measured range" } else { "" };
            format!("{fit}: it is highest at {at} operations in flight{seen}, with {most} {unit}.")
        }
        (None, Some(bound)) => format!("{fit}: it never falls and stays under {} {unit}.", exact_rate(bound)),
        (None, None) => format!("{fit}: it grows in proportion, and no peak follows from the measurement."),
    }
}

/// The judged trials of one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Trials {
    held: u64,
    failed: u64,
}

impl Trials {
    /// The trials of `rate` in `line`.
    fn of(line: &Line, rate: f64) -> Self {
        probes_at(line, rate).fold(Self::default(), |trials, probe| Self {
            held: trials.held + u64::from(probe.held),
            failed: trials.failed + u64::from(!probe.held),
        })
    }

    /// The number of trials that held: `held all 3 times it was tried`.
    fn held(self) -> String {
        times("held", self.held, self.held + self.failed)
    }

    /// The number of trials that failed: `failed in 2 of the 3 times it was tried`.
    fn failed(self) -> String {
        times("failed", self.failed, self.held + self.failed)
    }
}

/// The lowest rate that failed, if it lies inside the interval.
fn failed_between(line: &Line) -> Option<f64> {
    let (low, high) = (line.low?, line.high?);
    let failed = judged(line).filter(|probe| !probe.held).map(|probe| probe.rate);
    let lowest = failed.min_by(f64::total_cmp)?;
    (lowest > low * (1.0 + SAME) && lowest < high * (1.0 - SAME)).then_some(lowest)
}

fn times(verb: &str, count: u64, trials: u64) -> String {
    match (count, trials) {
        (_, 0) => verb.to_owned(),
        (1, 1) => format!("{verb} the one time it was tried"),
        (all, trials) if all == trials => format!("{verb} all {trials} times it was tried"),
        (some, trials) => format!("{verb} in {some} of the {trials} times it was tried"),
    }
}
