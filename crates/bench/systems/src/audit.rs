//! Connects to the servers, reads the documents back, and turns the findings into an integrity report.

use std::time::Duration;

use anyhow::Context;
use plimsoll_deployment::collection::InitialState;
use plimsoll_ledger::{Ledger, OtherWriters, Run, Touched};
use plimsoll_measure::clock;
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_mongo::audit::{Audited, Error, Listener, Scope, examples, examples_of_copies, scan};
use plimsoll_mongo::setup::Setup;
use plimsoll_wire::{ConnectOptions, Connection, W, WriteConcern};

use plimsoll_run::exit::explained;
use plimsoll_run::session;

/// The write concern of writes that name none.
const SERVERS_DEFAULT: &str = "the server's default";
/// The number of reported examples of each kind.
const EXAMPLES: usize = 5;
/// The pause between two attempts to reach a server.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The maximum number of scans of one audit, if connections are lost. A server that stood still may close the connection of a scan.
const SCANS_MAX: u32 = 3;

/// The inputs of an audit.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The setup of the run.
    pub setup: &'a Setup,
    /// The servers that hold the documents.
    pub servers: Vec<ConnectOptions>,
    /// Whether the user's URI asks for one server alone. The other members of its replica set may be unreachable.
    pub is_direct: bool,
    /// The longest wait for a server that restarts.
    pub patience: Duration,
    /// The outcomes of all documents.
    pub ledger: &'a Ledger,
    /// The documents that changes outside the ledger may have touched.
    pub touched: &'a Touched,
    /// Whether the collection may hold documents of others.
    pub other_writers: OtherWriters,
    /// The collection before the run.
    pub before: &'a InitialState,
}

/// Reads all documents back. If a server cannot be read, the result is "not audited" with the reason.
pub fn audit(
    subject: &Subject<'_>,
    runtime: &tokio::runtime::Runtime,
    listener: &mut impl Listener,
) -> Integrity {
    let started = clock::now();
    let mut integrity = match read(subject, runtime, listener) {
        Ok(audited) => integrity(subject, audited),
        Err(error) => unread(subject, explained(&error)),
    };
    integrity.audit_s = clock::now().since(started) as f64 / 1e9;
    integrity
}

/// Whether the audit checked every acknowledged document and found it, so that dropping the collection destroys no evidence. If
/// documents were only counted, none may be missing from the count.
pub fn is_intact(integrity: &Integrity) -> bool {
    let counted = integrity.proof == Proof::Counted;
    let enough = !counted || integrity.found >= integrity.acknowledged;
    integrity.holds() && integrity.is_whole() && integrity.unchecked_transactions == 0 && enough
}

fn read(
    subject: &Subject<'_>,
    runtime: &tokio::runtime::Runtime,
    listener: &mut impl Listener,
) -> anyhow::Result<Audited> {
    let scope = scope(subject);
    // Report the start of the audit now: the wait for the server below reports no progress.
    listener.read(0);
    runtime.block_on(scan_patiently(subject, scope, listener)).context("read the documents back")
}

/// Scans anew if a connection is lost: reading changes nothing.
async fn scan_patiently(
    subject: &Subject<'_>,
    scope: Scope<'_>,
    listener: &mut impl Listener,
) -> Result<Audited, Error> {
    let mut scans = 1;
    loop {
        wait(&subject.servers, subject.patience, listener).await;
        // Every mongos shows the same collection, so one of them is read.
        match scan(&subject.servers, subject.ledger, scope, listener).await {
            Err(error) if error.is_lost_connection() && scans < SCANS_MAX => scans += 1,
            done => return done,
        }
    }
}

/// The scope of the audit. Only one member is read if documents vanish by design, because they may vanish between the scans of two
/// members. The same holds for a direct connection, which asks for one server alone.
fn scope<'a>(subject: &Subject<'a>) -> Scope<'a> {
    let scope = Scope::of(subject.setup, touched(subject), subject.other_writers);
    let reads_one = subject.is_direct || subject.before.vanishing.is_some();
    if reads_one { Scope { lag_max: Duration::ZERO, ..scope } } else { scope }
}

/// The touched documents. Exact if the ledger has the changes; otherwise every document that the plan may change counts as
/// touched.
fn touched<'a>(subject: &Subject<'a>) -> &'a Touched {
    subject.ledger.changes().map_or(subject.touched, |changes| &changes.touched)
}

