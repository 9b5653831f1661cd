//! Stores blocks of files: any number of files, published atomically, counted with their dataset.

use bson::{Bson, DateTime, Document, doc};
use futures_util::TryStreamExt;

use super::datasets::{access, as_read, inherited};
use super::error::{fits, is_duplicate};
use super::transaction::{self, Matches, Outcome, Write};
use super::{ACCESS_ATTEMPTS_MAX, Check, Error, READ_MAX, Room, Store, Transactions, room};
use crate::Refusal;
use crate::documents::block::{self, Creation, Head, Splitter};
use crate::documents::stamp::later;

/// The maximum number of blocks of a dataset in an answer.
pub(super) const BLOCKS_MAX: i64 = 10_000;
/// The age from which a sweep removes an unfinished block, in milliseconds.
const ABANDONED_MS: i64 = 3_600_000;
/// The age from which a sweep removes a block whose publication did not finish, in milliseconds.
const STUCK_MS: i64 = 86_400_000;
/// The time for which an uncounted block belongs to the instance that counts it, in milliseconds.
const CLAIM_MS: i64 = 60_000;
/// The maximum number of unfinished blocks that one sweep removes.
const SWEPT_MAX: i64 = 100;
/// Follows the key of a block whose removal its dataset remembers.
pub(super) const REMOVAL: &str = " removed";
/// Follows the key of a block whose change its dataset remembers; the time of the change follows.
const CHANGE: &str = " changed ";

/// Writes a block as its files arrive. It keeps the first list of files and the current one in memory.
pub struct BlockWriter<'a> {
    store: &'a Store,
    creation: Creation<'a>,
    splitter: Splitter,
    first: Option<Vec<Document>>,
    first_bytes: usize,
    alive_at: DateTime,
    files: i64,
    /// The files of the first list and of the parts so far.
    written: i64,
    bytes: i64,
    /// The number of the first file of each part.
    starts: Vec<i64>,
}

impl Store {
    /// Begins a block.
    pub fn block_writer<'a>(&'a self, creation: Creation<'a>) -> BlockWriter<'a> {
        BlockWriter {
            store: self,
            alive_at: creation.at,
            creation,
            splitter: Splitter::default(),
            first: None,
            first_bytes: 0,
            files: 0,
            written: 0,
            bytes: 0,
            starts: Vec::new(),
        }
    }

    /// Stores a block whose files are in memory. Returns its stored head.
    ///
    /// # Errors
    /// Those of [`BlockWriter::finish`].
    pub async fn add_block(
        &self,
        head: &Head,
        creation: Creation<'_>,
        files: &[Document],
        may: Check<'_>,
    ) -> Result<Document, Error> {
        let mut writer = self.block_writer(creation);
        for file in files {
            writer.push(file.clone()).await?;
        }
        writer.finish(head, may).await
    }

