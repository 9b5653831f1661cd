//! Creates, reads, changes and removes datasets, their attachments and their history.

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};

use super::error::{duplicates, encoded_bytes, fits, is_duplicate};
use super::transaction::{self, Matches, Outcome, Write};
use super::{ACCESS_ATTEMPTS_MAX, Error, READ_MAX, Room, Store, room};
use crate::Refusal;
use crate::documents::block::INHERITED;
use crate::documents::dataset::Patch;
use crate::documents::stamp::later;
use crate::documents::{history, search};

/// The maximum number of history entries of a dataset in an answer.
const HISTORY_MAX: i64 = 100;
/// The maximum number of attachments of a dataset in an answer.
const ATTACHMENTS_MAX: i64 = 1_000;

impl Store {
    /// Stores a new dataset.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] if its PID exists.
    pub async fn create(&self, dataset: &Document) -> Result<(), Error> {
        fits(dataset)?;
        let pid = dataset.get_str("_id").unwrap_or_default();
        self.datasets
            .insert_one(dataset)
            .await
            .map(drop)
            .map_err(|error| if is_duplicate(&error) { exists(pid).into() } else { error.into() })
    }

    /// Stores new datasets in one command. Returns the refusal of each dataset that is not stored, by its index.
    ///
    /// # Errors
    /// The server failed; some may be stored.
    pub async fn create_many(&self, datasets: &[Document]) -> Result<Vec<(usize, Refusal)>, Error> {
        let too_large = |(place, dataset)| Some((place, fits(dataset).err()?));
        let mut refused: Vec<(usize, Refusal)> = datasets.iter().enumerate().filter_map(too_large).collect();
        let is_refused = |place: usize| refused.iter().any(|(refused, _)| *refused == place);
        let places: Vec<usize> = (0..datasets.len()).filter(|place| !is_refused(*place)).collect();
        let accepted: Vec<&Document> = places.iter().filter_map(|place| datasets.get(*place)).collect();
        if accepted.is_empty() {
            return Ok(refused);
        }
        if let Err(error) = self.datasets.insert_many(accepted.iter().copied()).ordered(false).await {
            let existing = duplicates(&error).ok_or(error)?;
            refused.extend(existing.into_iter().filter_map(|index| {
                Some((*places.get(index)?, exists(accepted.get(index)?.get_str("_id").unwrap_or_default())))
            }));
        }
        Ok(refused)
    }

    /// The number of these PIDs that exist.
    ///
    /// # Errors
    /// The server failed.
    pub async fn count_existing(&self, pids: &[String]) -> Result<u64, Error> {
        Ok(self.datasets.count_documents(doc! {"_id": {"$in": pids}}).max_time(READ_MAX).await?)
    }

    /// The number of all datasets, from the statistics of the collection.
    ///
    /// # Errors
    /// The server failed.
    pub async fn estimated_count(&self) -> Result<u64, Error> {
        Ok(self.datasets.estimated_document_count().await?)
    }

    /// A dataset by its PID, in one read.
    ///
    /// # Errors
    /// The server failed.
    pub async fn dataset(&self, pid: &str) -> Result<Option<Document>, Error> {
        self.dataset_in(pid, &|_| Ok(())).await
    }

