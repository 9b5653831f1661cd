//! Builds the tables of an inspection.

use plimsoll_measure::inspection::{
    Choice, Collection, Counting, Database, Field, Forbidden, Index, Inspection, Inventory, Kind, Place,
    Presence, Sample, Source, Times,
};

use crate::layout::cut;
use crate::prose::plain;
use crate::tables::{Cell, Table, Tone, left, right};
use crate::units::{NOT_REPORTED, bytes, counted, duration, exact, or_dash, percent, reported, three_digits};

/// The longest name in a column, in characters.
const NAME_MAX: usize = 36;
/// Characters of a moment; one with milliseconds fits.
const MOMENT_MAX: usize = 24;

fn name(text: &str) -> String {
    cut(&plain(text), NAME_MAX)
}

/// Every database with its size.
pub(super) fn databases(inspection: &Inspection) -> Table {
    let columns = ["collections", "documents", "data", "on disk", "indexes on disk"].map(right);
    let row = |database: &Database| {
        vec![
            Cell::toned(plain(&database.name), Tone::Strong),
            reported(database.collections, exact).into(),
            reported(database.documents, exact).into(),
            reported(database.data_bytes, bytes).into(),
            reported(database.storage_bytes, bytes).into(),
            reported(database.index_bytes, bytes).into(),
        ]
    };
    let columns = std::iter::once(left("database")).chain(columns).collect();
    let rows = inspection.databases.iter().map(row).collect();
    Table { title: "Databases".to_owned(), columns, rows, flexible: 0 }
}

/// All collections at a glance.
pub(super) fn overview(inspection: &Inspection) -> Table {
    let columns = ["documents", "data", "a document", "on disk", "compression", "indexes"].map(right);
    let row = |collection: &Collection| {
        let size = &collection.size;
        let indexes = collection.indexes.as_ref().map(|indexes| indexes.len() as u64);
        vec![
            Cell::toned(plain(&collection.namespace), Tone::Strong),
            documents(collection).into(),
            reported(size.data_bytes, bytes).into(),
            or_dash(size.document_bytes, whole_bytes).into(),
            reported(size.storage_bytes, bytes).into(),
            or_dash(size.compression, times_smaller).into(),
            reported(indexes, exact).into(),
        ]
    };
    let columns = std::iter::once(left("collection")).chain(columns).collect();
    let rows = inspection.collections.iter().map(row).collect();
    Table { title: "Collections".to_owned(), columns, rows, flexible: 0 }
}

/// The number of documents, with a sign where it is the metadata's.
fn documents(collection: &Collection) -> String {
    let sign = if collection.counting == Counting::Estimated { "≈ " } else { "" };
    reported(collection.documents, |documents| format!("{sign}{}", exact(documents)))
}

/// A mean number of bytes.
pub(super) fn whole_bytes(mean: f64) -> String {
    bytes(mean.round().max(0.0) as u64)
}

/// A compression.
pub(super) fn times_smaller(ratio: f64) -> String {
    format!("{} ×", three_digits(ratio))
}

/// One collection from outside.
pub(super) fn facts(collection: &Collection) -> Table {
    let title = plain(&collection.namespace);
    if !collection.exists {
        return Table::of_facts(
            &title,
            vec![("documents", Some("none: there is no such collection".into()))],
        );
    }
    let on_view = collection.kind == Kind::View;
    let size = |cell: String| (!on_view).then(|| Cell::from(cell));
    let index_bytes = reported(collection.size.index_bytes, bytes);
    let facts = vec![
        ("made as", Some(plain(&made_as(collection)).into())),
        ("documents", Some(counted_how(collection).into())),
        ("data", size(data(collection))),
        ("on disk", size(on_disk(collection))),
        ("indexes on disk", size(index_bytes)),
    ];
    Table::of_facts(&title, facts)
}