    /// The heads of the blocks of a dataset: each with all its files, or with the first of many.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn blocks(&self, pid: &str, room: Room<'_>) -> Result<Vec<Document>, Error> {
        let found = self.blocks.find(doc! {"datasetId": pid}).limit(BLOCKS_MAX).max_time(READ_MAX);
        room::read(found.await?, room).await
    }

    /// The head of a block of a dataset, or of any dataset.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn block(
        &self,
        pid: Option<&str>,
        id: &str,
        room: Room<'_>,
    ) -> Result<Option<Document>, Error> {
        let mut filter = doc! {"_id": id};
        if let Some(pid) = pid {
            filter.insert("datasetId", pid);
        }
        let found = self.blocks.find(filter).limit(1).max_time(READ_MAX);
        Ok(room::read(found.await?, room).await?.pop())
    }

    /// The number of blocks of a dataset.
    ///
    /// # Errors
    /// The server failed.
    pub async fn count_blocks(&self, pid: &str) -> Result<u64, Error> {
        Ok(self.blocks.count_documents(doc! {"datasetId": pid}).max_time(READ_MAX).await?)
    }

    /// A block with all its files.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn whole_block(&self, mut head: Document, room: Room<'_>) -> Result<Document, Error> {
        if !block::is_long(&head) {
            return Ok(head);
        }
        let id = head.get_str("_id").unwrap_or_default().to_owned();
        let parts = self.parts.find(of_block(&id)).sort(doc! {"_id": 1}).max_time(READ_MAX).await?;
        let parts = room::read(parts, room).await?;
        if let Ok(files) = head.get_array_mut("dataFileList") {
            for mut part in parts {
                if let Some(Bson::Array(more)) = part.remove("dataFileList") {
                    files.extend(more);
                }
            }
        }
        Ok(head)
    }

    /// Changes a block that was read as `head`, and the counts of its dataset. Returns the head after it.
    ///
    /// # Errors
    /// [`Error::Changed`] if the block has changed since; a refusal if the files do not fit into one document.
    pub async fn update_block(
        &self,
        head: &Document,
        patch: block::Patch,
        user: &str,
        now: DateTime,
    ) -> Result<Document, Error> {
        let before = head.get("updatedAt").cloned().unwrap_or(Bson::Null);
        let set = changes(head, patch, doc! {"updatedBy": user, "updatedAt": later(&before, now)})?;
        let mut changed = head.clone();
        changed.extend(set.clone());
        if set.contains_key("dataFileList") && fits(&changed).is_err() {
            return Err(Refusal::bad(
                "these files need several documents: remove the block and add a new one",
            )
            .into());
        }
        let whole = |document: &Document| super::lists::whole(document, "size") as i64;
        let (size, files) =
            (whole(&changed) - whole(head), block::file_count(&changed) - block::file_count(head));
        let (id, pid) = (head.get("_id").cloned(), head.get_str("datasetId").unwrap_or_default());
        let unchanged = doc! {"_id": id, "updatedAt": before, "uncounted": {"$ne": true}};
        if self.transactions == Transactions::Missing {
            let change = doc! {"size": size, "files": files};
            return self.update_in_steps(changed, unchanged, (set, change), now).await;
        }
        let more = doc! {"$inc": {"size": size, "numberOfFiles": files}};
        let writes = [
            Write::Update(self.blocks.clone(), unchanged, doc! {"$set": set}, Matches::Some),
            Write::Update(self.datasets.clone(), doc! {"_id": pid}, more, Matches::Some),
        ];
        let _locked = self.locks.lock(pid).await;
        match transaction::run(&self.client, self.transactions, &writes).await? {
            Outcome::Done => Ok(changed),
            Outcome::Unmatched(0) => Err(Error::Changed),
            Outcome::Unmatched(_) => Err(Refusal::no_dataset(pid).into()),
        }
    }

    /// Changes a block in steps: the first one marks the head with the change of the counts, and a repair finishes them from then on.
    async fn update_in_steps(
        &self,
        changed: Document,
        unchanged: Document,
        (mut set, mut change): (Document, Document),
        now: DateTime,
    ) -> Result<Document, Error> {
        let id = changed.get_str("_id").unwrap_or_default();
        // Each change of a block has another time, so each has another mark.
        let at_ms = changed.get_datetime("updatedAt").map_or(0, |at| at.timestamp_millis());
        change.insert("mark", format!("{id}{CHANGE}{at_ms}"));
        set.extend(doc! {"uncounted": true, "claimedAt": now, "change": &change});
        let _locked = self.locks.lock(changed.get_str("datasetId").unwrap_or_default()).await;
        if self.blocks.update_one(unchanged, doc! {"$set": set}).await?.matched_count == 0 {
            return Err(Error::Changed);
        }
        let mut marked = changed.clone();
        marked.insert("change", change);
        self.count_in(&marked).await.map(|()| changed)
    }

    /// Removes a block that was read as `head`, and subtracts it from the counts of its dataset.
    ///
    /// # Errors
    /// [`Error::Changed`] if it has changed since, or does not exist any more.
    pub async fn delete_block(&self, head: &Document, now: DateTime) -> Result<(), Error> {
        if self.transactions == Transactions::Missing {
            return self.delete_in_steps(head, now).await;
        }
        let id = head.get_str("_id").unwrap_or_default();
        let less = uncounted(head);
        let pid = head.get_str("datasetId").unwrap_or_default();
        let unchanged = doc! {"_id": id, "updatedAt": head.get("updatedAt").cloned()};
        let long: Vec<String> = block::is_long(head).then(|| id.to_owned()).into_iter().collect();
        let mut writes: Vec<Write> = long.iter().map(|id| self.left_to_the_sweep(id, now)).collect();
        writes.extend([
            Write::Delete(self.blocks.clone(), unchanged, Matches::Some),
            Write::Update(self.datasets.clone(), doc! {"_id": pid}, less, Matches::Any),
        ]);
        match transaction::run(&self.client, self.transactions, &writes).await? {
            Outcome::Unmatched(_) => Err(Error::Changed),
            Outcome::Done => self.remove_left(&long).await,
        }
    }

    /// Removes a block in steps: a repair finishes them once the head is marked.
    async fn delete_in_steps(&self, head: &Document, now: DateTime) -> Result<(), Error> {
        let unchanged = doc! {
            "_id": head.get("_id").cloned(), "updatedAt": head.get("updatedAt").cloned(), "uncounted": {"$ne": true},
        };
        let mark =
            doc! {"uncounted": true, "removed": true, "claimedAt": now, "fileCount": block::file_count(head)};
        let marked = self.blocks.update_one(unchanged, doc! {"$set": mark}).await?;
        if marked.matched_count == 0 { Err(Error::Changed) } else { self.count_out(head, now).await }
    }

    /// Subtracts a block from the counts of its dataset and removes it. Every step may be repeated: the dataset remembers the removal until
    /// the head is gone. It may still remember the addition of the block, which was cut off after it counted.
    async fn count_out(&self, head: &Document, now: DateTime) -> Result<(), Error> {
        let id = head.get_str("_id").unwrap_or_default();
        let of_dataset = doc! {"_id": head.get_str("datasetId").unwrap_or_default()};
        let mut once = of_dataset.clone();
        let removal = format!("{id}{REMOVAL}");
        once.insert("uncountedBlocks", doc! {"$ne": &removal});
        let mut less = uncounted(head);
        less.insert("$push", doc! {"uncountedBlocks": &removal});
        let long: Vec<String> = block::is_long(head).then(|| id.to_owned()).into_iter().collect();
        let mut writes: Vec<Write> = long.iter().map(|id| self.left_to_the_sweep(id, now)).collect();
        writes.extend([
            Write::Update(self.datasets.clone(), once, less, Matches::Any),
            Write::Delete(self.blocks.clone(), doc! {"_id": id}, Matches::Any),
            Write::Update(
                self.datasets.clone(),
                of_dataset,
                doc! {"$pull": {"uncountedBlocks": {"$in": [id, &removal]}}},
                Matches::Any,
            ),
        ]);
        transaction::run(&self.client, Transactions::Missing, &writes).await?;
        self.remove_left(&long).await
    }

    /// Names a block to the sweep, which removes its parts if the removal of the block ends before it does so itself.
    pub(super) fn left_to_the_sweep(&self, id: &str, now: DateTime) -> Write {
        Write::Upsert(self.staging.clone(), doc! {"_id": id}, doc! {"$setOnInsert": {"at": now}})
    }

    /// Removes the parts of removed blocks, then their names for the sweep.
    pub(super) async fn remove_left(&self, blocks: &[String]) -> Result<(), Error> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.remove_parts(blocks).await?;
        self.staging.delete_many(doc! {"_id": {"$in": blocks}}).await?;
        Ok(())
    }

    /// The keys of the blocks of a dataset that have parts.
    pub(super) async fn long_blocks(&self, pid: &str) -> Result<Vec<String>, Error> {
        let long = self.blocks.find(doc! {"datasetId": pid, "parts": {"$gt": 0}}).projection(doc! {"_id": 1});
        let heads: Vec<Document> = long.max_time(READ_MAX).await?.try_collect().await?;
        Ok(heads.iter().filter_map(|head| head.get_str("_id").ok().map(str::to_owned)).collect())
    }

    /// Removes the parts of blocks that have no head.
    pub(super) async fn remove_parts(&self, blocks: &[String]) -> Result<(), Error> {
        for id in blocks {
            self.parts.delete_many(of_block(id)).await?;
        }
        Ok(())
    }

    /// Removes blocks that were begun an hour ago and never finished. Returns their number.
    ///
    /// # Errors
    /// The server failed.
    pub async fn sweep(&self, now: DateTime) -> Result<usize, Error> {
        let before = |age_ms: i64| DateTime::from_millis(now.timestamp_millis().saturating_sub(age_ms));
        let idle = doc! {"at": {"$lt": before(ABANDONED_MS)}, "publishing": {"$ne": true}};
        let stuck = doc! {"at": {"$lt": before(STUCK_MS)}};
        let old = self.staging.find(doc! {"$or": [&idle, &stuck]}).limit(SWEPT_MAX).max_time(READ_MAX);
        let old: Vec<Document> = old.await?.try_collect().await?;
        for staged in &old {
            let id = staged.get_str("_id").unwrap_or_default();
            // A marked block cannot be published any more, so no reader misses the parts. The entry goes last: a sweep that is cut off
            // finds it again.
            let entry = doc! {"$and": [{"_id": id}, {"$or": [&idle, &stuck]}]};
            if self.staging.update_one(entry, doc! {"$set": {"swept": true}}).await?.matched_count == 0 {
                continue;
            }
            if self.blocks.find_one(doc! {"_id": id}).projection(doc! {"_id": 1}).await?.is_none() {
                self.parts.delete_many(of_block(id)).await?;
            }
            self.staging.delete_one(doc! {"_id": id}).await?;
        }
        Ok(old.len())
    }

    /// Finishes the blocks whose addition, change or removal a crash cut off where the server has no transactions. Returns their number. It
    /// leaves blocks that an instance claimed within a minute: two instances that count one block at the same time would count it twice.
    ///
    /// # Errors
    /// The server failed.
    pub async fn repair(&self, now: DateTime) -> Result<usize, Error> {
        let claimable = DateTime::from_millis(now.timestamp_millis().saturating_sub(CLAIM_MS));
        let left = doc! {"uncounted": true, "$or": [{"claimedAt": null}, {"claimedAt": {"$lt": claimable}}]};
        let heads = self.blocks.find(left.clone()).projection(doc! {"dataFileList": 0}).limit(SWEPT_MAX);
        let heads: Vec<Document> = heads.max_time(READ_MAX).await?.try_collect().await?;
        let mut repaired = 0;
        for head in &heads {
            let mut claim = left.clone();
            claim.insert("_id", head.get("_id").cloned());
            let claimed = self.blocks.update_one(claim, doc! {"$set": {"claimedAt": now}}).await?;
            if claimed.matched_count == 1 {
                match head.get_bool("removed") {
                    Ok(true) => self.count_out(head, now).await?,
                    _ => self.count_in(head).await?,
                }
                repaired += 1;
            }
        }
        Ok(repaired)
    }

    /// Adds an uncounted block, or its uncounted change, to the counts of its dataset. Every step may be repeated: the dataset remembers the
    /// block or the change until the head is marked as counted.
    async fn count_in(&self, head: &Document) -> Result<(), Error> {
        let id = head.get_str("_id").unwrap_or_default();
        let pid = head.get_str("datasetId").unwrap_or_default();
        let (mark, mut more) = match head.get_document("change") {
            Ok(change) => (change.get_str("mark").unwrap_or_default(), counts(change)),
            Err(_) => (id, counted(head)),
        };
        more.insert("$push", doc! {"uncountedBlocks": mark});
        let once = doc! {"_id": pid, "uncountedBlocks": {"$ne": mark}};
        let added = self.datasets.update_one(once, more).await?;
        if added.matched_count == 0 && self.dataset(pid).await?.is_none() {
            self.blocks.delete_one(doc! {"_id": id}).await?;
            return Err(Refusal::no_dataset(pid).into());
        }
        let counted = doc! {"$unset": {"uncounted": "", "claimedAt": "", "change": ""}};
        // Another instance may have finished this change, and a later one may wait for its count.
        let same = doc! {"_id": id, "change.mark": head.get_document("change").ok().map(|_| mark)};
        self.blocks.update_one(same, counted).await?;
        let forget = doc! {"$pull": {"uncountedBlocks": mark}};
        self.datasets.update_one(doc! {"_id": pid}, forget).await?;
        Ok(())
    }
}