    /// A dataset by its PID, in one read, if it has room.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn dataset_in(&self, pid: &str, room: Room<'_>) -> Result<Option<Document>, Error> {
        let raw = self.datasets.clone_with_type::<RawDocumentBuf>();
        let found = raw.find_one(doc! {"_id": pid}).projection(search::shown(None)).max_time(READ_MAX);
        let Some(raw) = found.await? else { return Ok(None) };
        room(raw.as_bytes().len())?;
        Ok(Some(Document::try_from(raw).map_err(mongodb::error::Error::from)?))
    }

    /// Changes a dataset that was read as `stored`, and keeps the change in the history. Its blocks and attachments follow a change of its
    /// groups. Returns the dataset after it.
    ///
    /// # Errors
    /// [`Error::Changed`] if the dataset has changed since.
    pub async fn update(
        &self,
        stored: &Document,
        patch: &Patch,
        user: &str,
        now: DateTime,
    ) -> Result<Document, Error> {
        let before = stored.get("updatedAt").cloned().unwrap_or(Bson::Null);
        let at = later(&before, now);
        let stamps = doc! {"updatedBy": user, "updatedAt": at};
        let mut changed = stored.clone();
        changed.extend(patch.set.clone());
        changed.extend(stamps.clone());
        patch.unset.iter().for_each(|name| drop(changed.remove(name)));
        if encoded_bytes(&changed) > encoded_bytes(stored) {
            fits(&changed)?;
        }
        let change = change(patch, stamps, &changed);
        let id = stored.get("_id").cloned();
        let of_dataset = doc! {"datasetId": id.clone()};
        let filter = doc! {"_id": id, "updatedAt": before};
        let mut writes = vec![
            Write::Update(self.datasets.clone(), filter, change, Matches::Some),
            Write::Insert(self.history.clone(), history::update(stored, patch, user, at)),
        ];
        if let Some(change) = inherited(patch) {
            let of_this = attached_alone(stored.get_str("_id").unwrap_or_default());
            writes.push(Write::UpdateAll(self.blocks.clone(), of_dataset, change.clone()));
            writes.push(Write::UpdateAll(self.attachments.clone(), of_this, change));
        }
        match transaction::run(&self.client, self.transactions, &writes).await? {
            Outcome::Unmatched(_) => Err(Error::Changed),
            Outcome::Done => Ok(changed),
        }
    }

    /// Removes a dataset with its blocks and attachments, and keeps it in the history.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if it does not exist; [`Error::Changed`] if blocks are added all the time.
    pub async fn delete(&self, stored: &Document, user: &str, now: DateTime) -> Result<(), Error> {
        let pid = stored.get_str("_id").unwrap_or_default();
        for _ in 0..ACCESS_ATTEMPTS_MAX {
            match self.delete_once(pid, stored, user, now).await {
                Err(Error::Changed) => (),
                done => return done,
            }
        }
        Err(Error::Changed)
    }

    /// Removes a dataset unless a block is added or removed meanwhile.
    async fn delete_once(
        &self,
        pid: &str,
        stored: &Document,
        user: &str,
        now: DateTime,
    ) -> Result<(), Error> {
        let counts = doc! {"size": 1, "numberOfFiles": 1};
        let counts = self.datasets.find_one(doc! {"_id": pid}).projection(counts).max_time(READ_MAX).await?;
        let counts = counts.ok_or_else(|| Refusal::no_dataset(pid))?;
        let count = |name: &str| counts.get(name).cloned();
        let unchanged = doc! {"_id": pid, "size": count("size"), "numberOfFiles": count("numberOfFiles")};
        let long = self.long_blocks(pid).await?;
        let of_dataset = doc! {"datasetId": pid};
        let mut writes: Vec<Write> = long.iter().map(|id| self.left_to_the_sweep(id, now)).collect();
        writes.extend([
            Write::Delete(self.datasets.clone(), unchanged, Matches::Some),
            Write::Delete(self.blocks.clone(), of_dataset.clone(), Matches::Any),
            Write::Delete(self.attachments.clone(), attached_alone(pid), Matches::Any),
            Write::UpdateAll(self.attachments.clone(), attached(pid), detach(pid)),
            Write::UpdateAll(self.attachments.clone(), of_dataset, doc! {"$unset": {"datasetId": ""}}),
            Write::Insert(self.history.clone(), history::delete(stored, user, now)),
        ]);
        match transaction::run(&self.client, self.transactions, &writes).await? {
            Outcome::Unmatched(_) => Err(Error::Changed),
            Outcome::Done => self.remove_left(&long).await,
        }
    }

    /// The changes of a dataset, the newest first. Changes of an earlier dataset with the same PID are left out, because the readers of
    /// this dataset may not see them.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn history(&self, stored: &Document, room: Room<'_>) -> Result<Vec<Document>, Error> {
        let mut filter = doc! {"documentId": stored.get("_id").cloned(), "subsystem": "Dataset"};
        if let Ok(created) = stored.get_datetime("createdAt") {
            filter.insert("timestamp", doc! {"$gte": *created});
        }
        let entries = self.history.find(filter).sort(doc! {"timestamp": -1}).limit(HISTORY_MAX);
        let entries = room::read(entries.max_time(READ_MAX).await?, room).await?;
        // Clocks of several instances may differ, so a removal also ends the history.
        Ok(entries.into_iter().take_while(|entry| !history::is_removal(entry)).collect())
    }

    /// Entries of the history that meet conditions, the newest first.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn changes(
        &self,
        filter: &Document,
        skip: u64,
        limit: u64,
        room: Room<'_>,
    ) -> Result<Vec<Document>, Error> {
        let found = self.history.find(filter.clone()).sort(doc! {"timestamp": -1}).skip(skip);
        // The bounds of a page fit into 63 bits.
        room::read(found.limit(limit as i64).max_time(READ_MAX).await?, room).await
    }

    /// The number of entries of the history that meet conditions.
    ///
    /// # Errors
    /// The server failed.
    pub async fn count_changes(&self, filter: &Document) -> Result<u64, Error> {
        Ok(self.history.count_documents(filter.clone()).max_time(READ_MAX).await?)
    }

    /// Conditions that leave out the changes of an earlier dataset with the same PID.
    ///
    /// # Errors
    /// The server failed.
    pub async fn own_changes(&self, stored: &Document, filter: Document) -> Result<Document, Error> {
        let removals = doc! {"documentId": stored.get("_id").cloned(), "operation": "delete"};
        let last = self.history.find_one(removals).sort(doc! {"timestamp": -1}).max_time(READ_MAX).await?;
        let mut since = Document::new();
        if let Ok(created) = stored.get_datetime("createdAt") {
            since.insert("$gte", *created);
        }
        if let Some(removed) = last.as_ref().and_then(|entry| entry.get_datetime("timestamp").ok()) {
            since.insert("$gt", *removed);
        }
        let mut own = doc! {"operation": "update"};
        if !since.is_empty() {
            own.insert("timestamp", since);
        }
        Ok(doc! {"$and": [filter, own]})
    }

    /// Stores an attachment of datasets that were read before.
    ///
    /// # Errors
    /// [`Error::Changed`] if a dataset is gone or its access has changed since, [`Refusal::Conflict`] if the key exists.
    pub async fn attach(&self, attachment: &Document, datasets: &[Document]) -> Result<(), Error> {
        fits(attachment)?;
        let insert = Write::Insert(self.attachments.clone(), attachment.clone());
        match self.with_datasets(datasets, insert).await {
            Err(Error::Database(error)) if is_duplicate(&error) => {
                Err(Refusal::Conflict("An attachment with this aid already exists!".into()).into())
            }
            done => done,
        }
    }

    /// Runs a write if datasets still have the access that they had when they were read. It marks the datasets, so that a removal or a
    /// change of their access at the same time conflicts with it.
    async fn with_datasets(&self, datasets: &[Document], write: Write) -> Result<(), Error> {
        let mark = doc! {"$inc": {"attachmentChanges": 1_i64}};
        let touch =
            |it: &Document| Write::Update(self.datasets.clone(), as_read(it), mark.clone(), Matches::Some);
        let writes: Vec<Write> = datasets.iter().map(touch).chain([write]).collect();
        let pid = datasets.first().and_then(|dataset| dataset.get_str("_id").ok());
        let _locked = self.locks.lock(pid.unwrap_or_default()).await;
        match transaction::run(&self.client, self.transactions, &writes).await? {
            Outcome::Done => Ok(()),
            Outcome::Unmatched(_) => Err(Error::Changed),
        }
    }

    /// An attachment by its key: of a dataset, or of any.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn attachment(
        &self,
        pid: Option<&str>,
        id: &str,
        room: Room<'_>,
    ) -> Result<Option<Document>, Error> {
        let mut filter = doc! {"_id": id};
        filter.extend(pid.map(attached).unwrap_or_default());
        let found = self.attachments.find(filter).limit(1).max_time(READ_MAX);
        Ok(room::read(found.await?, room).await?.pop())
    }

    /// Changes an attachment that was read as `stored`. `datasets` are those that it has afterwards, as they were read.
    ///
    /// # Errors
    /// [`Error::Changed`] if it has changed since, or if a dataset is gone or its access has changed.
    pub async fn update_attachment(
        &self,
        stored: &Document,
        changed: &Document,
        datasets: &[Document],
    ) -> Result<(), Error> {
        fits(changed)?;
        let unchanged =
            doc! {"_id": stored.get("_id").cloned(), "updatedAt": stored.get("updatedAt").cloned()};
        let set = changed.iter().filter(|(name, _)| *name != "_id");
        let set: Document = set.map(|(name, value)| (name.clone(), value.clone())).collect();
        let unset = stored.keys().filter(|name| !changed.contains_key(*name));
        let unset: Document = unset.map(|name| (name.clone(), Bson::from(""))).collect();
        let mut change = doc! {"$set": set};
        if !unset.is_empty() {
            change.insert("$unset", unset);
        }
        let update = Write::Update(self.attachments.clone(), unchanged, change, Matches::Some);
        self.with_datasets(datasets, update).await
    }

    /// Removes an attachment.
    ///
    /// # Errors
    /// [`Error::Changed`] if it does not exist any more.
    pub async fn remove_attachment(&self, stored: &Document) -> Result<(), Error> {
        let removed = self.attachments.delete_one(doc! {"_id": stored.get("_id").cloned()}).await?;
        if removed.deleted_count == 1 { Ok(()) } else { Err(Error::Changed) }
    }

    /// The attachments of a dataset.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn attachments(&self, pid: &str, room: Room<'_>) -> Result<Vec<Document>, Error> {
        let found = self.attachments.find(attached(pid)).limit(ATTACHMENTS_MAX);
        room::read(found.max_time(READ_MAX).await?, room).await
    }

    /// The image of the first attachment, by its key, that has one.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn thumbnail(&self, pid: &str, room: Room<'_>) -> Result<Option<String>, Error> {
        let mut with_image = attached(pid);
        with_image.insert("thumbnail", doc! {"$type": "string"});
        let keys = self.attachments.find(with_image).projection(doc! {"_id": 1}).limit(ATTACHMENTS_MAX);
        let keys = room::read(keys.max_time(READ_MAX).await?, room).await?;
        let Some(first) = keys.iter().filter_map(|it| it.get_str("_id").ok()).min() else { return Ok(None) };
        let image = self.attachments.find(doc! {"_id": first}).projection(doc! {"thumbnail": 1}).limit(1);
        let image = room::read(image.max_time(READ_MAX).await?, room).await?.pop();
        Ok(image.and_then(|attachment| attachment.get_str("thumbnail").ok().map(str::to_owned)))
    }

    /// The number of attachments of a dataset.
    ///
    /// # Errors
    /// The server failed.
    pub async fn count_attachments(&self, pid: &str) -> Result<u64, Error> {
        Ok(self.attachments.count_documents(attached(pid)).max_time(READ_MAX).await?)
    }
}

