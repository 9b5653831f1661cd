//! Prints the result as text or JSON.

use std::fmt::Write;

use plimsoll_host::machine;
use serde_json::{Value, json};

use crate::arguments::{CONNECTIONS, Plan};
use crate::rounds::{Cost, Measured, Row};
use crate::tool::Tool;

/// The goal for the cost of a request of this client, in µs of CPU.
const GOAL_US: f64 = 8.0;

/// A median with its extremes.
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(costs: &[Cost], value: impl Fn(&Cost) -> f64) -> Self {
        let mut values: Vec<f64> = costs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { median: f64::midpoint(at(last / 2), at(last.div_ceil(2))), min: at(0), max: at(last) }
    }

    fn json(&self) -> Value {
        json!({"median": self.median, "min": self.min, "max": self.max})
    }
}

fn cpu_us(row: &Row) -> Spread {
    Spread::of(&row.costs, |cost| cost.cpu_ns as f64 / 1000.0 / cost.requests as f64)
}

fn per_s(row: &Row) -> Spread {
    Spread::of(&row.costs, |cost| cost.requests as f64 * 1e9 / cost.wall_ns as f64)
}

fn ours(measured: &Measured) -> f64 {
    let row = measured.rows.iter().find(|row| row.tool == Tool::Plimsoll);
    row.map_or(f64::NAN, |row| cpu_us(row).median)
}

/// The table as text.
pub(crate) fn table(plan: &Plan, measured: &Measured) -> String {
    let mut out = String::new();
    let machine = machine::environment(&std::env::temp_dir());
    let cpu = machine.cpu.as_deref().unwrap_or("unknown");
    let kernel = machine.kernel.as_deref().unwrap_or("unknown");
    let build = if machine.optimised { "" } else { "; NOT optimised: these figures mean nothing" };
    line(&mut out, format_args!("server   the null HTTP server, in the process that measures, one thread"));
    line(&mut out, format_args!("machine  {cpu}, {} cores, Linux {kernel}{build}", machine.cores));
    let seconds = plan.millis as f64 / 1000.0;
    line(&mut out, format_args!("load     GET / on {CONNECTIONS} connections, closed, {seconds} s a round"));
    line(&mut out, format_args!("rounds   {}, median (least to most)\n", plan.rounds));
    line(&mut out, format_args!("{:<24}{:>14}{:>28}", "", "CPU µs a request", "requests/s"));
    for row in &measured.rows {
        let (cpu, rate) = (cpu_us(row), per_s(row));
        let spread = format!("({:.2} to {:.2})", cpu.min, cpu.max);
        let rates = format!("({:.0} to {:.0})", rate.min, rate.max);
        line(
            &mut out,
            format_args!(
                "  {:<22}{:>8.2}  {spread:<18}{:>10.0}  {rates}",
                shown(&row.version),
                cpu.median,
                rate.median
            ),
        );
    }
    for tool in &measured.absent {
        line(&mut out, format_args!("  {:<22}not installed: {}", tool.name(), tool.hint()));
    }
    let verdict = if ours(measured) <= GOAL_US { "met" } else { "missed" };
    line(&mut out, format_args!("\ngoal: {GOAL_US} µs a request: {:.2}, {verdict}", ours(measured)));
    out
}

/// A shortened version.
fn shown(version: &str) -> String {
    version.chars().take(21).collect()
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

/// The same result as JSON.
pub(crate) fn json(plan: &Plan, measured: &Measured) -> Value {
    let row = |row: &Row| {
        json!({
            "tool": row.tool.name(), "version": row.version, "cpu_us_per_request": cpu_us(row).json(),
            "requests_per_s": per_s(row).json(),
        })
    };
    json!({
        "machine": machine::environment(&std::env::temp_dir()), "connections": CONNECTIONS, "rounds": plan.rounds,
        "seconds_per_round": plan.millis as f64 / 1000.0, "tools": measured.rows.iter().map(row).collect::<Vec<_>>(),
        "absent": measured.absent.iter().map(|tool| tool.name()).collect::<Vec<_>>(),
        "goal_us": GOAL_US, "met": ours(measured) <= GOAL_US,
    })
}