fn made_as(collection: &Collection) -> String {
    let options = &collection.options;
    let kind = match collection.kind {
        Kind::Collection => "collection".to_owned(),
        Kind::TimeSeries => {
            let series = options.time_series.clone().unwrap_or_default();
            let meta = series.meta_field.map(|meta| format!(" of each {meta}")).unwrap_or_default();
            format!("time series over {}{meta}", series.time_field)
        }
        Kind::View => format!("view of {}", options.view_on.as_deref().unwrap_or(NOT_REPORTED)),
    };
    let capped = options.capped.map(|capped| {
        let most = [capped.bytes_max.map(bytes), capped.documents_max.map(|most| counted(most, "document"))];
        let most: Vec<_> = most.into_iter().flatten().collect();
        format!("capped at {}", if most.is_empty() { NOT_REPORTED.to_owned() } else { most.join(" and ") })
    });
    let more = [
        capped,
        options.clustered.then(|| "clustered by _id".to_owned()),
        options.validator.then(|| "with a validator".to_owned()),
        options.expire_after_s.map(|seconds| format!("documents expire after {}", duration(seconds))),
    ];
    std::iter::once(kind).chain(more.into_iter().flatten()).collect::<Vec<_>>().join(", ")
}

fn counted_how(collection: &Collection) -> String {
    let number = reported(collection.documents, exact);
    match collection.counting {
        Counting::None => number,
        Counting::Counted => format!("{number}, counted"),
        Counting::Estimated => format!("{number} by the server's metadata, not counted"),
    }
}

fn data(collection: &Collection) -> String {
    let mean = collection.size.document_bytes;
    let mean = mean.map(|mean| format!(", {} a document", whole_bytes(mean))).unwrap_or_default();
    reported(collection.size.data_bytes, bytes) + &mean
}

fn on_disk(collection: &Collection) -> String {
    let size = &collection.size;
    let free = size.free_bytes.filter(|free| *free > 0);
    let more = [
        size.compression.map(|ratio| format!("compression {} (data ÷ on disk)", times_smaller(ratio))),
        free.map(|free| format!("{} of it free", bytes(free))),
    ];
    let more: Vec<_> =
        std::iter::once(reported(size.storage_bytes, bytes)).chain(more.into_iter().flatten()).collect();
    more.join(", ")
}

/// The indexes, with their sizes where at least one is reported.
pub(super) fn indexes(collection: &Collection) -> Table {
    let indexes: Vec<_> = collection.indexes.iter().flatten().collect();
    let sized = indexes.iter().any(|index| index.bytes.is_some());
    let row = |index: &&Index| {
        let keys =
            std::iter::once(index.keys.clone()).chain(index.properties()).collect::<Vec<_>>().join(", ");
        let size = sized.then(|| Cell::from(reported(index.bytes, bytes)));
        let name = Cell::toned(name(&index.name), Tone::Strong);
        std::iter::once(name).chain(size).chain([plain(&keys).into()]).collect()
    };
    let columns: Vec<_> = [Some(left("index")), sized.then(|| right("on disk")), Some(left("keys"))]
        .into_iter()
        .flatten()
        .collect();
    let (rows, flexible) = (indexes.iter().map(row).collect(), columns.len() - 1);
    Table { title: titled("Indexes", collection), columns, rows, flexible }
}

fn titled(what: &str, collection: &Collection) -> String {
    format!("{what} of {}", plain(&collection.namespace))
}

/// The fields.
pub(super) fn fields(collection: &Collection) -> Table {
    let Some(inventory) = &collection.inventory else { return Table::default() };
    let row = |field: &Field| {
        let [min, mean, max] =
            [field.bytes.min as f64, field.bytes.mean, field.bytes.max as f64].map(whole_bytes);
        vec![
            Cell::toned(name(&field.path), Tone::Strong),
            percent(field.share).into(),
            types(field).into(),
            min.into(),
            mean.into(),
            max.into(),
        ]
    };
    let columns =
        vec![left("field"), right("documents"), left("types"), right("min"), right("mean"), right("max")];
    let rows = inventory.fields.iter().map(row).collect();
    let title = format!("{}: {}", titled("Fields", collection), chosen(inventory));
    Table { title, columns, rows, flexible: 2 }
}

fn chosen(inventory: &Inventory) -> String {
    let documents = counted(inventory.documents, "document");
    let documents = match inventory.choice {
        Choice::All if inventory.documents == 1 => "the only document".to_owned(),
        Choice::All => format!("all {documents}"),
        Choice::Random => format!("{documents} chosen at random"),
        Choice::Foremost => format!("the first {documents}"),
    };
    if inventory.cut { format!("{documents}, not all fields are listed") } else { documents }
}

