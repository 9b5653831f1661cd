//! Writes the conclusions on integrity.

use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::run::Run;

use crate::derived::promise;
use crate::units::{counted, exact};

/// Promises that the server broke.
pub(super) fn violations(run: &Run) -> Vec<String> {
    let wrong = run.integrity.as_ref().filter(|it| it.wrong_reads > 0).map(|it| {
        let verb = if it.wrong_reads == 1 { "contradicts" } else { "contradict" };
        format!("{} {verb} what was acknowledged or read before.", counted(it.wrong_reads, "read"))
    });
    let Some(integrity) = audited(run) else { return wrong.into_iter().collect() };
    let lost = (integrity.lost > 0).then(|| {
        let verb = if integrity.lost == 1 { "is" } else { "are" };
        let (lost, of) = (exact(integrity.lost), exact(integrity.acknowledged));
        format!("{lost} of {of} acknowledged documents {verb} gone ({}).", promise(run, integrity))
    });
    let others = [
        documents(
            integrity.corrupted,
            "does not have its written content",
            "do not have their written content",
        ),
        documents(integrity.duplicated, "exists more than once", "exist more than once"),
        documents(
            integrity.phantom,
            "exists though it was rejected or never sent",
            "exist though they were rejected or never sent",
        ),
        documents(
            integrity.read_then_gone,
            "was read during the load and is gone or older now, though never acknowledged",
            "were read during the load and are gone or older now, though never acknowledged",
        ),
        (integrity.half_transactions > 0).then(|| {
            let verb = if integrity.half_transactions == 1 { "was" } else { "were" };
            format!("{} {verb} done in part only.", counted(integrity.half_transactions, "transaction"))
        }),
        updates(integrity.lost_increments, "acknowledged update", ["is missing", "are missing"]),
        updates(
            integrity.extra_increments,
            "update",
            ["was applied but never sent", "were applied but never sent"],
        ),
        documents(integrity.missing_from_index, "is missing from an index", "are missing from an index"),
        documents(
            integrity.member_differences,
            "is missing or different on a member of the replica set",
            "are missing or different on members of the replica set",
        ),
        documents(
            integrity.unplaced,
            "is shown by the mongos and is on no shard",
            "are shown by the mongos and are on no shard",
        ),
    ];
    let validation = (integrity.validation_errors > 0).then(|| {
        let verb = if integrity.validation_errors == 1 { "is" } else { "are" };
        let first = integrity.indexes.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        format!(
            "The server says that the collection is invalid; there {verb} {}{first}.",
            counted(integrity.validation_errors, "error")
        )
    });
    lost.into_iter().chain(others.into_iter().flatten()).chain(validation).chain(wrong).collect()
}

/// The proof, or the reason why there is none.
pub(super) fn proof(run: &Run) -> Vec<String> {
    let Some(integrity) = &run.integrity else { return Vec::new() };
    let reason = integrity.reason.as_deref().unwrap_or("no reason was recorded");
    match integrity.proof {
        // A run with lists only: the conclusions on consistency report the check.
        Proof::Proven if integrity.acknowledged == 0 && integrity.consistency.is_some() => Vec::new(),
        Proof::Proven if integrity.holds() => vec![proven(run, integrity)],
        Proof::Proven => Vec::new(),
        Proof::ReadBack if integrity.holds() => vec![read_back(integrity)],
        Proof::ReadBack => Vec::new(),
        Proof::Counted => vec![format!(
            "Counted, not proven: the collection holds {} where {} were acknowledged ({}); {reason}.",
            counted(integrity.found, "document"),
            exact(integrity.acknowledged),
            promise(run, integrity)
        )],
        Proof::FireAndForget => vec![forgotten(run, integrity)],
        Proof::NotApplicable => vec![format!("Integrity is not applicable: {reason}.")],
        Proof::NotAudited => vec![format!(
            "Integrity was not audited: {reason}. Nothing is proven about {}.",
            counted(integrity.acknowledged, "acknowledged document")
        )],
    }
}

fn proven(run: &Run, integrity: &Integrity) -> String {
    let (acknowledged, promise) = (exact(integrity.acknowledged), promise(run, integrity));
    if integrity.acknowledged == 0 {
        return "No document was acknowledged, so there was nothing to prove.".to_owned();
    }
    let intact = if integrity.not_judged.is_empty() { "intact" } else { "intact as far as they were judged" };
    if integrity.not_audited == 0 && integrity.found == integrity.acknowledged {
        return format!("All {acknowledged} acknowledged documents were found {intact} ({promise}).");
    }
    let reason = integrity.reason.as_deref().unwrap_or("another operation may have changed them");
    let part = |count: u64, words: String| {
        if count > 0 { format!("; {} {words}", exact(count)) } else { String::new() }
    };
    let deleted = part(integrity.deleted, "were deleted and are gone".to_owned());
    let unaudited = part(integrity.not_audited, format!("were not audited: {reason}"));
    let found = exact(integrity.found);
    format!(
        "{found} of {acknowledged} acknowledged documents were found {intact} ({promise}){deleted}{unaudited}."
    )
}

