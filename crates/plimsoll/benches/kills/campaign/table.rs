//! Formats the rows as text.

use std::fmt::Write as _;

use super::profile::Wanted;
use super::row::{Found, Row};

/// All rows: those with their guards, the sum of their kills, and those without a guard.
pub fn whole(seed: u64, rows: &[Row]) -> String {
    let (guarded, without): (Vec<_>, Vec<_>) = rows.iter().partition(is_guarded);
    let mut out = format!("seed {seed}\n");
    // Writing to a string does not fail.
    if !guarded.is_empty() {
        let _ = writeln!(out, "\n{}", head("pipeline"));
        guarded.iter().for_each(|row| out.push_str(&format!("{}\n", cells(row))));
        let sum = |of: &dyn Fn(&Row) -> u64| guarded.iter().map(|row| of(row)).sum::<u64>();
        let kills = sum(&|row| row.kills().into());
        let _ = writeln!(
            out,
            "{kills} kills: {} of the engine, {} of the broker, {} of the MongoDB server; {} events",
            sum(&|row| row.engine_kills.into()),
            sum(&|row| row.broker_kills.into()),
            sum(&|row| row.server_kills.into()),
            sum(&|row| row.found.events),
        );
    }
    if !without.is_empty() {
        let _ = writeln!(out, "\n{}", head("without the guard"));
        without.iter().for_each(|row| out.push_str(&format!("{}\n", cells(row))));
    }
    for row in rows.iter().filter(|row| row.trouble.is_some()) {
        let _ = writeln!(out, "\n{}: {}", row.name, row.trouble.as_deref().unwrap_or_default());
    }
    out
}

/// Formats one row.
pub fn line(row: &Row) -> String {
    let Found { events, lost, duplicated, .. } = row.found;
    let (kills, took) = (row.kills(), row.took_s);
    let trouble = row.trouble.as_deref().map(|words| format!(" ({words})")).unwrap_or_default();
    format!(
        "{}: {kills} kills, {events} events, lost {lost}, doubled {duplicated}, {took} s: {}{trouble}",
        row.name,
        verdict(row)
    )
}

fn is_guarded(row: &&Row) -> bool {
    matches!(row.wanted, Wanted::Once | Wanted::AtLeastOnce)
}

fn head(what: &str) -> String {
    format!(
        "{what:<64}{:>8}{:>8}{:>9}{:>10}{:>8}{:>9}{:>9}{:>9}{:>10}{:>7}{:>8}  verdict",
        "engine",
        "broker",
        "MongoDB",
        "events",
        "lost",
        "doubled",
        "strange",
        "altered",
        "by broker",
        "ended",
        "took"
    )
}

fn cells(row: &Row) -> String {
    let Found { events, lost, duplicated, unexpected, altered, broker } = row.found;
    format!(
        "{:<64}{:>8}{:>8}{:>9}{events:>10}{lost:>8}{duplicated:>9}{unexpected:>9}{altered:>9}{broker:>10}{:>7}{:>8}  {}",
        row.says,
        row.engine_kills,
        row.broker_kills,
        row.server_kills,
        row.ends,
        format!("{} s", row.took_s),
        verdict(row)
    )
}

fn verdict(row: &Row) -> &'static str {
    match (is_guarded(&row), row.holds()) {
        (true, true) => "holds",
        (true, false) => "DOES NOT HOLD",
        (false, true) => "noticed",
        (false, false) => "NOT NOTICED",
    }
}