/// The new values of a changed block.
fn changes(head: &Document, patch: block::Patch, stamps: Document) -> Result<Document, Refusal> {
    let mut set = stamps;
    if let Some(size) = patch.size {
        set.insert("size", size);
    }
    if let Some(checksum) = patch.checksum {
        set.insert("chkAlg", checksum);
    }
    if let Some(files) = patch.files {
        if block::is_long(head) {
            return Err(Refusal::bad("the files of a long block stay: remove the block and add a new one"));
        }
        set.extend(doc! {"fileCount": files.len() as i64, "dataFileList": files});
    }
    Ok(set)
}

/// The parts of a block, by their key.
pub(super) fn of_block(id: &str) -> Document {
    doc! {"_id": {"$gte": {"block": id, "part": 0}, "$lte": {"block": id, "part": i32::MAX}}}
}

/// The entry of a block that no sweep has marked.
fn unswept(id: &str) -> Document {
    doc! {"_id": id, "swept": {"$ne": true}}
}

/// Adds a change of a head to the counts of its dataset.
fn counts(change: &Document) -> Document {
    doc! {"$inc": {"size": change.get_i64("size").unwrap_or_default(), "numberOfFiles": change.get_i64("files").unwrap_or_default()}}
}

/// Adds a head to the counts of its dataset.
fn counted(head: &Document) -> Document {
    doc! {"$inc": {"size": super::lists::whole(head, "size") as i64, "numberOfFiles": block::file_count(head)}}
}

