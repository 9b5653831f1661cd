//! Turns the answers about the documents of a load into an integrity report.

use std::time::Duration;

use plimsoll_http::Setup;
use plimsoll_http::read_back::{Findings, SentDocuments, read};
use plimsoll_ledger::Counts;
use plimsoll_measure::clock;
use plimsoll_measure::integrity::{Integrity, Proof};
use tokio::runtime::Runtime;

/// Requests all documents that exist or may exist from the service.
pub(super) fn audit(
    setup: &Setup,
    sent: Vec<SentDocuments>,
    runtime: &Runtime,
    patience: Duration,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Integrity {
    let started = clock::now();
    let mut counts = Counts::default();
    sent.iter().for_each(|sent| counts.merge(sent.counts()));
    let findings = runtime.block_on(read(setup, sent, patience, progress));
    let audit_s = clock::now().since(started) as f64 / 1e9;
    Integrity { audit_s, not_judged: setup.not_judged(), ..integrity(counts, findings) }
}

fn integrity(counts: Counts, findings: Findings) -> Integrity {
    // A violation is final. Without a violation, the unread documents decide.
    let is_open = findings.unread > 0 && findings.lost == 0 && findings.altered == 0;
    Integrity {
        proof: if is_open { Proof::NotAudited } else { Proof::ReadBack },
        reason: (findings.unread > 0).then(|| reason(&findings, counts.acknowledged + counts.unknown)),
        acknowledged: counts.acknowledged,
        found: findings.found,
        lost: findings.lost,
        corrupted: findings.altered,
        rejected: counts.rejected,
        unknown_present: findings.unknown_present,
        unknown_absent: findings.unknown_absent,
        not_audited: findings.unread,
        examples: findings.examples,
        ..Integrity::default()
    }
}

/// The reason why documents were not read back.
fn reason(findings: &Findings, expected: u64) -> String {
    let cause = match findings.unread_status.filter(|status| *status > 0) {
        None => "did not answer `read_back`".to_owned(),
        Some(status) => {
            format!("answered `read_back` with {status}, which does not say whether a document exists")
        }
    };
    format!("{} of {expected} documents are unread, because the service {cause}", findings.unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_with_unread_documents_proves_nothing_unless_it_found_a_violation() {
        let counts = Counts { acknowledged: 8, rejected: 1, unknown: 2 };
        let none =
            integrity(counts, Findings { unread: 10, unread_status: Some(503), ..Findings::default() });
        assert_eq!((none.proof, none.not_audited, none.acknowledged), (Proof::NotAudited, 10, 8));
        assert!(none.reason.unwrap().contains("with 503"));
        let findings = Findings { found: 7, lost: 1, unknown_absent: 1, unread: 1, ..Findings::default() };
        let part = integrity(counts, findings);
        assert_eq!((part.proof, part.found, part.lost, part.not_audited), (Proof::ReadBack, 7, 1, 1));
        assert!(!part.holds() && part.reason.unwrap().contains("did not answer"));
        let most = integrity(counts, Findings { found: 1, unread: 9, ..Findings::default() });
        assert_eq!((most.proof, most.is_known(), most.not_audited), (Proof::NotAudited, false, 9));
        let all = integrity(counts, Findings { found: 8, unknown_present: 2, ..Findings::default() });
        assert!(all.holds() && all.reason.is_none());
    }
}
