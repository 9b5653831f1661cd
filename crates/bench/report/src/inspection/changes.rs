//! Renders the changes of a collection.

use plimsoll_measure::inspection::{Change, Difference};

use super::tables::{times_smaller, whole_bytes};
use crate::prose::{plain, some};
use crate::tables::{Cell, Table, Tone};
use crate::units::{NONE, NOT_REPORTED, bytes, exact};

/// The maximum number of names in one sentence.
const NAMES_MAX: usize = 12;

/// Numbers before and after. A number that is unknown both times has no row.
pub(super) fn sizes(difference: &Difference) -> Table {
    let count = |name, it: &Change<u64>, show: fn(u64) -> String| {
        let growth = it.growth().map(|growth| match growth {
            0 => "none".to_owned(),
            shrunk if shrunk < 0 => format!("−{}", show(shrunk.unsigned_abs())),
            grown => format!("+{}", show(grown.unsigned_abs())),
        });
        (name, [it.before, it.after].map(|it| it.map(show)), growth.unwrap_or_default(), NOT_REPORTED)
    };
    // An empty collection has no ratio.
    let ratio = |name, it: &Change<f64>, show: fn(f64) -> String| {
        (name, [it.before, it.after].map(|it| it.map(show)), String::new(), NONE)
    };
    let rows = [
        count("documents", &difference.documents, exact),
        count("data", &difference.data_bytes, bytes),
        ratio("a document", &difference.document_bytes, whole_bytes),
        count("on disk", &difference.storage_bytes, bytes),
        count("of it free", &difference.free_bytes, bytes),
        ratio("compression", &difference.compression, times_smaller),
        count("indexes on disk", &difference.index_bytes, bytes),
    ];
    let known = rows.iter().filter(|(_, ends, ..)| ends.iter().any(Option::is_some));
    let end = |end: &Option<String>, absent: &str| end.clone().unwrap_or_else(|| absent.to_owned());
    Table::of(format!("Changes of {}", plain(&difference.namespace)), known)
        .left("", |(name, ..)| Cell::toned(*name, Tone::Faint))
        .right("before", |(_, [before, _], _, absent)| end(before, absent))
        .right("after", |(_, [_, after], _, absent)| end(after, absent))
        .right("change", |(_, _, change, _)| change)
        .table()
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
        (Some(false), Some(false)) => Some("the collection does not exist".to_owned()),
        _ => None,
    };
    let counted = "the document count is from the server's metadata".to_owned();
    let all = [
        existence,
        list("new indexes", &difference.indexes_added),
        list("indexes gone", &difference.indexes_removed),
        list(&format!("new fields{fields}"), &difference.fields_added),
        list(&format!("fields gone{fields}"), &difference.fields_removed),
        (!difference.counted).then_some(counted),
        difference
            .storage_bytes
            .after
            .map(|_| "sizes on disk may lack writes since the storage engine's last checkpoint".to_owned()),
    ];
    all.into_iter().flatten().collect()
}
