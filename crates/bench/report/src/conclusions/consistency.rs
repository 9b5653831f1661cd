//! Writes the conclusions on the consistency of lists.

use std::collections::BTreeMap;

use plimsoll_measure::consistency::Consistency;
use plimsoll_measure::run::Run;

use crate::units::{counted, exact};

/// The anomalies that break the promise, the first ones in detail.
pub(super) fn violations(run: &Run) -> Vec<String> {
    let Some(it) = of(run).filter(|it| it.violations > 0) else { return Vec::new() };
    let verb = if it.violations == 1 { "breaks" } else { "break" };
    let (anomalies, kinds) = (anomalies(it.violations), listed(&it.anomalies));
    let head = format!("{anomalies} {verb} {}: {kinds}.", it.claim);
    std::iter::once(head).chain(it.examples.iter().map(|example| format!("{example}."))).collect()
}

/// The extent of the check, and its gaps.
pub(super) fn proof(run: &Run) -> Vec<String> {
    let Some(it) = of(run) else { return Vec::new() };
    let checked = (it.violations == 0 && it.committed > 0).then(|| {
        let outcomes = format!("{} aborted, {} unknown", exact(it.aborted), exact(it.unknown));
        format!(
            "No anomaly breaks {} in {} on {} ({outcomes}).",
            it.claim,
            counted(it.committed, "committed operation"),
            counted(it.lists, "list")
        )
    });
    let allowed = (!it.allowed.is_empty())
        .then(|| format!("The promise of {} allows the anomalies found: {}.", it.claim, listed(&it.allowed)));
    let open = (it.not_decided > 0).then(|| {
        let verb = if it.not_decided == 1 { "is" } else { "are" };
        format!(
            "{} of the consistency check {verb} not decided: it met its limit.",
            counted(it.not_decided, "part")
        )
    });
    let reason = it.reason.iter().map(|reason| format!("The check of consistency is limited: {reason}."));
    checked.into_iter().chain(allowed).chain(open).chain(reason).collect()
}

fn of(run: &Run) -> Option<&Consistency> {
    run.integrity.as_ref()?.consistency.as_ref()
}

fn anomalies(count: u64) -> String {
    if count == 1 { "1 anomaly".to_owned() } else { format!("{} anomalies", exact(count)) }
}

fn listed(kinds: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {}", exact(*count))).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::integrity::{Integrity, Proof};

    use crate::conclusions::integrity;

    use super::*;

    fn run(consistency: Consistency) -> Run {
        let claim = "linearizability".to_owned();
        let consistency = Some(Consistency { claim, lists: 2, ..consistency });
        Run {
            integrity: Some(Integrity { proof: Proof::Proven, consistency, ..Integrity::default() }),
            ..Run::default()
        }
    }

    #[test]
    fn a_broken_promise_is_named_with_its_example() {
        let broken = run(Consistency {
            committed: 5,
            violations: 1,
            anomalies: BTreeMap::from([("stale read".to_owned(), 1)]),
            examples: vec!["stale read: T1 read [] of list 7".to_owned()],
            ..Consistency::default()
        });
        assert_eq!(
            violations(&broken),
            ["1 anomaly breaks linearizability: stale read 1.", "stale read: T1 read [] of list 7."]
        );
        assert!(proof(&broken).is_empty());
    }

    #[test]
    fn a_kept_promise_is_reported_with_its_gaps() {
        let kept = run(Consistency {
            committed: 1000,
            unknown: 3,
            not_decided: 1,
            reason: Some("the server has no transactions".to_owned()),
            ..Consistency::default()
        });
        assert!(violations(&kept).is_empty());
        assert!(integrity::proof(&kept).is_empty(), "no document is not worth a sentence beside the lists");
        assert_eq!(
            proof(&kept),
            [
                "No anomaly breaks linearizability in 1,000 committed operations on 2 lists (0 aborted, 3 unknown).",
                "1 part of the consistency check is not decided: it met its limit.",
                "The check of consistency is limited: the server has no transactions.",
            ]
        );
    }
}
