//! Formats the first and the last message of the demonstration.

use std::fmt::Write as _;
use std::time::Duration;

use plimsoll_report::units;
use plimsoll_stores::audit::Report;

use super::demo_run::DemoResult;
use super::environment::{COLLECTION, Environment, PARTITIONS, TOPIC};
use super::script::{Kill, Script};
use crate::audit;

/// Describes the plan.
pub fn plan(script: &Script, environment: &Environment) -> String {
    let kills: Vec<_> = script.kills.iter().map(killed).collect();
    format!(
        "events go into the topic `{TOPIC}` of {} for {}; an effectively-once pipeline moves them to {COLLECTION} of {}; \
         killed during the load: {}",
        environment.broker.bootstrap(),
        units::duration(script.length.as_secs_f64()),
        environment.server.address(),
        kills.join(", "),
    )
}

fn killed((at, kill): &(Duration, Kill)) -> String {
    format!("the {} after {}", kill.word(), units::duration(at.as_secs_f64()))
}

/// Describes the result in a few lines.
pub fn result(result: &DemoResult, report: &Report) -> String {
    let sum = |of: fn(&plimsoll_stores::audit::PartitionReport) -> u64| {
        report.partitions.iter().map(of).sum::<u64>()
    };
    let (sent, found) = (sum(|one| one.expected), sum(|one| one.found));
    let kills: Vec<_> = result.kills.iter().map(killed).collect();
    let mut out = String::from("\nResult\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "  {} events went into the topic (partitions: {PARTITIONS}) within {}",
        units::exact(sent),
        units::duration(result.length_ns as f64 / 1e9)
    );
    let _ = writeln!(out, "  killed during the load (SIGKILL): {}", kills.join(", "));
    let _ = writeln!(
        out,
        "  {} of them are in the collection: {} missing, {} duplicated{}",
        units::exact(found),
        units::exact(report.lost()),
        units::exact(report.doubled()),
        if report.holds() { ", every payload unchanged" } else { "" }
    );
    let acknowledged = report.broker.iter().map(|one| one.acknowledged).sum();
    let _ = writeln!(
        out,
        "  the broker acknowledged {} records to their producer, and lost {} of them",
        units::exact(acknowledged),
        units::exact(report.lost_by_broker())
    );
    let _ = writeln!(
        out,
        "  {} were read again after a kill and recognised by their ids, so each counts once",
        units::exact(result.replayed)
    );
    if !report.holds() {
        out.push_str(&audit::words(report));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stores::audit::{BrokerReport, PartitionReport};

    #[test]
    fn records_lost_by_the_broker_are_named() {
        let broker = BrokerReport { acknowledged: 5000, lost: 7, ..BrokerReport::default() };
        let report = Report { broker: vec![broker], ..Report::default() };
        let said = result(&DemoResult { length_ns: 1, kills: Vec::new(), replayed: 0 }, &report);
        for part in ["acknowledged 5,000 records to their producer, and lost 7", "a loss of the broker"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("every payload unchanged"), "{said}");
    }

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
        result(&DemoResult { length_ns: 60_000_000_000, kills, replayed: 17 }, &report)
    }

    #[test]
    fn a_success_is_reported_and_a_failure_in_detail() {
        let held = said(0);
        for part in [
            "5,000 events",
            "the pipeline after 20.0 s",
            "0 missing, 0 duplicated, every payload",
            "17 were read again",
        ] {
            assert!(held.contains(part), "{part}: {held}");
        }
        let not = said(2);
        assert!(not.contains("2 missing") && !not.contains("every payload"), "{not}");
        assert!(not.contains("does not match"), "{not}");
    }
}
