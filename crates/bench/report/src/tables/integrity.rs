//! Tabulates the documents promised and found.

use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::run::Run;

use super::{Cell, Table, right};
use crate::derived::promise;
use crate::units::exact;

/// The promises and their fate; a second table holds documents of unknown outcome, if any.
pub(crate) fn integrity(run: &Run) -> Vec<Table> {
    let Some(integrity) = &run.integrity else { return Vec::new() };
    if matches!(integrity.proof, Proof::NotAudited | Proof::NotApplicable) {
        return Vec::new();
    }
    let title = format!("Integrity: {}, {}", worth(integrity), promise(run, integrity));
    let mut tables = vec![Table { title, columns: promised(), rows: vec![kept(integrity)], flexible: 0 }];
    tables.extend(leftovers(integrity));
    tables
}

fn promised() -> Vec<super::Column> {
    ["acknowledged", "found", "lost", "phantom", "duplicated", "corrupted"].map(right).into()
}

fn kept(integrity: &Integrity) -> Vec<Cell> {
    vec![
        exact(integrity.acknowledged).into(),
        exact(integrity.found).into(),
        Cell::fault(integrity.lost),
        Cell::fault(integrity.phantom),
        Cell::fault(integrity.duplicated),
        Cell::fault(integrity.corrupted),
    ]
}

fn leftovers(integrity: &Integrity) -> Option<Table> {
    let counts = [
        ("rejected", integrity.rejected),
        ("unknown, there", integrity.unknown_present),
        ("unknown, not there", integrity.unknown_absent),
        ("deleted", integrity.deleted),
        ("not audited", integrity.not_audited),
        ("foreign", integrity.foreign),
    ];
    let (columns, row): (Vec<_>, Vec<_>) = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (right(name), Cell::from(exact(count))))
        .unzip();
    let title = "Other outcomes".to_owned();
    (!row.is_empty()).then(|| Table { title, columns, rows: vec![row], flexible: 0 })
}

/// The worth of the numbers, in a word or two.
fn worth(integrity: &Integrity) -> &'static str {
    match integrity.proof {
        Proof::Proven if integrity.holds() => "proven",
        Proof::Proven => "broken",
        Proof::Counted => "counted, not proven",
        Proof::FireAndForget => "nothing was promised",
        Proof::NotApplicable => "not applicable",
        Proof::NotAudited => "not audited",
    }
}
