//! Writes the whole scenario: the document, the indexes, and one phase that fills a similar collection.

use anyhow::Context;
use plimsoll_document::{Error, Program, Settings, Template};
use plimsoll_measure::inspection::{Choice, Collection, Index, Kind as Namespace};
use serde_json::{Map, Value, json};

use super::profile::Profile;
use super::template::{Maker, Sizes};
use super::values::Kind;
use super::yaml::{Entry, block, flow, quoted};

pub use super::template::CopyValues;

/// The largest number of documents that the scenario inserts.
const DOCUMENTS_MAX: u64 = 1_000_000;
/// The number of documents if the collection is empty.
const DOCUMENTS_DEFAULT: u64 = 1_000;
/// The approximate size of one insert, in bytes, and its largest number of documents.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_MAX: u64 = 1_000;
/// The longest name of the collection, in characters.
const NAME_MAX: usize = 80;

/// The collection that the documents come from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Its options, indexes and size.
    pub collection: &'a Collection,
    /// The way in which the documents were chosen. `None` if no document was read.
    pub choice: Option<Choice>,
    /// Whether values may be copied.
    pub copy_values: CopyValues,
}

/// The scenario as YAML with comments.
///
/// # Errors
/// When the template does not compile.
pub fn scenario(profile: &Profile, origin: &Origin<'_>) -> anyhow::Result<String> {
    let document = document(profile, origin.copy_values)?;
    let namespace = origin.collection.namespace.as_str();
    let id = id(profile);
    let mut text = head(profile, origin);
    text += &format!("title: {}\n", quoted(&format!("documents like those of {namespace}")));
    text += &format!("collection: plimsoll.{}\n", collection(namespace));
    id.iter().for_each(|line| text += &format!("{line}\n"));
    text += &match document.is_empty() {
        true => "# No field was seen: write the fields of a document here.\ndocument: {}\n".to_owned(),
        false => format!("document:\n{}", block(&document, 2)),
    };
    text += &phase(profile, origin.collection);
    Ok(text)
}

/// The fields of the document. If the largest document would be too large, texts and arrays get their mean size.
fn document(profile: &Profile, copy: CopyValues) -> anyhow::Result<Vec<Entry>> {
    let make = |sizes| Maker { copy, sizes }.document(&profile.root);
    let entries = make(Sizes::Ranges);
    match compiled(&entries) {
        Err(Error::TooLarge { .. }) => {
            let entries = make(Sizes::Means);
            compiled(&entries).context("derive the document")?;
            Ok(entries)
        }
        checked => checked.map(|()| entries).context("derive the document"),
    }
}

fn compiled(entries: &[Entry]) -> Result<(), Error> {
    let fields = entries.iter().cloned().map(|entry| (entry.key, entry.tree.into_value()));
    let template = Template::from(fields.collect::<Map<String, Value>>());
    Program::compile(&template, &Settings::default()).map(drop)
}

/// The comments at the top.
fn head(profile: &Profile, origin: &Origin<'_>) -> String {
    let seen = profile.documents();
    let choice = match origin.choice {
        Some(Choice::All) => "all",
        Some(Choice::Random) => "chosen by the server at random",
        Some(Choice::First) => "the first that the server gave",
        None => "none could be read",
    };
    let values = match origin.copy_values {
        CopyValues::No => {
            "Values are synthetic. Names of fields, shares, sizes and rounded ranges are those of the collection."
        }
        CopyValues::Yes => "Values of fields with few different values are copied; all others are synthetic.",
    };
    let collection = origin.collection;
    let total = collection.documents.map(|count| format!(" of {count}")).unwrap_or_default();
    let mut lines = vec![
        format!("Derived from {}: {seen}{total} documents, {choice}.", quoted(&collection.namespace)),
        values.to_owned(),
    ];
    let left_out = profile.root.left_out;
    lines
        .extend((left_out > 0).then(|| {
            format!("{left_out} values of further fields are left out: there are too many fields.")
        }));
    lines.extend(kind(collection));
    lines.into_iter().map(|line| format!("# {line}\n")).collect()
}

