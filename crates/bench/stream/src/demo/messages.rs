//! Formats the first and the last message of the demonstration.

use std::fmt::Write as _;
use std::time::Duration;

use plimsoll_report::units;
use plimsoll_stores::audit::Report;

use super::play::Played;
use super::script::{Kill, Script};
use super::stage::{COLLECTION, PARTITIONS, Stage, TOPIC};
use crate::audit;

/// What is going to happen.
pub fn begins(script: &Script, stage: &Stage) -> String {
    let kills: Vec<_> = script.kills.iter().map(killed).collect();
    format!(
        "events go into the topic `{TOPIC}` of {} for {}; an effectively-once pipeline moves them to {COLLECTION} of {}; \
         killed on the way: {}",
        stage.broker.bootstrap(),
        units::duration(script.length.as_secs_f64()),
        stage.server.address(),
        kills.join(", "),
    )
}

fn killed((at, kill): &(Duration, Kill)) -> String {
    format!("the {} after {}", kill.word(), units::duration(at.as_secs_f64()))
}

/// What was proven, in a few lines.
pub fn proven(played: &Played, report: &Report) -> String {
    let sum = |of: fn(&plimsoll_stores::audit::PartitionReport) -> u64| {
        report.partitions.iter().map(of).sum::<u64>()
    };
    let (sent, found) = (sum(|one| one.expected), sum(|one| one.found));
    let kills: Vec<_> = played.kills.iter().map(killed).collect();
    let mut out = String::from("\nWhat was proven\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "  {} events went into the topic (partitions: {PARTITIONS}) within {}",
        units::exact(sent),
        units::duration(played.length_ns as f64 / 1e9)
    );
    let _ = writeln!(out, "  killed meanwhile (SIGKILL): {}", kills.join(", "));
    let _ = writeln!(
        out,
        "  {} of them are in the collection: {} missing, {} doubled{}",
        units::exact(found),
        units::exact(report.lost()),
        units::exact(report.doubled()),
        if report.holds() { ", every payload as it was" } else { "" }
    );
    let _ = writeln!(
        out,
        "  {} came again after a kill and were known by their ids, so each counts once",
        units::exact(played.replayed)
    );
    if !report.holds() {
        out.push_str(&audit::words(report));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stores::audit::PartitionReport;

    fn said(missing: u64) -> String {
        let partition = PartitionReport {
            topic: TOPIC.into(),
            expected: 5000,
            found: 5000 - missing,
            missing,
            ..PartitionReport::default()
        };
        let report = Report { partitions: vec![partition], ..Report::default() };
        let kills = vec![(Duration::from_secs(20), Kill::Pipeline)];
        proven(&Played { length_ns: 60_000_000_000, kills, replayed: 17 }, &report)
    }

    #[test]
    fn what_holds_is_said_and_what_does_not_is_said_more() {
        let held = said(0);
        for part in [
            "5,000 events",
            "the pipeline after 20.0 s",
            "0 missing, 0 doubled, every payload",
            "17 came again",
        ] {
            assert!(held.contains(part), "{part}: {held}");
        }
        let not = said(2);
        assert!(not.contains("2 missing") && !not.contains("every payload"), "{not}");
        assert!(not.contains("does not hold"), "{not}");
    }
}
