//! Renders the changes of a collection.

use plimsoll_measure::inspection::{Change, Difference};

use super::tables::{times_smaller, whole_bytes};
use crate::prose::{plain, some};
use crate::tables::{Cell, Table, Tone, left, right};
use crate::units::{NONE, NOT_REPORTED, bytes, exact};

/// Names in one sentence at most.
const NAMES_MAX: usize = 12;

/// Numbers before and after.
pub(super) fn sizes(difference: &Difference) -> Table {
    let rows = vec![
        row("documents", &difference.documents, exact),
        row("data", &difference.data_bytes, bytes),
        ratio("a document", &difference.document_bytes, whole_bytes),
        row("on disk", &difference.storage_bytes, bytes),
        row("of it free", &difference.free_bytes, bytes),
        ratio("compression", &difference.compression, times_smaller),
        row("indexes on disk", &difference.index_bytes, bytes),
    ];
    let columns = vec![left(""), right("before"), right("after"), right("change")];
    let title = format!("Changes of {}", plain(&difference.namespace));
    Table { title, columns, rows: rows.into_iter().flatten().collect(), flexible: 0 }
}

/// A row, if at least one of the two is known.
fn row(name: &str, change: &Change<u64>, show: fn(u64) -> String) -> Option<Vec<Cell>> {
    let growth = change.growth().map(|growth| match growth {
        0 => "none".to_owned(),
        shrunk if shrunk < 0 => format!("−{}", show(shrunk.unsigned_abs())),
        grown => format!("+{}", show(grown.unsigned_abs())),
    });
    cells(
        name,
        [change.before, change.after].map(|value| value.map(show)),
        growth.unwrap_or_default(),
        NOT_REPORTED,
    )
}

/// A row of a value that an empty collection lacks.
fn ratio(name: &str, change: &Change<f64>, show: fn(f64) -> String) -> Option<Vec<Cell>> {
    cells(name, [change.before, change.after].map(|value| value.map(show)), String::new(), NONE)
}

fn cells(name: &str, ends: [Option<String>; 2], change: String, absent: &str) -> Option<Vec<Cell>> {
    if ends.iter().all(Option::is_none) {
        return None;
    }
    let [before, after] = ends.map(|end| end.unwrap_or_else(|| absent.to_owned()));
    Some(vec![Cell::toned(name, Tone::Faint), before.into(), after.into(), change.into()])
}

/// Additions and removals.
pub(super) fn sentences(difference: &Difference) -> Vec<String> {
    let fields = if difference.fields_of_all { "" } else { " (in samples)" };
    let list = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what}: {}", some(names, NAMES_MAX)))
    };
    let existence = match (difference.exists.before, difference.exists.after) {
        (Some(false), Some(true)) => Some("the collection is new".to_owned()),
        (Some(true), Some(false)) => Some("the collection is gone".to_owned()),
        (Some(false), Some(false)) => Some("there is no such collection".to_owned()),
        _ => None,
    };
    let counted = "the documents are those of the server's metadata, not counted".to_owned();
    let all = [
        existence,
        list("new indexes", &difference.indexes_added),
        list("indexes gone", &difference.indexes_removed),
        list(&format!("new fields{fields}"), &difference.fields_added),
        list(&format!("fields gone{fields}"), &difference.fields_removed),
        (!difference.counted).then_some(counted),
        difference.storage_bytes.after.map(|_| {
            "sizes on disk may lack what was written since the storage engine's last checkpoint".to_owned()
        }),
    ];
    all.into_iter().flatten().collect()
}