/// Properties of the collection that the scenario does not take over.
fn kind(collection: &Collection) -> Vec<String> {
    let options = &collection.options;
    let found = [
        (collection.kind == Namespace::View, "a view"),
        (collection.kind == Namespace::TimeSeries, "a time series"),
        (options.capped.is_some(), "capped"),
        (options.validator, "validated"),
        (options.clustered, "clustered"),
    ];
    let found: Vec<_> = found.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    let line = format!("The collection is {}; the scenario's collection is not.", found.join(", "));
    (!found.is_empty()).then_some(line).into_iter().collect()
}

/// The name of the scenario's collection, which always differs from the original collection.
fn collection(namespace: &str) -> String {
    let name = namespace.split_once('.').map_or(namespace, |(_, name)| name);
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("like_{}", name.chars().take(NAME_MAX).map(plain).collect::<String>())
}

/// The comment on the types of `_id`, and the key `id` for strings. Empty if all are ObjectIds or no document
/// was read.
fn id(profile: &Profile) -> Vec<String> {
    let Some(values) = profile.field("_id") else { return Vec::new() };
    let kinds: Vec<_> = values.ranked().iter().map(|group| group.kind).collect();
    match kinds.as_slice() {
        [Kind::ObjectId] => Vec::new(),
        [Kind::Text] => {
            vec!["# Each _id was a string. Plimsoll's are strings of 24 bytes, so that it can prove each document.".into(), "id: string".into()]
        }
        other => {
            let names: Vec<_> = other.iter().map(|kind| kind.name()).collect();
            vec![
                format!("# Each _id was of the type {}. Plimsoll's are ObjectIds, so that it can prove each document;", names.join(" or ")),
                "# `id: own` with an _id in the document keeps another type, and documents are then only counted.".into(),
            ]
        }
    }
}

fn phase(profile: &Profile, collection: &Collection) -> String {
    let batch = (BATCH_BYTES / profile.mean_bytes().max(1)).clamp(1, BATCH_MAX);
    let operation = json!({"insert": {"batch": batch}});
    let mut text = format!(
        "phases:\n  - name: fill\n    load:\n      insert:\n        operation: {}\n        arrivals: {{closed: {{writers: 4}}}}\n",
        flow(&operation)
    );
    let indexes: Vec<_> = collection.indexes.iter().flatten().filter(|index| index.name != "_id_").collect();
    let (kept, left): (Vec<&Index>, Vec<&Index>) =
        indexes.into_iter().partition(|index| key(index).is_some());
    for index in &left {
        text += &format!(
            "    # Left out: the index {}, whose values must have a special form.\n",
            quoted(&index.name)
        );
    }
    if !kept.is_empty() {
        text += "    indexes:\n";
    }
    for index in kept {
        let properties = properties(index);
        if !properties.is_empty() {
            text += &format!("      # {} there; not here.\n", properties.join(", "));
        }
        text += &format!("      - {}\n", flow(&key(index).unwrap_or_default()));
    }
    text += &stop(collection.documents.unwrap_or(profile.documents()));
    text
}

fn stop(documents: u64) -> String {
    let (count, comment) = match documents {
        0 => (DOCUMENTS_DEFAULT, "    # The collection is empty.\n".to_owned()),
        many if many > DOCUMENTS_MAX => (DOCUMENTS_MAX, format!("    # The collection has {many}.\n")),
        count => (count, String::new()),
    };
    format!("{comment}    stop: {{documents: {count}}}\n")
}

/// The keys of an index, if each is ascending, descending or hashed. `None` for other indexes: they need
/// values of a certain form.
fn key(index: &Index) -> Option<Value> {
    let key: Map<String, Value> = serde_json::from_str(&index.keys).ok()?;
    let is_plain = |order: &Value| order.is_number() || order == "hashed";
    (!key.is_empty() && key.values().all(is_plain)).then_some(Value::Object(key))
}

/// Properties of the index that the scenario does not take over. A filter is not repeated: it may hold
/// values.
fn properties(index: &Index) -> Vec<&'static str> {
    let found = [
        (index.unique, "Unique"),
        (index.sparse, "Sparse"),
        (index.hidden, "Hidden"),
        (index.expire_after_s.is_some(), "Expiring"),
        (index.partial.is_some(), "Partial"),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