/// Subtracts a head from the counts of its dataset.
fn uncounted(head: &Document) -> Document {
    doc! {"$inc": {"size": -(super::lists::whole(head, "size") as i64), "numberOfFiles": -block::file_count(head)}}
}

impl BlockWriter<'_> {
    /// Adds a file.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`], or the server failed.
    pub async fn push(&mut self, file: Document) -> Result<(), Error> {
        if block::encoded_bytes(&file) > block::FILE_BYTES_MAX {
            return Err(Refusal::TooLarge.into());
        }
        self.files += 1;
        self.bytes = self.bytes.saturating_add(super::lists::whole(&file, "size") as i64);
        let before = self.splitter.bytes();
        match self.splitter.push(file) {
            None => Ok(()),
            Some(full) if self.first.is_none() => {
                self.written = full.len() as i64;
                (self.first, self.first_bytes) = (Some(full), before);
                Ok(())
            }
            Some(full) => self.write_part(full).await,
        }
    }

    /// States the time at which files still arrive: a sweep leaves a block that has grown within an hour.
    pub fn alive(&mut self, at: DateTime) {
        self.alive_at = at;
    }

    /// The encoded bytes of the files in memory.
    pub fn held_bytes(&self) -> usize {
        self.first_bytes + self.splitter.bytes()
    }

    /// The number of files so far.
    pub fn files(&self) -> i64 {
        self.files
    }

    /// Removes the files so far: the block is not published.
    ///
    /// # Errors
    /// The server failed. A sweep removes the files later.
    pub async fn abandon(self) -> Result<(), Error> {
        if !self.starts.is_empty() {
            self.store.remove_parts(&[self.creation.id.to_owned()]).await?;
            self.store.staging.delete_one(doc! {"_id": self.creation.id}).await?;
        }
        Ok(())
    }

    /// The bytes of the files so far.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    async fn write_part(&mut self, files: Vec<Document>) -> Result<(), Error> {
        let id = self.creation.id;
        if self.starts.is_empty() {
            self.store.staging.insert_one(doc! {"_id": id, "at": self.alive_at}).await?;
        } else {
            let renewal = doc! {"$set": {"at": self.alive_at}};
            if self.store.staging.update_one(unswept(id), renewal).await?.matched_count == 0 {
                return self.swept().await;
            }
        }
        self.starts.push(self.written);
        self.written += files.len() as i64;
        // A block has fewer parts than files.
        self.store.parts.insert_one(block::part(id, self.starts.len() as i32, files)).await?;
        Ok(())
    }

    /// Publishes the block: from now on it is visible and counted. Returns its stored head. If the access of the dataset has changed since
    /// the block was begun, `may` decides again, and the block gets the new access.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if the dataset does not exist, [`Refusal::Conflict`] if the key exists or the block took too long, and the
    /// refusal of `may`.
    pub async fn finish(mut self, head: &Head, may: Check<'_>) -> Result<Document, Error> {
        let last = std::mem::take(&mut self.splitter).finish();
        let files = match self.first.take() {
            None => last,
            Some(first) => {
                self.write_part(last).await?;
                first
            }
        };
        let stored = block::store(head, &self.creation, files, self.files, &self.starts);
        fits(&stored)?;
        match self.publish(head, stored, may).await {
            Err(Error::Refused(refusal)) if !self.starts.is_empty() => {
                self.abandon().await?;
                Err(refusal.into())
            }
            published => published,
        }
    }

    async fn publish(&self, head: &Head, mut stored: Document, may: Check<'_>) -> Result<Document, Error> {
        if self.store.transactions == Transactions::Missing {
            return self.publish_in_steps(head, stored, may).await;
        }
        let mut dataset = self.creation.dataset.clone();
        for _ in 0..ACCESS_ATTEMPTS_MAX {
            match self.publish_once(head, &dataset, &stored).await {
                Err(Error::Changed) => dataset = self.read_again(head, may).await?,
                published => return published.map(|()| stored),
            }
            block::inherit(&mut stored, &dataset);
        }
        Err(Error::Changed)
    }

    /// The dataset, if the caller may still change it.
    async fn read_again(&self, head: &Head, may: Check<'_>) -> Result<Document, Error> {
        let dataset = self.store.dataset(&head.dataset).await?;
        let dataset = dataset.ok_or_else(|| Refusal::no_dataset(&head.dataset))?;
        may(&dataset)?;
        Ok(dataset)
    }

    /// Publishes the block in one transaction, if the access of its dataset is still the same.
    async fn publish_once(&self, head: &Head, dataset: &Document, stored: &Document) -> Result<(), Error> {
        let store = self.store;
        let mut unchanged = as_read(dataset);
        unchanged.insert("_id", &head.dataset);
        let mut writes = vec![
            Write::Update(store.datasets.clone(), unchanged, counted(stored), Matches::Some),
            Write::Insert(store.blocks.clone(), stored.clone()),
        ];
        if !self.starts.is_empty() {
            writes.push(Write::Delete(store.staging.clone(), unswept(self.creation.id), Matches::Some));
        }
        let _locked = store.locks.lock(&head.dataset).await;
        match transaction::run(&store.client, store.transactions, &writes).await {
            Ok(Outcome::Done) => Ok(()),
            Ok(Outcome::Unmatched(0)) => Err(Error::Changed),
            Ok(Outcome::Unmatched(_)) => self.swept().await,
            Err(Error::Database(error)) if is_duplicate(&error) => Err(taken()),
            Err(error) => Err(error),
        }
    }

    /// Refuses a block whose first parts a sweep has removed, and removes its later parts.
    async fn swept(&self) -> Result<(), Error> {
        self.store.remove_parts(&[self.creation.id.to_owned()]).await?;
        Err(Refusal::Conflict("the block took too long: send it again".into()).into())
    }

    /// Publishes the block in steps. A change of access between two of them reaches the block: either its dataset shows the change, or the
    /// change finds the block.
    async fn publish_in_steps(
        &self,
        head: &Head,
        mut stored: Document,
        may: Check<'_>,
    ) -> Result<Document, Error> {
        block::inherit(&mut stored, &self.read_again(head, may).await?);
        if !self.starts.is_empty() {
            // From here on a sweep leaves the parts.
            let claim = doc! {"$set": {"publishing": true}};
            let claimed = self.store.staging.update_one(unswept(self.creation.id), claim).await?;
            if claimed.matched_count == 0 {
                self.swept().await?;
            }
        }
        let mut uncounted = stored.clone();
        uncounted.extend(doc! {"uncounted": true, "claimedAt": self.alive_at});
        let inserted = self.store.blocks.insert_one(&uncounted).await;
        inserted.map_err(|error| if is_duplicate(&error) { taken() } else { error.into() })?;
        self.store.count_in(&uncounted).await?;
        self.follow(head, &mut stored).await?;
        if !self.starts.is_empty() {
            self.store.staging.delete_one(doc! {"_id": self.creation.id}).await?;
        }
        Ok(stored)
    }

    /// Gives a published block the access that its dataset has by now. Reads the dataset again after each write, because the write may
    /// have overwritten a newer access.
    async fn follow(&self, head: &Head, stored: &mut Document) -> Result<(), Error> {
        for _ in 0..ACCESS_ATTEMPTS_MAX {
            let Some(dataset) = self.store.dataset(&head.dataset).await? else { break };
            if block::INHERITED.iter().all(|name| dataset.get(name) == stored.get(name)) {
                break;
            }
            block::inherit(stored, &dataset);
            let id = doc! {"_id": self.creation.id};
            self.store.blocks.update_one(id, inherited(&access(&dataset)).unwrap_or_default()).await?;
        }
        Ok(())
    }
}

fn taken() -> Error {
    Refusal::Conflict("A block with this id already exists!".into()).into()
}
