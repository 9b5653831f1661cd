//! Computes the changes between two inspections of a deployment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Choice, Collection, Counting, Index, Inspection, Size};

/// A value before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change<T> {
    /// Before.
    pub before: Option<T>,
    /// After.
    pub after: Option<T>,
}

impl Change<u64> {
    /// The growth; negative if the value shrank. Absent if one of the two is absent.
    pub fn growth(&self) -> Option<i64> {
        let [before, after] = [self.before?, self.after?].map(|value| i64::try_from(value).ok());
        after?.checked_sub(before?)
    }
}

/// The changes of a collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// `database.collection`.
    pub namespace: String,
    /// Whether it exists.
    pub exists: Change<bool>,
    /// Documents in it.
    pub documents: Change<u64>,
    /// Whether both numbers of documents were counted, not taken from the server's metadata.
    pub counted: bool,
    /// Bytes of all documents, uncompressed.
    pub data_bytes: Change<u64>,
    /// Average bytes of a document, uncompressed.
    pub document_bytes: Change<f64>,
    /// Bytes on disk without indexes, compressed.
    pub storage_bytes: Change<u64>,
    /// Free bytes among the bytes on disk.
    pub free_bytes: Change<u64>,
    /// Bytes of all indexes on disk.
    pub index_bytes: Change<u64>,
    /// Bytes of the documents ÷ bytes on disk.
    pub compression: Change<f64>,
    /// Indexes that are new, or of another kind than before: name and keys.
    pub indexes_added: Vec<String>,
    /// Indexes that are gone, or of another kind now: name and keys.
    pub indexes_removed: Vec<String>,
    /// New fields; empty if the fields were not inspected both times.
    pub fields_added: Vec<String>,
    /// Missing fields.
    pub fields_removed: Vec<String>,
    /// Whether both inspections covered all documents: otherwise a rare field may come and go by chance.
    pub fields_of_all: bool,
}

/// The changes of a collection.
pub fn difference(before: &Collection, after: &Collection) -> Difference {
    let change =
        |get: fn(&Size) -> Option<u64>| Change { before: get(&before.size), after: get(&after.size) };
    let ratio = |get: fn(&Size) -> Option<f64>| Change { before: get(&before.size), after: get(&after.size) };
    let (indexes_added, indexes_removed) = apart(indexes(before), indexes(after));
    let (fields_added, fields_removed) = apart(fields(before), fields(after));
    Difference {
        namespace: after.namespace.clone(),
        exists: Change { before: Some(before.exists), after: Some(after.exists) },
        documents: Change { before: before.documents, after: after.documents },
        counted: before.counting == Counting::Counted && after.counting == Counting::Counted,
        data_bytes: change(|size| size.data_bytes),
        document_bytes: ratio(|size| size.document_bytes),
        storage_bytes: change(|size| size.storage_bytes),
        free_bytes: change(|size| size.free_bytes),
        index_bytes: change(|size| size.index_bytes),
        compression: ratio(|size| size.compression),
        indexes_added,
        indexes_removed,
        fields_added,
        fields_removed,
        fields_of_all: [before, after].iter().all(|collection| {
            collection.inventory.as_ref().is_some_and(|inventory| inventory.choice == Choice::All)
        }),
    }
}

/// The changes of all collections of both inspections, those of the later one first.
pub fn differences(before: &Inspection, after: &Inspection) -> Vec<Difference> {
    let find = |inspection: &Inspection, namespace: &str| {
        let found = inspection.collections.iter().find(|collection| collection.namespace == namespace);
        found.cloned().unwrap_or_else(|| Collection::missing(namespace))
    };
    let is_gone = |collection: &&Collection| !find(after, &collection.namespace).exists;
    let names = after.collections.iter().chain(before.collections.iter().filter(is_gone));
    names.map(|each| difference(&find(before, &each.namespace), &find(after, &each.namespace))).collect()
}

/// Name, keys and kind of every index.
fn indexes(collection: &Collection) -> Option<Vec<String>> {
    Some(collection.indexes.as_ref()?.iter().map(Index::in_words).collect())
}

fn fields(collection: &Collection) -> Option<Vec<String>> {
    Some(collection.inventory.as_ref()?.fields.iter().map(|field| field.path.clone()).collect())
}

