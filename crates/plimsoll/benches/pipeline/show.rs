//! Formats the table as text: ratios first.

use std::fmt::Write;

use plimsoll_measure::matrix::Spread;

use crate::figures::{Figures, Held, Line};
use crate::row::Measured;
use crate::steady::Steady;
use crate::testbed::Testbed;

/// The header of the table.
pub(crate) fn head(testbed: &Testbed, rounds: usize) -> String {
    let mut out = String::new();
    for (what, value) in testbed.facts() {
        line(&mut out, format_args!("{what:<10}{value}"));
    }
    line(&mut out, format_args!("{:<10}{rounds}, median (least to most)", "rounds"));
    out
}

/// Formats a row.
pub(crate) fn row(measured: &Measured) -> String {
    let figures = Figures::of(measured);
    let mut out = String::new();
    line(&mut out, format_args!("\n{}\n  {}", measured.title, measured.setup));
    line(
        &mut out,
        format_args!(
            "  {:<42}{:>22}{:>32}{:>10}{:>9}{:>11}{:>14}",
            "", "ratio", "events/s", "CPU ns", "× CPU", "CPU ns +", "events/core/s"
        ),
    );
    for (((name, _), figures), remark) in measured.subjects.iter().zip(&figures.lines).zip(&measured.remarks)
    {
        line(&mut out, format_args!("  {name:<42}{}", cells(figures)));
        remark.iter().for_each(|remark| line(&mut out, format_args!("    {remark}")));
    }
    for it in &measured.published {
        let (name, ours) = (&measured.subjects[it.subject].0, figures.lines[it.subject].per_s.median);
        let ratio = ours / it.per_s;
        line(
            &mut out,
            format_args!("  beside {name}: {:.0} events/s of {}; here {ratio:.2} × that", it.per_s, it.of),
        );
    }
    figures.goals.iter().for_each(|goal| line(&mut out, format_args!("  {}", words(goal))));
    out
}

fn cells(figures: &Line) -> String {
    let Line { ratio, per_s, per_cpu_s, cpu_ns, cpu_ratio, cpu_more_ns, .. } = figures;
    format!(
        "{:>22}{:>32}{:>10.0}{:>9.2}{:>11.0}{:>14.0}{}",
        spread(ratio, 3),
        spread(per_s, 0),
        cpu_ns.median,
        cpu_ratio.median,
        cpu_more_ns.median,
        per_cpu_s.median,
        besides(figures),
    )
}

/// Figures that only some subjects have.
fn besides(figures: &Line) -> String {
    let Line { stored_bytes, later_half, p999_ns, .. } = figures;
    let stored = stored_bytes.map_or(String::new(), |bytes| format!("  {bytes:.0} bytes stored"));
    let warm = later_half.map_or(String::new(), |it| format!("  later half at {:.2} ×", it.median));
    let slowest = |what: &str, p999: &Option<Spread>| {
        p999.as_ref().map_or(String::new(), |ns| format!("  {what} p99.9 {:.2} ms", ns.median / 1e6))
    };
    stored + &warm + &slowest("sink", &p999_ns[0]) + &slowest("delivery", &p999_ns[1])
}

fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { median, min, max, .. } = spread;
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
}

fn words(goal: &Held) -> String {
    let Held { words, measured, met, rounds_held, rounds } = goal;
    let verdict = if *met { "met" } else { "missed" };
    let measured = spread(measured, if measured.median < 1000.0 { 3 } else { 0 });
    format!("goal: {words}: {measured}, {verdict}; it held in {rounds_held} of {rounds} rounds")
}

/// The lines about the steady run.
pub(crate) fn steady(steady: &Steady) -> String {
    let mut out = String::new();
    line(&mut out, format_args!("\nSteady: Kafka → MongoDB, effectively once, {} s", steady.seconds));
    line(&mut out, format_args!("  {}", steady.setup));
    line(
        &mut out,
        format_args!(
            "  {} records written to the topic, and the same number of documents in the collection",
            steady.sent
        ),
    );
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let verdict = if steady.memory.is_flat() { "flat" } else { "NOT flat" };
    line(
        &mut out,
        format_args!(
            "  resident memory, without the first {} s: {:.1} MiB in the first tenth, {:.1} in the last ({:.1} to {:.1}), slope \
             {:+.2} MiB a minute: {verdict}",
            steady.memory.skipped_s,
            mib(steady.memory.first),
            mib(steady.memory.last),
            mib(steady.memory.min),
            mib(steady.memory.max),
            mib(steady.memory.slope_per_minute)
        ),
    );
    let ms = |ns: u64| ns as f64 / 1e6;
    for stage in &steady.stages {
        line(
            &mut out,
            format_args!(
                "  {:<10} p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, most {:.1} ms",
                stage.name,
                ms(stage.p50_ns),
                ms(stage.p99_ns),
                ms(stage.p999_ns),
                ms(stage.max_ns)
            ),
        );
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}