fn read_back(integrity: &Integrity) -> String {
    let (found, of) = (exact(integrity.found), exact(integrity.acknowledged));
    let unread = match integrity.not_audited {
        0 => String::new(),
        count => {
            let reason = integrity.reason.as_deref().unwrap_or("no reason was recorded");
            format!("; {} not read back: {reason}", counted(count, "document"))
        }
    };
    format!("The service returned {found} of {of} acknowledged documents by their keys{unread}.")
}

fn forgotten(run: &Run, integrity: &Integrity) -> String {
    let sent = integrity.unknown_present + integrity.unknown_absent;
    format!(
        "Fire and forget: nothing was promised ({}). The load sent {}, and {} exist.",
        promise(run, integrity),
        counted(sent, "document"),
        exact(integrity.unknown_present)
    )
}

/// Documents that are neither proven nor violations.
pub(super) fn leftovers(run: &Run) -> Vec<String> {
    let Some(integrity) = audited(run) else { return Vec::new() };
    let unknown = integrity.unknown_present + integrity.unknown_absent;
    let unknown = (unknown > 0 && integrity.proof != Proof::FireAndForget).then(|| {
        let is_kept = integrity.read_then_gone
            + integrity.half_transactions
            + integrity.lost_increments
            + integrity.extra_increments
            + integrity.missing_from_index
            + integrity.member_differences
            + integrity.unplaced
            == 0;
        let meaning = if is_kept { " Neither breaks a promise." } else { "" };
        format!(
            "The outcome of {} is unknown: {} exist and {} do not.{meaning}",
            counted(unknown, "document"),
            exact(integrity.unknown_present),
            exact(integrity.unknown_absent)
        )
    });
    let runs = |(run, count): (&String, &u64)| format!("{} of run {run}", exact(*count));
    let named: Vec<_> = integrity.foreign_runs.iter().map(runs).collect();
    let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    let foreign = documents(
        integrity.foreign,
        &format!("in the collection is not of this run{named}"),
        &format!("in the collection are not of this run{named}"),
    );
    let shards = &integrity.shards;
    let indexes = &integrity.indexes.skipped;
    let left_out = [&integrity.not_judged, &integrity.members.open, &shards.open, &shards.skipped, indexes];
    let left_out = left_out.into_iter().flatten().cloned();
    unknown
        .into_iter()
        .chain(foreign)
        .chain(compared(integrity))
        .chain(placed(integrity))
        .chain(left_out)
        .chain(unchecked(integrity))
        .collect()
}

/// The transactions that nothing is known about.
fn unchecked(integrity: &Integrity) -> Option<String> {
    let count = integrity.unchecked_transactions;
    let verb = if count == 1 { "was" } else { "were" };
    (count > 0).then(|| {
        format!(
            "{} of unknown outcome {verb} not checked: the ledger keeps 65,536 transactions, each with up to 250 operations.",
            counted(count, "transaction")
        )
    })
}

/// The members that were compared.
fn compared(integrity: &Integrity) -> Option<String> {
    let members = &integrity.members.compared;
    let is_equal = integrity.member_differences == 0 && !members.is_empty();
    is_equal.then(|| {
        let has = if members.len() == 1 { "has" } else { "have" };
        format!(
            "{} ({}) {has} the same documents as the primary.",
            counted(members.len() as u64, "member"),
            members.join(", ")
        )
    })
}

/// The documents of each shard.
fn placed(integrity: &Integrity) -> Option<String> {
    let shards = &integrity.shards;
    let each: Vec<_> =
        shards.documents.iter().map(|(name, count)| format!("{} on {name}", exact(*count))).collect();
    let orphans = match shards.orphans {
        0 => String::new(),
        count => format!("; {} on a further shard, which the mongos hides", counted(count, "orphan")),
    };
    (!each.is_empty()).then(|| format!("The documents of this run by shard: {}{orphans}.", each.join(", ")))
}

/// The integrity, if it was audited.
fn audited(run: &Run) -> Option<&Integrity> {
    let looked = |it: &&Integrity| !matches!(it.proof, Proof::NotAudited | Proof::NotApplicable);
    run.integrity.as_ref().filter(looked)
}

/// Updates that the documents lack, or show beyond those sent.
fn updates(count: u64, noun: &str, [one, many]: [&str; 2]) -> Option<String> {
    let verb = if count == 1 { one } else { many };
    (count > 0).then(|| format!("{} {verb}, by the content of the documents.", counted(count, noun)))
}

fn documents(count: u64, one: &str, many: &str) -> Option<String> {
    let rest = if count == 1 { one } else { many };
    (count > 0).then(|| format!("{} {rest}.", counted(count, "document")))
}