/// The types, the most frequent first, with their shares where there are several.
fn types(field: &Field) -> String {
    let mut types: Vec<_> = field.types.iter().collect();
    types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let share = |count: u64| percent(count as f64 / field.values.max(1) as f64);
    let words: Vec<_> = match types.as_slice() {
        [(name, _)] => vec![(*name).clone()],
        several => several.iter().map(|(name, count)| format!("{name} {}", share(**count))).collect(),
    };
    words.join(", ")
}

/// From when to when.
pub(super) fn times(collection: &Collection) -> Table {
    let row = |times: &Times| {
        let found = match times.source {
            Source::Index => "by the index",
            Source::Scan => "in all documents",
            Source::Inventory => "in the sample only",
        };
        vec![
            Cell::toned(plain(&times.path), Tone::Strong),
            cut(&times.first, MOMENT_MAX).into(),
            cut(&times.last, MOMENT_MAX).into(),
            span(times.span_s).into(),
            found.into(),
        ]
    };
    let columns = vec![left("date"), left("earliest"), left("latest"), right("span"), left("found")];
    let rows = collection.times.iter().map(row).collect();
    Table { title: titled("Dates", collection), columns, rows, flexible: 0 }
}

/// A stretch of time, in days where it is long.
fn span(seconds: f64) -> String {
    let hours = (seconds / 3600.0).round();
    if hours < 48.0 {
        duration(seconds)
    } else {
        format!("{} days {:.0} h", exact((hours / 24.0) as u64), hours % 24.0)
    }
}

/// The forbidden fields; nothing for an empty collection.
pub(super) fn forbidden(collection: &Collection) -> Table {
    if collection.counting == Counting::Counted && collection.documents == Some(0) {
        return Table::default();
    }
    let row = |field: &Forbidden| {
        let (result, tone) = match field.presence {
            Presence::Found => ("found", Tone::Bad),
            Presence::Absent => ("absent", Tone::Good),
            Presence::AbsentInInventory => ("not in the sample", Tone::Normal),
            Presence::NotChecked => ("not checked", Tone::Doubtful),
        };
        vec![
            Cell::toned(name(&field.pattern), Tone::Strong),
            Cell::toned(result, tone),
            field.documents.map_or_else(|| "not counted".to_owned(), exact).into(),
            exact(field.sampled).into(),
            plain(&example(field)).into(),
        ]
    };
    let columns =
        vec![left("forbidden"), left("result"), right("documents"), right("in sample"), left("for example")];
    let rows = collection.forbidden.iter().map(row).collect();
    Table { title: titled("Forbidden fields", collection), columns, rows, flexible: 4 }
}

fn example(field: &Forbidden) -> String {
    let id = field.examples.first().map(|id| format!("_id {id}"));
    field.paths.first().cloned().into_iter().chain(id).collect::<Vec<_>>().join(" in ")
}

/// A forbidden field that was found, in words.
pub(super) fn found_in_words(collection: &Collection, field: &Forbidden) -> String {
    let sample = collection.inventory.as_ref().map_or(0, |inventory| inventory.documents);
    let number = match field.documents {
        Some(documents) => format!("in {}", counted(documents, "document")),
        None => format!("in {} of {} sampled documents", exact(field.sampled), exact(sample)),
    };
    plain(&format!("{} {number} of {}", field.pattern, collection.namespace))
}

/// Some documents.
pub(super) fn samples(collection: &Collection) -> Table {
    let row = |sample: &Sample| {
        let place = match sample.place {
            Place::First => "first",
            Place::Between => "between",
            Place::Last => "last",
        };
        let left_out = if sample.left_out == 0 {
            String::new()
        } else {
            format!("({} left out) ", counted(sample.left_out, "field"))
        };
        vec![
            Cell::toned(place, Tone::Faint),
            bytes(sample.bytes).into(),
            plain(&format!("{left_out}{}", sample.document)).into(),
        ]
    };
    let columns = vec![left(""), right(""), left("")];
    let rows = collection.samples.iter().map(row).collect();
    Table { title: titled("Samples", collection), columns, rows, flexible: 2 }
}
