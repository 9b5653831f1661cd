//! Prints the result as text or JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::figures::{Bar, Figures, Row, Table};
use crate::place::Testbed;
use crate::rounds::Plan;
use crate::workload::Workload;

/// The tables and the goals as text.
pub(crate) fn table(place: &Testbed, plan: &Plan, figures: &Figures) -> String {
    let mut out = String::new();
    line(&mut out, format_args!("server   {}", place.server));
    line(&mut out, format_args!("machine  {}", machine(place)));
    line(&mut out, format_args!("rounds   {}, median (least to most)", plan.rounds));
    for table in &figures.tables {
        rows(&mut out, table);
    }
    line(&mut out, format_args!("\nthe lean client"));
    for bar in &figures.bars {
        let verdict = if bar.met { "met" } else { "missed" };
        line(&mut out, format_args!("  {:<48}{:>8.3}  {verdict}", bar.claim, bar.measured));
    }
    out
}

fn machine(place: &Testbed) -> String {
    let machine = &place.machine;
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let build = if machine.optimised { "" } else { "; NOT optimised: these figures mean nothing" };
    format!("{}, {} cores, Linux {}{build}", or(&machine.cpu), machine.cores, or(&machine.kernel))
}

fn rows(out: &mut String, table: &Table) {
    let title = match table.workload {
        Workload::Single => "one document a command: CPU µs an operation",
        Workload::Batch => "1000 documents a command: CPU µs a document",
    };
    line(out, format_args!("\n{title:<54}{:>10}{:>14}{:>12}", "× bare", "below driver", "documents/s"));
    for row in &table.rows {
        let Row { client, cpu_us, per_s, times_bare, below_driver } = row;
        let spread = format!("({:.3} to {:.3})", cpu_us.min, cpu_us.max);
        line(
            out,
            format_args!(
                "  {:<18}{:>10.3}  {spread:<22}{:>10.2}{:>14.2}{:>12.0}",
                client.name(),
                cpu_us.median,
                times_bare.median,
                below_driver.median,
                per_s.median
            ),
        );
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

/// The same result as JSON.
pub(crate) fn json(place: &Testbed, plan: &Plan, figures: &Figures) -> Value {
    let tables: Vec<Value> = figures.tables.iter().map(table_json).collect();
    let bars: Vec<Value> = figures.bars.iter().map(bar_json).collect();
    json!({
        "server": place.server, "machine": place.machine, "rounds": plan.rounds, "workloads": tables, "bars": bars,
    })
}

fn table_json(table: &Table) -> Value {
    let rows: Vec<Value> = table.rows.iter().map(row_json).collect();
    json!({
        "workload": table.workload.name(), "documents_per_command": table.workload.documents(), "clients": rows,
    })
}

fn row_json(row: &Row) -> Value {
    json!({
        "client": row.client.name(),
        "cpu_us_per_document": row.cpu_us,
        "documents_per_s": row.per_s,
        "times_bare": row.times_bare,
        "below_driver": row.below_driver,
    })
}

fn bar_json(bar: &Bar) -> Value {
    json!({"claim": bar.claim, "measured": bar.measured, "met": bar.met})
}