/// Waits until every server accepts connections, or until the time limit. The scan then reports errors.
async fn wait(servers: &[ConnectOptions], patience: Duration, listener: &mut impl Listener) {
    let began = clock::now();
    for server in servers {
        while Connection::connect(server).await.is_err() {
            if u128::from(clock::now().since(began)) >= patience.as_nanos() {
                return;
            }
            listener.read(0);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn integrity(subject: &Subject<'_>, audited: Audited) -> Integrity {
    let (proof, reason) = proof(subject);
    let (run, copies) = (subject.setup.run, examples_of_copies(subject.setup.run, &audited, EXAMPLES));
    let differences = audited.differences().map(|(_, it)| it.count).sum();
    let Audited { findings, indexes, compared, placed } = audited;
    let counted = proof == Proof::Counted;
    Integrity {
        proof,
        reason,
        write_concern: write_concern(subject.setup),
        acknowledged: subject.ledger.counts().acknowledged,
        found: if counted {
            findings.foreign.saturating_sub(subject.before.documents)
        } else {
            findings.found
        },
        lost: if counted { 0 } else { findings.lost },
        phantom: if counted { 0 } else { findings.phantom },
        duplicated: findings.duplicated,
        corrupted: findings.corrupted,
        read_then_gone: if counted { 0 } else { findings.read_then_gone },
        half_transactions: if counted { 0 } else { findings.half_transactions },
        unchecked_transactions: findings.unchecked_transactions,
        lost_increments: if counted { 0 } else { findings.lost_increments },
        extra_increments: if counted { 0 } else { findings.extra_increments },
        missing_from_index: if counted { 0 } else { findings.missing_from_index },
        member_differences: differences,
        unplaced: placed.placement.unplaced.0,
        validation_errors: indexes.errors.len() as u64,
        indexes,
        // Reads are counted during the load.
        wrong_reads: 0,
        rejected: findings.rejected,
        unknown_present: findings.unknown_present,
        unknown_absent: findings.unknown_absent,
        deleted: findings.deleted,
        not_audited: if counted { subject.ledger.counts().acknowledged } else { findings.not_audited },
        not_judged: subject.setup.not_judged.clone(),
        foreign: findings.foreign,
        was_alone: subject.other_writers == OtherWriters::Excluded,
        foreign_runs: findings.other_runs.iter().map(|(run, count)| (other_run(*run), *count)).collect(),
        examples: examples(run, &findings.examples, EXAMPLES).into_iter().chain(copies).collect(),
        audit_s: 0.0,
        members: compared.members,
        shards: placed.shards,
        consistency: None,
    }
}

/// The ID of another run, or only the last part if its documents omit the time.
fn other_run(run: Run) -> String {
    let id = session::id(run);
    if run.time_s == 0 { format!("…{}", &id[8..]) } else { id }
}

fn proof(subject: &Subject<'_>) -> (Proof, Option<String>) {
    if let Some(reason) = &subject.before.vanishing {
        return (Proof::NotApplicable, Some(reason.clone()));
    }
    if subject.setup.id == plimsoll_document::IdForm::Own {
        return (Proof::Counted, Some("documents keep their own ids: they were counted, not proven".into()));
    }
    if !subject.setup.is_acknowledged() {
        return (Proof::FireAndForget, Some("w: 0 asks for no answer: nothing was promised".into()));
    }
    (Proof::Proven, None)
}

/// The report of an audit that could not read the documents.
fn unread(subject: &Subject<'_>, reason: String) -> Integrity {
    let counts = subject.ledger.counts();
    Integrity {
        proof: Proof::NotAudited,
        reason: Some(reason),
        write_concern: write_concern(subject.setup),
        acknowledged: counts.acknowledged,
        rejected: counts.rejected,
        not_audited: counts.acknowledged + counts.unknown,
        not_judged: subject.setup.not_judged.clone(),
        ..Integrity::default()
    }
}

/// The declared write concern as JSON. If the operations have different ones, each with the names of its operations.
pub fn write_concern(setup: &Setup) -> String {
    let all = setup.write_concerns();
    match &all[..] {
        [] => SERVERS_DEFAULT.into(),
        [(concern, _)] => shown(*concern),
        several => {
            let each = several
                .iter()
                .map(|(concern, names)| format!("{} for {}", shown(*concern), names.join(", ")));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

pub(crate) fn shown(concern: Option<&WriteConcern>) -> String {
    let Some(concern) = concern else { return SERVERS_DEFAULT.into() };
    let w = match &concern.w {
        W::Number(number) => number.to_string(),
        W::Majority => "\"majority\"".into(),
        W::Tag(tag) => format!("{tag:?}"),
    };
    let j = concern.j.map(|j| format!(", \"j\": {j}")).unwrap_or_default();
    let timeout = concern.timeout_ms.map(|ms| format!(", \"wtimeout\": {ms}")).unwrap_or_default();
    format!("{{\"w\": {w}{j}{timeout}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_documents_are_intact_only_if_none_is_missing() {
        let found =
            |proof, found, lost| Integrity { proof, acknowledged: 10, found, lost, ..Integrity::default() };
        for (integrity, expected) in [
            (found(Proof::Proven, 10, 0), true),
            (found(Proof::Proven, 9, 1), false),
            (found(Proof::Counted, 10, 0), true),
            (found(Proof::Counted, 9, 0), false),
            (found(Proof::NotAudited, 0, 0), false),
            (found(Proof::FireAndForget, 0, 0), true),
            (Integrity { unchecked_transactions: 1, ..found(Proof::Proven, 10, 0) }, false),
        ] {
            assert_eq!(is_intact(&integrity), expected, "{integrity:?}");
        }
    }
}
