//! Checks the history of a load that appends to lists: reads every list once more, finds the anomalies, and judges them by the promise.

use std::collections::{BTreeMap, HashSet};

use anyhow::Context;
use plimsoll_consistency::{Anomaly, Claim, Kind, Report, Step, Transaction, check};
use plimsoll_measure::consistency::Consistency;
use plimsoll_mongo::list_append::{LISTS_PER_DOCUMENT, read_all, refused_transaction};
use plimsoll_mongo::setup::Setup;
use plimsoll_run::exit::explained;
use plimsoll_wire::{ConnectOptions, Connection};
use tokio::runtime::Runtime;

use crate::promise::Promise;

/// The maximum number of explained violations.
const EXAMPLES_MAX: usize = 10;

/// The reason why a server commits no transaction; `None` if it commits them.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) async fn without_transactions(
    setup: &Setup,
    server: &ConnectOptions,
) -> anyhow::Result<Option<String>> {
    let mut connection = Connection::connect(server).await.context("connect")?;
    let refusal =
        refused_transaction(&mut connection, &setup.namespace).await.context("try a transaction")?;
    Ok(refusal.map(|error| {
        format!("the server has no transactions ({error}): each operation is a single append or read")
    }))
}

/// The result of a check.
pub(crate) struct Checked {
    /// The anomalies.
    pub(crate) found: Consistency,
    /// Documents that hold the lists.
    pub(crate) documents: u64,
    /// The reason why the promise is neither kept nor broken; `None` if it is one of the two.
    pub(crate) undecided: Option<String>,
}

/// Checks a history.
pub(crate) fn checked(
    setup: &Setup,
    server: &ConnectOptions,
    mut history: Vec<Transaction>,
    runtime: &Runtime,
    (promise, reason): (Promise, Option<&str>),
) -> Checked {
    history.sort_by_key(|transaction| transaction.invoked_ns);
    let last = runtime.block_on(read(setup, server, &history));
    let unread = last.as_ref().err().map(|error| {
        format!(
            "the lists could not be read at the end, so appends that no read showed are unchecked: {}",
            explained(error)
        )
    });
    history.extend(last.unwrap_or_default());
    let documents = documents(&history);
    let Promise { claim, words, limit } = promise;
    let reason = reason.map(|reason| format!("{reason}, and each list is checked for {words}"));
    let (found, unchecked) = match check(&history) {
        Ok(report) => (judged(&report, claim), None),
        Err(error) => (Consistency::default(), Some(format!("the history cannot be checked: {error}"))),
    };
    let reasons: Vec<&str> = reason
        .as_deref()
        .into_iter()
        .chain(limit)
        .chain(unread.as_deref())
        .chain(unchecked.as_deref())
        .collect();
    let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    let found = Consistency { claim: words.to_owned(), reason, ..found };
    Checked { found, documents, undecided: unread.or(unchecked) }
}

async fn read(
    setup: &Setup,
    server: &ConnectOptions,
    history: &[Transaction],
) -> anyhow::Result<Vec<Transaction>> {
    let mut connection = Connection::connect(server).await.context("connect")?;
    let lists = read_all(&mut connection, setup, history).await.context("read the lists")?;
    lists.context("the answer of the server is not one of lists")
}

/// Documents whose lists have shown at least one element.
fn documents(history: &[Transaction]) -> u64 {
    let steps = history.iter().flat_map(|read| &read.steps);
    let held = steps.filter(|step| matches!(step, Step::Read { elements, .. } if !elements.is_empty()));
    held.map(|step| step.list() / LISTS_PER_DOCUMENT).collect::<HashSet<_>>().len() as u64
}

fn judged(report: &Report, claim: Claim) -> Consistency {
    let counts = |violates: bool| -> BTreeMap<String, u64> {
        let kinds = report.counts.iter().filter(|(kind, _)| Kind::violates(**kind, claim) == violates);
        kinds.map(|(kind, count)| (kind.to_string(), *count)).collect()
    };
    Consistency {
        committed: report.committed,
        aborted: report.aborted,
        unknown: report.unknown,
        lists: report.lists,
        violations: report.violation_count(claim),
        anomalies: counts(true),
        allowed: counts(false),
        not_decided: report.lists_not_decided + report.cycles_not_decided,
        examples: examples(report, claim),
        ..Consistency::default()
    }
}

/// Explained violations: the first of each kind, then the second of each kind, and so on.
fn examples(report: &Report, claim: Claim) -> Vec<String> {
    let mut counts = BTreeMap::<Kind, u64>::new();
    let rank = |violation: &Anomaly| {
        let count = counts.entry(violation.kind).or_default();
        *count += 1;
        *count
    };
    let mut ranked = report.violations(claim).map(rank).zip(report.violations(claim)).collect::<Vec<_>>();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(EXAMPLES_MAX).map(|(_, violation)| violation.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_consistency::{Order, Outcome};

    use super::*;

    #[test]
    fn an_anomaly_that_the_promise_allows_is_no_violation() {
        let transaction = |process, read, append| Transaction {
            process,
            invoked_ns: 0,
            completed_ns: 10,
            outcome: Outcome::Committed,
            steps: vec![
                Step::Read { list: read, elements: vec![] },
                Step::Append { list: append, element: 1 },
            ],
        };
        let read = |list| Transaction {
            process: 9,
            invoked_ns: 20,
            completed_ns: 30,
            outcome: Outcome::Committed,
            steps: vec![Step::Read { list, elements: vec![1] }],
        };
        let skew = [transaction(0, 0, 1), transaction(1, 1, 0), read(0), read(1)];
        let report = check(&skew).unwrap();
        let words = "write skew (G2)".to_owned();
        let snapshot = judged(&report, Claim::STRONG_SNAPSHOT);
        assert_eq!((snapshot.violations, snapshot.allowed.get(&words)), (0, Some(&1)));
        let serializable = judged(&report, Claim::STRICT_SERIALIZABLE);
        assert_eq!((serializable.violations, serializable.anomalies.get(&words)), (1, Some(&1)));
        assert_eq!(documents(&skew[2..]), 1, "two lists share a document");
    }

    #[test]
    fn every_kind_of_violation_has_an_example() {
        let anomaly = |kind, number: usize| Anomaly {
            kind,
            transactions: vec![],
            explanation: format!("example {number}"),
        };
        let lost = (0..EXAMPLES_MAX).map(|number| anomaly(Kind::LostAppend, number));
        let examples = lost.chain([anomaly(Kind::ReadSkew(Order::Any), 0)]).collect();
        let shown = super::examples(&Report { examples, ..Report::default() }, Claim::STRONG_SNAPSHOT);
        assert_eq!(shown.len(), EXAMPLES_MAX);
        assert_eq!(
            shown[..3],
            ["lost append: example 0", "read skew (G-single): example 0", "lost append: example 1"]
        );
    }
}