/// A change of a dataset as the server gets it. `changed` is the dataset after it: the grams follow its texts.
fn change(patch: &Patch, stamps: Document, changed: &Document) -> Document {
    let mut set = patch.set.clone();
    set.extend(stamps);
    let mut unset: Document = patch.unset.iter().map(|name| (name.clone(), Bson::from(""))).collect();
    if search::covers(patch.set.keys().chain(&patch.unset)) {
        // A dataset near the server's limit stays without grams: searches compare it.
        match search::grams(changed).filter(|_| fits(changed).is_ok()) {
            Some(grams) => drop(set.insert(search::GRAMS, grams)),
            None => drop(unset.insert(search::GRAMS, "")),
        }
    }
    let mut change = doc! {"$set": set};
    if !unset.is_empty() {
        change.insert("$unset", unset);
    }
    change
}

/// The attachments of a dataset. SciCat names it in a relationship, older versions in `datasetId`.
fn attached(pid: &str) -> Document {
    doc! {"$or": [
        {"datasetId": pid},
        // The first condition reads the index.
        {"relationships.targetId": pid, "relationships": {"$elemMatch": {"targetId": pid, "targetType": "dataset"}}},
    ]}
}

/// The attachments of a dataset that no other dataset has.
fn attached_alone(pid: &str) -> Document {
    let other = doc! {"$elemMatch": {"targetId": {"$ne": pid}, "targetType": "dataset"}};
    doc! {"$and": [
        attached(pid), {"relationships": {"$not": other}}, {"datasetId": {"$in": [pid, null]}},
    ]}
}

