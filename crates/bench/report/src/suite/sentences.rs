//! Writes the progress lines and conclusions of a suite.

use plimsoll_measure::clock::utc;
use plimsoll_measure::suite::{Delta, Extreme, Outcome, Planned, Row, Suite, Test};

use crate::layout::{Width, wrap};
use crate::tables::Tone;
use crate::units::{counted, duration, exact, exact_rate, latency, percent, small, three_digits};

/// The heading of the next run: its number and its row.
pub fn heading(suite: &Suite, planned: &Planned, width: Width) -> Vec<String> {
    let test = suite.tests.iter().find(|test| test.name == planned.test);
    let round = test
        .filter(|test| test.repetitions > 1)
        .map(|test| format!(", {} of {}", planned.repetition, test.repetitions));
    let head =
        format!("\n[{}/{}] {}{}", planned.number, suite.runs.len(), planned.test, round.unwrap_or_default());
    let said = test.map(|test| {
        let what = format!("{} {}", test.kind.name(), test.what);
        let all: Vec<_> = std::iter::once(what).chain(test.settings.iter().cloned()).collect();
        wrap(&all.join("  "), "  test      ", width)
    });
    std::iter::once(head).chain(said.into_iter().flatten()).collect()
}

/// The progress of a run: `name` is the process, `done` a count with its unit, `idle` the checks without progress.
pub fn progress(name: &str, elapsed_s: f64, done: (u64, &str), rate_per_s: f64, idle: u32) -> String {
    let (count, unit) = done;
    let stuck =
        if idle > 0 { format!("; no progress at {}", counted(idle.into(), "check")) } else { String::new() };
    format!(
        "  {name:<9} {}: {} {unit}, {}/s since the last check{stuck}",
        duration(elapsed_s),
        exact(count),
        exact_rate(rate_per_s)
    )
}

/// The result of a run.
pub fn ended(row: &Row, width: Width) -> Vec<String> {
    let mut parts = vec![row.outcome.name().to_uppercase()];
    parts.extend(row.measured.as_ref().map(|it| format!("{} {}/s", exact_rate(it.rate_per_s), it.unit)));
    let p99 = row.measured.as_ref().and_then(|it| it.p99_ns);
    parts.extend(p99.map(|p99| format!("p99 {}", latency(p99))));
    parts.extend(row.measured.as_ref().and_then(|it| it.lost).map(|lost| format!("{} lost", exact(lost))));
    parts.push(format!("from={} to={}", row.from_ms, row.to_ms));
    let mut lines = wrap(&parts.join("  "), "  ended     ", width);
    lines.extend(row.reason.iter().flat_map(|reason| wrap(reason, "            ", width)));
    lines
}

/// The facts that identify a suite.
pub(super) fn facts(suite: &Suite) -> Vec<String> {
    let made = suite.rows.iter().filter(|row| row.is_final()).count();
    let machine = &suite.environment;
    let cores = counted(machine.cores.into(), "core");
    let cpu = machine.cpu.as_ref().map(|cpu| format!("{cpu}, {cores}"));
    let mut facts =
        vec![suite.name.clone(), suite.started.clone(), format!("{made} of {} runs", suite.runs.len())];
    facts.extend(cpu);
    facts
}

/// Whether the suite is complete, and the numbers of runs that did not complete.
pub(super) fn headline(suite: &Suite) -> (String, Tone) {
    let count = |outcome| suite.rows.iter().filter(|row| row.outcome == outcome).count();
    let others = Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Completed);
    let shares: Vec<_> = others
        .filter(|outcome| count(*outcome) > 0)
        .map(|it| format!("{} {}", count(it), it.name()))
        .collect();
    let bad = count(Outcome::Failed) + count(Outcome::Hung) > 0;
    let word = if suite.complete { "COMPLETE" } else { "NOT COMPLETE" };
    let tone = match (bad, suite.complete) {
        (true, _) => Tone::Bad,
        (false, true) => Tone::Good,
        (false, false) => Tone::Doubtful,
    };
    if shares.is_empty() { (word.to_owned(), tone) } else { (format!("{word}, {}", shares.join(", ")), tone) }
}

