//! Checks the conclusions on integrity.

use super::*;

#[test]
fn intact_documents_are_reported_with_the_write_concern() {
    check(
        |run| {
            run.server.profile = Some("journaled".into());
            run.integrity = Some(integrity(1_000_000, 1_000_000));
        },
        &["All 1,000,000 acknowledged documents were found intact \
           (write concern {\"w\":\"majority\",\"j\":true}, journaled profile)."],
    );
}

#[test]
fn broken_promises_come_first() {
    check(
        |run| {
            run.interrupted = true;
            let broken =
                Integrity { lost: 3, duplicated: 1, corrupted: 2, phantom: 4, ..integrity(1_000, 997) };
            run.integrity = Some(Integrity {
                read_then_gone: 1,
                half_transactions: 3,
                wrong_reads: 2,
                lost_increments: 1,
                extra_increments: 2,
                missing_from_index: 1,
                validation_errors: 1,
                ..broken
            });
        },
        &[
            "3 of 1,000 acknowledged documents are gone (write concern {\"w\":\"majority\",\"j\":true}).",
            "2 documents do not have their written content.",
            "1 document exists more than once.",
            "4 documents exist though they were rejected or never sent.",
            "1 document was read during the load and is gone or older now, though never acknowledged.",
            "3 transactions were done in part only.",
            "1 acknowledged update is missing, by the content of the documents.",
            "2 updates were applied but never sent, by the content of the documents.",
            "1 document is missing from an index.",
            "The server says that the collection is invalid; there is 1 error.",
            "2 reads contradict what was acknowledged or read before.",
            "The run was interrupted: the numbers cover the time up to then.",
        ],
    );
}

#[test]
fn changes_that_the_audit_cannot_judge_are_named_and_never_called_intact() {
    let sentence =
        "The field seen is not judged: its values do not follow from the number of updates ($set).";
    check(
        |run| {
            run.integrity = Some(Integrity { not_judged: vec![sentence.into()], ..integrity(1_000, 1_000) })
        },
        &[
            "All 1,000 acknowledged documents were found intact as far as they were judged \
             (write concern {\"w\":\"majority\",\"j\":true}).",
            sentence,
        ],
    );
}

#[test]
fn documents_of_unknown_outcome_break_no_promise() {
    check(
        |run| {
            let leftovers =
                Integrity { unknown_present: 7, unknown_absent: 5, foreign: 1, ..integrity(1_000, 1_000) };
            run.integrity = Some(Integrity { unchecked_transactions: 2, ..leftovers });
        },
        &[
            "All 1,000 acknowledged documents were found intact (write concern {\"w\":\"majority\",\"j\":true}).",
            "The outcome of 12 documents is unknown: 7 exist and 5 do not. Neither breaks a promise.",
            "1 document in the collection is not of this run.",
            "2 transactions of unknown outcome were not checked: the ledger keeps 65,536 transactions, each with up to 250 operations.",
        ],
    );
}

#[test]
fn an_unproven_integrity_is_not_claimed() {
    let weaker = |proof, reason: Option<&str>| {
        let reason = reason.map(str::to_owned);
        move |run: &mut Run| {
            let unknown = if proof == Proof::FireAndForget { 10 } else { 0 };
            let counts = Integrity { unknown_present: unknown, ..integrity(10, 9) };
            run.integrity = Some(Integrity { proof, reason, write_concern: "{\"w\":0}".into(), ..counts });
        }
    };
    check(
        weaker(Proof::FireAndForget, None),
        &[
            "Fire and forget: nothing was promised (write concern {\"w\":0}). The load sent 10 documents, and 10 exist.",
        ],
    );
    check(
        weaker(Proof::Counted, Some("the documents keep their own ids")),
        &["Counted, not proven: the collection holds 9 documents where 10 were acknowledged \
           (write concern {\"w\":0}); the documents keep their own ids."],
    );
    check(
        weaker(Proof::NotApplicable, Some("the collection is capped")),
        &["Integrity is not applicable: the collection is capped."],
    );
    check(
        weaker(Proof::NotAudited, None),
        &[
            "Integrity was not audited: no reason was recorded. Nothing is proven about 10 acknowledged documents.",
        ],
    );
}

#[test]
fn documents_left_out_of_the_audit_are_not_called_intact() {
    check(
        |run| {
            let partly = Integrity {
                not_audited: 10,
                reason: Some("updates touched them".into()),
                ..integrity(30, 20)
            };
            run.integrity = Some(partly);
        },
        &[
            "20 of 30 acknowledged documents were found intact (write concern {\"w\":\"majority\",\"j\":true}); \
           10 were not audited: updates touched them.",
        ],
    );
}