/// Takes a dataset from the relationships of an attachment.
fn detach(pid: &str) -> Document {
    doc! {"$pull": {"relationships": {"targetId": pid, "targetType": "dataset"}}}
}

/// A dataset as long as its access is the same as when it was read.
pub(super) fn as_read(dataset: &Document) -> Document {
    let mut filter = doc! {"_id": dataset.get("_id").cloned()};
    // A comparison with null finds a missing field.
    filter.extend(INHERITED.map(|name| (name.to_owned(), dataset.get(name).cloned().unwrap_or(Bson::Null))));
    filter
}

/// The access of a dataset, as a change.
pub(super) fn access(dataset: &Document) -> Patch {
    let mut access = Patch::default();
    for name in INHERITED {
        match dataset.get(name) {
            Some(value) => drop(access.set.insert(name, value.clone())),
            None => access.unset.push(name.to_owned()),
        }
    }
    access
}

fn exists(pid: &str) -> Refusal {
    Refusal::Conflict(format!("A dataset with pid {pid} already exists!"))
}

/// The changes of a dataset's access, which its blocks and attachments take over.
pub(super) fn inherited(patch: &Patch) -> Option<Document> {
    let set = patch.set.iter().filter(|(name, _)| INHERITED.contains(&name.as_str()));
    let set: Document = set.map(|(name, value)| (name.clone(), value.clone())).collect();
    let unset = patch.unset.iter().filter(|name| INHERITED.contains(&name.as_str()));
    let unset: Document = unset.map(|name| (name.clone(), Bson::from(""))).collect();
    let parts = [("$set", set), ("$unset", unset)].into_iter().filter(|(_, part)| !part.is_empty());
    let change: Document = parts.map(|(operator, part)| (operator.to_owned(), Bson::from(part))).collect();
    (!change.is_empty()).then_some(change)
}
