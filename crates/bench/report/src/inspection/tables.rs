//! Builds the tables of an inspection.

use plimsoll_measure::inspection::{
    Choice, Collection, Counting, Field, Forbidden, Index, Inspection, Inventory, Kind, Presence, Sample,
    SamplePosition, Source,
};

use crate::layout::cut;
use crate::prose::plain;
use crate::tables::{Cell, Table, Tone};
use crate::units::{NOT_REPORTED, bytes, counted, duration, exact, or_dash, percent, reported, three_digits};

/// The longest name in a column, in characters.
const NAME_MAX: usize = 36;
/// The longest time in a column, in characters: a time with milliseconds fits.
const MOMENT_MAX: usize = 24;

fn name(text: &str) -> String {
    cut(&plain(text), NAME_MAX)
}

/// Every database with its size.
pub(super) fn databases(inspection: &Inspection) -> Table {
    Table::of("Databases", &inspection.databases)
        .left("database", |it| Cell::strong(plain(&it.name)))
        .right("collections", |it| reported(it.collections, exact))
        .right("documents", |it| reported(it.documents, exact))
        .right("data", |it| reported(it.data_bytes, bytes))
        .right("on disk", |it| reported(it.storage_bytes, bytes))
        .right("indexes on disk", |it| reported(it.index_bytes, bytes))
        .table()
}

/// All collections at a glance.
pub(super) fn overview(inspection: &Inspection) -> Table {
    Table::of("Collections", &inspection.collections)
        .left("collection", |it| Cell::strong(plain(&it.namespace)))
        .right("documents", documents)
        .right("data", |it| reported(it.size.data_bytes, bytes))
        .right("a document", |it| or_dash(it.size.document_bytes, whole_bytes))
        .right("on disk", |it| reported(it.size.storage_bytes, bytes))
        .right("compression", |it| or_dash(it.size.compression, times_smaller))
        .right("indexes", |it| reported(it.indexes.as_ref(), |indexes| exact(indexes.len() as u64)))
        .table()
}

/// The number of documents, marked if it comes from the server's metadata.
fn documents(collection: &Collection) -> String {
    let sign = if collection.counting == Counting::Estimated { "≈ " } else { "" };
    reported(collection.documents, |documents| format!("{sign}{}", exact(documents)))
}

/// A mean number of bytes, rounded, as text.
pub(super) fn whole_bytes(mean: f64) -> String {
    bytes(mean.round().max(0.0) as u64)
}

/// A compression ratio as text, such as `3.20 ×`.
pub(super) fn times_smaller(ratio: f64) -> String {
    format!("{} ×", three_digits(ratio))
}

/// The facts of a collection.
pub(super) fn facts(collection: &Collection) -> Table {
    let title = plain(&collection.namespace);
    if !collection.exists {
        return Table::of_facts(
            &title,
            vec![("documents", Some("none: the collection does not exist".into()))],
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
    let indexes = || collection.indexes.iter().flatten();
    let keys = |it: &Index| {
        let keys = std::iter::once(it.keys.clone()).chain(it.properties());
        plain(&keys.collect::<Vec<_>>().join(", "))
    };
    let table =
        Table::of(titled("Indexes", collection), indexes()).left("index", |it| Cell::strong(name(&it.name)));
    let is_sized = indexes().any(|it| it.bytes.is_some());
    let table = if is_sized { table.right("on disk", |it| reported(it.bytes, bytes)) } else { table };
    table.left("keys", keys).wrapped().table()
}

fn titled(what: &str, collection: &Collection) -> String {
    format!("{what} of {}", plain(&collection.namespace))
}

/// The fields of the inspected documents, with their types and sizes.
pub(super) fn fields(collection: &Collection) -> Table {
    let Some(inventory) = &collection.inventory else { return Table::default() };
    let title = format!("{}: {}", titled("Fields", collection), chosen(inventory));
    Table::of(title, &inventory.fields)
        .left("field", |it| Cell::strong(name(&it.path)))
        .right("documents", |it| percent(it.share))
        .left("types", types)
        .flexible()
        .right("min", |it| bytes(it.bytes.min))
        .right("mean", |it| whole_bytes(it.bytes.mean))
        .right("max", |it| bytes(it.bytes.max))
        .table()
}

fn chosen(inventory: &Inventory) -> String {
    let documents = counted(inventory.documents, "document");
    let documents = match inventory.choice {
        Choice::All if inventory.documents == 1 => "the only document".to_owned(),
        Choice::All => format!("all {documents}"),
        Choice::Random => format!("{documents} chosen at random"),
        Choice::First => format!("the first {documents}"),
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

/// The earliest and the latest moments.
pub(super) fn times(collection: &Collection) -> Table {
    Table::of(titled("Dates", collection), &collection.times)
        .left("date", |it| Cell::strong(plain(&it.path)))
        .left("earliest", |it| cut(&it.first, MOMENT_MAX))
        .left("latest", |it| cut(&it.last, MOMENT_MAX))
        .right("span", |it| span(it.span_s))
        .left("found", |it| match it.source {
            Source::Index => "by the index",
            Source::Scan => "in all documents",
            Source::Inventory => "in the sample only",
        })
        .table()
}

/// A duration, in days if it is long.
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
    Table::of(titled("Forbidden fields", collection), &collection.forbidden)
        .left("forbidden", |it| Cell::strong(name(&it.pattern)))
        .left("result", |it| match it.presence {
            Presence::Found => Cell::toned("found", Tone::Bad),
            Presence::Absent => Cell::toned("absent", Tone::Good),
            Presence::AbsentInInventory => "not in the sample".into(),
            Presence::NotChecked => Cell::toned("not checked", Tone::Doubtful),
        })
        .right("documents", |it| it.documents.map_or_else(|| "not counted".to_owned(), exact))
        .right("in sample", |it| exact(it.sampled))
        .left("for example", |it| plain(&example(it)))
        .flexible()
        .table()
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

/// The sampled documents.
pub(super) fn samples(collection: &Collection) -> Table {
    let left_out = |it: &Sample| match it.left_out {
        0 => String::new(),
        fields => format!("({} left out) ", counted(fields, "field")),
    };
    Table::of(titled("Samples", collection), &collection.samples)
        .left("", |it| {
            let place = match it.place {
                SamplePosition::First => "first",
                SamplePosition::Between => "between",
                SamplePosition::Last => "last",
            };
            Cell::toned(place, Tone::Faint)
        })
        .right("", |it| bytes(it.bytes))
        .left("", |it| plain(&format!("{}{}", left_out(it), it.document)))
        .flexible()
        .table()
}
