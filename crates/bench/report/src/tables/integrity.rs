//! Tabulates the documents promised and found.

use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::run::Run;

use super::{Cell, Table, right};
use crate::derived::promise;
use crate::units::exact;

/// The promises and their fate; a second table holds documents of unknown outcome, if any.
pub(crate) fn integrity(run: &Run) -> Vec<Table> {
    let audited = |it: &&Integrity| !matches!(it.proof, Proof::NotAudited | Proof::NotApplicable);
    let Some(it) = run.integrity.as_ref().filter(audited) else { return Vec::new() };
    let kept = [("acknowledged", exact(it.acknowledged).into()), ("found", exact(it.found).into())];
    let broken = [
        ("lost", it.lost),
        ("phantom", it.phantom),
        ("duplicated", it.duplicated),
        ("corrupted", it.corrupted),
    ]
    .into_iter();
    let rare = [
        ("read, then gone", it.read_then_gone),
        ("half transactions", it.half_transactions),
        ("lost updates", it.lost_increments),
        ("extra updates", it.extra_increments),
        ("missing from an index", it.missing_from_index),
        ("member differences", it.member_differences),
        ("on no shard", it.unplaced),
        ("validation errors", it.validation_errors),
        ("wrong reads", it.wrong_reads),
    ];
    let rare = rare.into_iter().filter(|(_, count)| *count > 0);
    let others = [
        ("rejected", it.rejected),
        ("unknown, present", it.unknown_present),
        ("unknown, absent", it.unknown_absent),
        ("deleted", it.deleted),
        ("not audited", it.not_audited),
        ("foreign", it.foreign),
    ];
    let others = others.into_iter().filter(|(_, count)| *count > 0);
    vec![
        row(
            format!("Integrity: {}, {}", worth(it), promise(run, it)),
            kept.into_iter().chain(broken.chain(rare).map(|(name, count)| (name, Cell::fault(count)))),
        ),
        row("Other outcomes".to_owned(), others.map(|(name, count)| (name, exact(count).into()))),
    ]
}

/// A table of one row.
fn row(title: String, cells: impl Iterator<Item = (&'static str, Cell)>) -> Table {
    let (columns, row): (Vec<_>, Vec<_>) = cells.map(|(name, cell)| (right(name), cell)).unzip();
    let rows = if row.is_empty() { Vec::new() } else { vec![row] };
    Table { title, columns, rows, ..Table::default() }
}

/// The kind of proof, in a word or two.
fn worth(integrity: &Integrity) -> &'static str {
    match integrity.proof {
        Proof::Proven if integrity.holds() && !integrity.not_judged.is_empty() => "proven in part",
        Proof::Proven if integrity.holds() => "proven",
        Proof::Proven => "broken",
        Proof::ReadBack => "read back by keys",
        Proof::Counted => "counted, not proven",
        Proof::FireAndForget => "nothing was promised",
        Proof::NotApplicable => "not applicable",
        Proof::NotAudited => "not audited",
    }
}