/// The conclusions of the cost stack.
pub(super) fn conclusions(suite: &Suite) -> Vec<String> {
    let extreme = |wanted| suite.tests.iter().find(|test| test.extreme == wanted);
    let mut said = Vec::new();
    if let (Some(floor), Some(ceiling)) = (extreme(Extreme::Floor), extreme(Extreme::Ceiling)) {
        said.extend(extremes(floor, ceiling));
    }
    let down = suite.tests.iter().filter_map(|test| Some((test, test.delta.as_ref()?)));
    let down: Vec<_> = down.filter(|(_, delta)| delta.ratio < 1.0).collect();
    let dearest = down.iter().min_by(|one, other| one.1.ratio.total_cmp(&other.1.ratio));
    said.extend(dearest.map(|(test, delta)| step("Largest drop", test, delta)));
    // The last step of a stack answers its question.
    let last = down.iter().find(|(test, _)| suite.tests.last().is_some_and(|last| last.name == test.name));
    let last = last.filter(|(test, _)| dearest.is_some_and(|(dearest, _)| dearest.name != test.name));
    said.extend(last.map(|(test, delta)| step("Last step", test, delta)));
    if suite.tests.iter().any(|test| test.delta.is_some()) {
        said.push(
            "Ratios of medians are not verdicts: with 8 or more repetitions, compare two rows A and B with plimsoll compare \
             DIR/*-A-r* --with DIR/*-B-r*."
                .to_owned(),
        );
    }
    said
}

/// Sources of the published rates that the suite's file gives.
pub(super) fn references(suite: &Suite) -> Vec<String> {
    let mut sources: Vec<&str> =
        suite.tests.iter().filter_map(|test| Some(test.reference.as_ref()?.of.as_str())).collect();
    sources.sort_unstable();
    sources.dedup();
    let of = |of: &str| {
        let tests = suite.tests.iter().filter(|test| test.reference.as_ref().is_some_and(|it| it.of == of));
        let names: Vec<_> = tests.map(|test| test.name.as_str()).collect();
        format!(
            "Reference of {}: {of}. It was not measured here: a ratio to it is not a verdict.",
            names.join(", ")
        )
    };
    sources.into_iter().map(of).collect()
}

/// A step between two tests and its cost.
fn step(which: &str, test: &Test, delta: &Delta) -> String {
    let (less, more) = (percent(1.0 - delta.ratio), microseconds(delta.cost_us));
    format!("{which}: from {} to {}: {less} slower, added time {more}.", delta.above, test.name)
}

fn extremes(floor: &Test, ceiling: &Test) -> Option<String> {
    let (low, high) = (floor.figures.as_ref()?, ceiling.figures.as_ref()?);
    Some(format!(
        "The floor is {} with {} {}/s; the ceiling is {} with {}, {} times that.",
        floor.name,
        exact_rate(low.rate_per_s.median),
        low.unit,
        ceiling.name,
        exact_rate(high.rate_per_s.median),
        three_digits(high.rate_per_s.median / low.rate_per_s.median)
    ))
}

/// A change of a rate with its sign: `−362,000`.
pub(super) fn change(per_s: f64) -> String {
    let sign = if per_s < 0.0 { "−" } else { "+" };
    format!("{sign}{}", exact_rate(per_s.abs()))
}

/// Microseconds with the suitable unit, and a sign if negative.
pub(super) fn microseconds(us: f64) -> String {
    let size = latency((us.abs() * 1000.0).round() as u64);
    if us < 0.0 { format!("−{size}") } else { size }
}

/// A ratio with three significant digits at any size.
pub(super) fn times(ratio: f64) -> String {
    if ratio < 0.1 { small(ratio) } else { three_digits(ratio) }
}

/// The change from the test above: `× 0.31, −362,000/s`.
pub(super) fn delta(delta: &Delta) -> String {
    format!("× {}, {}/s", times(delta.ratio), change(delta.change_per_s))
}

/// A time in UTC, to the second.
pub(super) fn moment(ms: u64) -> String {
    utc(ms)
}

/// The number of completed runs of a test: `2 of 3`.
pub(super) fn made(suite: &Suite, test: &Test) -> String {
    let completed =
        suite.rows.iter().filter(|row| row.test == test.name && row.outcome == Outcome::Completed).count();
    format!("{completed} of {}", test.repetitions)
}