/// The names only in the second list, and those only in the first; nothing if one is unknown.
fn apart(before: Option<Vec<String>>, after: Option<Vec<String>>) -> (Vec<String>, Vec<String>) {
    let (Some(before), Some(after)) = (before, after) else { return Default::default() };
    let only = |some: &[String], others: &[String]| {
        some.iter().filter(|name| !others.contains(name)).cloned().collect::<Vec<_>>()
    };
    (only(&after, &before), only(&before, &after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspection::{Field, Inventory, Reported};

    fn index(name: &str, unique: bool) -> Index {
        Index { name: name.into(), keys: format!("{{\"{name}\":1}}"), unique, ..Index::default() }
    }

    fn collection(documents: u64, indexes: Vec<Index>, fields: &[&str]) -> Collection {
        let field = |path: &&str| Field { path: (*path).into(), ..Field::default() };
        let inventory = Inventory { fields: fields.iter().map(field).collect(), ..Inventory::default() };
        Collection {
            namespace: "d.c".into(),
            exists: true,
            documents: Some(documents),
            counting: Counting::Counted,
            size: Size::of(&Reported {
                documents: Some(10),
                data_bytes: Some(documents * 100),
                storage_bytes: Some(documents * 20),
                free_bytes: Some(1),
                index_bytes: Some(2),
            }),
            indexes: Some(indexes),
            inventory: Some(inventory),
            ..Collection::default()
        }
    }

    #[test]
    fn a_difference_has_counts_sizes_indexes_and_fields() {
        let before = collection(10, vec![index("_id", false), index("a", false)], &["_id", "a"]);
        let after = collection(30, vec![index("_id", false), index("a", true)], &["_id", "b"]);
        let difference = difference(&before, &after);
        assert_eq!((difference.documents.growth(), difference.counted), (Some(20), true));
        assert_eq!(
            (difference.data_bytes.growth(), difference.storage_bytes.growth()),
            (Some(2000), Some(400))
        );
        assert_eq!(difference.compression, Change { before: Some(5.0), after: Some(5.0) });
        assert_eq!(difference.indexes_added, ["a {\"a\":1}, unique"]);
        assert_eq!(difference.indexes_removed, ["a {\"a\":1}"]);
        assert_eq!(
            (difference.fields_added, difference.fields_removed),
            (vec!["b".into()], vec!["a".into()])
        );
    }

    #[test]
    fn nothing_changes_between_a_collection_and_itself() {
        let one = collection(10, vec![index("_id", false)], &["_id"]);
        let same = difference(&one, &one);
        assert_eq!((same.documents.growth(), same.data_bytes.growth()), (Some(0), Some(0)));
        assert!(same.indexes_added.is_empty() && same.fields_removed.is_empty());
    }

    #[test]
    fn fields_that_were_not_inspected_are_neither_new_nor_missing() {
        let before = Collection { inventory: None, indexes: None, ..collection(1, vec![], &[]) };
        let after = collection(1, vec![index("_id", false)], &["_id"]);
        for (before, after) in [(&before, &after), (&after, &before)] {
            let difference = difference(before, after);
            assert!(difference.fields_added.is_empty() && difference.fields_removed.is_empty());
            assert!(difference.indexes_added.is_empty() && difference.indexes_removed.is_empty());
        }
    }

    #[test]
    fn an_unreported_size_has_no_growth() {
        let change = |before, after| Change { before, after }.growth();
        assert_eq!((change(None, Some(1)), change(Some(1), None)), (None, None));
        assert_eq!((change(Some(5), Some(3)), change(Some(0), Some(u64::MAX))), (Some(-2), None));
    }

    #[test]
    fn new_and_missing_collections_are_listed() {
        let named = |name: &str| Collection { namespace: name.into(), ..collection(5, vec![], &["_id"]) };
        let look = |names: &[&str]| Inspection {
            collections: names.iter().map(|name| named(name)).collect(),
            ..Inspection::default()
        };
        let changes = differences(&look(&["d.a", "d.b"]), &look(&["d.b", "d.c"]));
        let found: Vec<_> = changes
            .iter()
            .map(|change| (change.namespace.as_str(), change.exists.before, change.documents.growth()))
            .collect();
        assert_eq!(
            found,
            [("d.b", Some(true), Some(0)), ("d.c", Some(false), Some(5)), ("d.a", Some(true), Some(-5))]
        );
        assert_eq!(changes[1].fields_added, ["_id"]);
    }
}
