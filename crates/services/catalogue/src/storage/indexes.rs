//! Creates the indexes: those of SciCat, and further ones, so that no listed query scans a collection.
//!
//! SciCat's text index over all fields is left out: it tokenizes every value on every write. An existing one stays. Searches read an index of
//! the grams of four texts.

use bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

use super::Store;
use crate::documents::search::GRAMS;

/// Indexes of datasets with one field, which SciCat has as well.
const DATASET_SINGLE: [&str; 10] = [
    "owner",
    "contactEmail",
    "sourceFolder",
    "sourceFolderHost",
    "size",
    "type",
    "creationLocation",
    "createdBy",
    "keywords",
    "datasetName",
];
/// The dates by which lists are ordered.
const DATES: [&str; 2] = ["creationTime", "createdAt"];
/// The fields that access depends on; each is followed by a date, so that a list needs no sort.
const ACCESS: [&str; 4] = ["isPublished", "ownerGroup", "accessGroups", "sharedWith"];

/// The codes of an index that cannot be created: other options, other keys under its name, and documents with equal keys.
const CONFLICTS: [i32; 3] = [85, 86, 11_000];

fn plain(keys: Document) -> IndexModel {
    IndexModel::builder().keys(keys).build()
}

fn with(keys: Document, options: IndexOptions) -> IndexModel {
    IndexModel::builder().keys(keys).options(options).build()
}

/// The order of an index of datasets that begins with a field, if there is one.
pub(super) fn order(field: &str) -> Option<Document> {
    let is = |name: &&&str| **name == field;
    let up = DATASET_SINGLE.iter().chain(&ACCESS).find(is).map(|name| doc! {*name: 1});
    up.or_else(|| DATES.iter().find(is).map(|name| doc! {*name: -1}))
}

fn of_datasets() -> Vec<IndexModel> {
    let single = DATASET_SINGLE.iter().map(|field| plain(doc! {*field: 1}));
    let by_date = DATES.iter().map(|date| plain(doc! {*date: -1, "_id": -1}));
    let by_access = ACCESS
        .iter()
        .flat_map(|access| DATES.iter().map(|date| plain(doc! {*access: 1, *date: -1, "_id": -1})));
    let unique = IndexOptions::builder().unique(true).build();
    let sparse = IndexOptions::builder().sparse(true).build();
    let others = [
        with(doc! {"pid": 1}, unique),
        with(doc! {"techniques.pid": 1}, sparse),
        plain(doc! {"updatedAt": 1, "_id": 1}),
    ];
    // Not sparse: it also finds the datasets without grams.
    single.chain(by_date).chain(by_access).chain(others).chain([plain(doc! {GRAMS: 1})]).collect()
}

fn of_blocks() -> Vec<IndexModel> {
    let sparse = IndexOptions::builder().sparse(true).build();
    let single = ["datasetId", "createdBy", "ownerGroup", "accessGroups"];
    let single = single.iter().map(|field| plain(doc! {*field: 1}));
    single.chain([with(doc! {"uncounted": 1}, sparse)]).collect()
}

/// Creates the missing indexes.
///
/// # Errors
/// The refusal of the server.
pub(super) async fn create(store: &Store) -> mongodb::error::Result<()> {
    let by_dataset = vec![plain(doc! {"datasetId": 1}), plain(doc! {"relationships.targetId": 1})];
    let by_document =
        vec![plain(doc! {"documentId": 1, "timestamp": -1}), plain(doc! {"subsystem": 1, "timestamp": -1})];
    let by_reader = vec![
        plain(doc! {"isPublished": 1, "key": 1}),
        plain(doc! {"userGroups": 1, "key": 1}),
        plain(doc! {"key": 1}),
    ];
    for (collection, indexes) in [
        (&store.datasets, of_datasets()),
        (&store.blocks, of_blocks()),
        (&store.staging, vec![plain(doc! {"at": 1})]),
        (&store.attachments, by_dataset),
        (&store.history, by_document),
        (&store.keys, by_reader),
    ] {
        create_in(collection, indexes).await?;
    }
    Ok(())
}

/// Creates indexes at once. If an existing database does not accept one of them, each by itself: an index that has the same keys or the
/// same name with other options stays as it is, and a unique one is left out where documents are alike. The catalogue relies on the key
/// of a document alone.
async fn create_in(
    collection: &Collection<Document>,
    indexes: Vec<IndexModel>,
) -> mongodb::error::Result<()> {
    match collection.create_indexes(indexes.clone()).await {
        Err(error) if is_conflict(&error) => (),
        created => return created.map(drop),
    }
    for index in indexes {
        let keys = index.keys.clone();
        match collection.create_index(index).await {
            Err(error) if is_conflict(&error) => {
                let collection = collection.name();
                tracing::warn!(collection, %keys, %error, "an index is left out: the existing data or index differs");
            }
            created => drop(created?),
        }
    }
    Ok(())
}

/// Whether existing documents or an existing index stand against an index.
fn is_conflict(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(refused) if CONFLICTS.contains(&refused.code))
}
