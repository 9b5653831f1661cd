//! Fills in the grams of datasets that another program has written: those of an existing database, and later changes of their texts.

use bson::{Bson, DateTime, Document, doc};

use super::{Error, Store, updates};
use crate::documents::search::{GRAMS, SEARCHED, grams};

impl Store {
    /// Gives the next datasets that changed up to five seconds ago the grams of their texts. Returns the number of datasets that were read: 0
    /// means that the job has caught up.
    ///
    /// # Errors
    /// The server failed.
    pub async fn index_texts(&self, now: DateTime) -> Result<usize, Error> {
        let fields = SEARCHED.iter().chain(&[GRAMS]).map(|name| ((*name).to_owned(), Bson::Int32(1)));
        let datasets = self.changed(GRAMS, fields.collect(), now).await?;
        let missing: Vec<Document> = datasets.iter().filter_map(update).collect();
        if let Some(reason) = updates::send(&self.client, &self.datasets, &missing).await? {
            tracing::warn!(reason, "a dataset stays without its index of texts: searches compare it");
        }
        self.followed(GRAMS, &datasets).await?;
        Ok(datasets.len())
    }
}

/// The update of a dataset whose grams are not those of its texts. It has no effect if the dataset has changed since it was read: then the job
/// finds it again.
fn update(dataset: &Document) -> Option<Document> {
    let right = grams(dataset).map(Bson::Array);
    if dataset.get(GRAMS) == right.as_ref() {
        return None;
    }
    let change = match right {
        Some(grams) => doc! {"$set": {GRAMS: grams}},
        None => doc! {"$unset": {GRAMS: ""}},
    };
    Some(
        doc! {"q": {"_id": dataset.get("_id").cloned(), "updatedAt": dataset.get("updatedAt").cloned()}, "u": change},
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datasets_with_other_grams_are_updated() {
        let mut dataset = doc! {"_id": "a", "updatedAt": DateTime::from_millis(1), "datasetName": "scan 1"};
        let filled = update(&dataset).unwrap();
        assert_eq!(
            filled.get_document("q").unwrap(),
            &doc! {"_id": "a", "updatedAt": DateTime::from_millis(1)}
        );
        dataset.extend(filled.get_document("u").unwrap().get_document("$set").unwrap().clone());
        assert_eq!(update(&dataset), None);
        dataset.insert("datasetName", "scan 2");
        assert!(update(&dataset).unwrap().get_document("u").unwrap().contains_key("$set"));
        dataset.insert("description", "x".repeat(1 << 20));
        assert_eq!(update(&dataset).unwrap().get_document("u").unwrap(), &doc! {"$unset": {GRAMS: ""}});
    }
}
