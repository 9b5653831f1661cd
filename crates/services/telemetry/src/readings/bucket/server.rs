//! Sends updates of buckets to the server and reads its answers.

use std::collections::HashMap;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::Database;
use mongodb::error::{Error as DriverError, ErrorKind};

use super::super::lookup::Lookup;
use super::super::partial::Metrics;
use super::super::record::{DUPLICATE_KEY, pairs};
use super::super::{Error, Fault};
use super::COLLECTION;
use super::layout::{Layout, Slot};
use super::update::{bytes_at_most, merge_statement, statement};
use super::write::{Applied, Io, Merge, Seen, Update};
use crate::reading::Reading;

/// The largest number of attempts at a command whose answer is lost. The guard makes retries safe.
const ATTEMPTS: u32 = 2;

/// The largest command, in bytes; servers accept 16 MiB.
const COMMAND_BYTES_MAX: usize = 12 << 20;

/// The collection on its server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    database: Database,
    layout: Layout,
}

impl Server {
    pub(super) fn new(database: Database, layout: Layout) -> Self {
        Server { database, layout }
    }

    /// Sends the updates as a raw command: below MongoDB 8.0 the driver cannot send several at once. A raw command does not
    /// inherit the database's write concern, so it is added here.
    fn command(&self, updates: Vec<Document>) -> Result<Document, Fault> {
        let mut command = doc! {"update": COLLECTION, "updates": updates, "ordered": false};
        if let Some(concern) = self.database.write_concern() {
            command.insert("writeConcern", bson::serialize_to_document(concern)?);
        }
        Ok(command)
    }

    async fn send(&self, updates: Vec<Document>) -> Result<Document, Fault> {
        let command = self.command(updates)?;
        let mut attempts = 1;
        loop {
            match self.database.run_command(command.clone()).await {
                Err(error) if attempts < ATTEMPTS && may_be_sent_again(&error) => attempts += 1,
                Err(error) => return Err(error.into()),
                Ok(reply) => return acknowledged(reply),
            }
        }
    }

    async fn update_part(&self, updates: &[Update<'_>]) -> Result<Vec<Applied>, Fault> {
        let statements = updates.iter().map(|update| statement(&self.layout, update)).collect();
        let reply = self.send(statements).await?;
        let mut applied = vec![Applied::Done; updates.len()];
        for error in reply.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document) {
            let index = error.get_i32("index").ok().and_then(|index| usize::try_from(index).ok());
            let place = index.and_then(|index| applied.get_mut(index));
            *place.ok_or_else(|| Fault::new(format!("an error of no update: {error}")))? = fault(error);
        }
        Ok(applied)
    }

    /// The commands of a write, for `explain`.
    pub(super) fn commands(&self, sensor: &str, at_ms: i64) -> [(&'static str, Document); 4] {
        let reading = Reading {
            sensor: sensor.to_owned(),
            at_ms,
            event: None,
            metrics: vec![("metric".to_owned(), 0.0)],
        };
        let id = self.layout.id(sensor, 0, at_ms);
        let update = Update::of(&self.layout, &reading);
        let update = doc! {"update": COLLECTION, "updates": [statement(&self.layout, &update)]};
        let confirm = doc! {"update": COLLECTION, "updates": [confirmation(&id)]};
        let slot = Slot::of(&reading, self.layout.start_ms(0, at_ms));
        let merge = merge_statement(&Merge::of(id.clone(), slot, reading.metrics));
        let merge = doc! {"update": COLLECTION, "updates": [merge]};
        let look = look(vec![id]).command(COLLECTION);
        [
            ("write", update),
            ("confirm", confirm),
            ("look", look),
            ("merge metrics into a known reading", merge),
        ]
    }
}

impl Io for Server {
    async fn update(&self, updates: &[Update<'_>]) -> Result<Vec<Applied>, Fault> {
        let mut applied = Vec::with_capacity(updates.len());
        for part in parts(updates) {
            applied.extend(self.update_part(part).await?);
        }
        Ok(applied)
    }

    async fn look(&self, ids: Vec<String>) -> Result<HashMap<String, Seen>, Fault> {
        let mut seen = HashMap::new();
        let from = self.database.collection::<RawDocumentBuf>(COLLECTION);
        let mut cursor = look(ids).run_on_primary(&from).await?;
        while cursor.advance().await? {
            let found = cursor.current();
            let slots = slots(found).map_err(|error| Fault::new(error.to_string()))?;
            seen.insert(found.get_str("_id")?.to_owned(), Seen { slots });
        }
        Ok(seen)
    }

    async fn merge(&self, merge: &Merge) -> Result<bool, Fault> {
        let reply = self.send(vec![merge_statement(merge)]).await?;
        if let Some(error) = reply.get_array("writeErrors").ok().and_then(|errors| errors.first()) {
            return Err(Fault::new(error.to_string()));
        }
        Ok(reply.get("n").is_some_and(|n| matches!(n, Bson::Int32(1) | Bson::Int64(1))))
    }

    /// An update without effect waits for the write concern of the server's last write.
    async fn confirm(&self, id: &str) -> Result<(), Fault> {
        self.send(vec![confirmation(id)]).await.map(drop)
    }
}

/// Splits updates into commands that fit the limit. One update always fits, because its bucket does.
fn parts<'u, 'r>(updates: &'u [Update<'r>]) -> Vec<&'u [Update<'r>]> {
    let (mut parts, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (index, update) in updates.iter().enumerate() {
        let its = bytes_at_most(update);
        if index > first && bytes + its > COMMAND_BYTES_MAX {
            parts.push(&updates[first..index]);
            (first, bytes) = (index, 0);
        }
        bytes += its;
    }
    parts.push(&updates[first..]);
    parts
}

fn confirmation(id: &str) -> Document {
    doc! {"q": {"_id": id}, "u": {"$max": {"n": 0}}}
}

fn look(ids: Vec<String>) -> Lookup {
    Lookup::new(doc! {"_id": {"$in": ids}}).projected(doc! {"r": 1})
}

fn slots(bucket: &RawDocument) -> Result<HashMap<Slot, Metrics>, Error> {
    let slot = |row: bson::error::Result<bson::raw::RawBsonRef<'_>>| {
        let foreign = || Error::Foreign("a bucket has a row without a key".into());
        let row = row?.as_document().ok_or_else(foreign)?;
        Ok((Slot::parse(row.get("k")?.ok_or_else(foreign)?)?, pairs(row.get_document("m")?)?))
    };
    bucket.get_array("r")?.into_iter().map(slot).collect()
}

fn fault(error: &Document) -> Applied {
    match error.get_i32("code") {
        Ok(DUPLICATE_KEY) => Applied::Conflict,
        code => {
            let text = error.get_str("errmsg").unwrap_or("no reason given");
            Applied::Failed(Fault::new(format!("{text} ({})", code.unwrap_or_default())))
        }
    }
}

/// Fails if the write concern was not met: then no part of the commit is acknowledged.
fn acknowledged(reply: Document) -> Result<Document, Fault> {
    match reply.get_document("writeConcernError") {
        Ok(error) => Err(Fault::new(format!("the write concern was not met: {error}"))),
        Err(_) => Ok(reply),
    }
}

/// Whether a retry may reach a new primary or a restarted server.
fn may_be_sent_again(error: &DriverError) -> bool {
    /// Error codes of a server that is not primary, or shuts down.
    const MOVED: [i32; 7] = [91, 189, 10_058, 10_107, 11_600, 11_602, 13_435];
    match &*error.kind {
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => true,
        ErrorKind::Command(failure) => MOVED.contains(&failure.code),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::settings::BucketSettings;
    use super::*;

    #[test]
    fn a_reply_without_its_write_concern_is_not_an_acknowledgement() {
        let late = doc! {"ok": 1.0, "n": 1, "writeConcernError": {"code": 64, "errmsg": "waiting timed out"}};
        assert!(acknowledged(late).unwrap_err().to_string().contains("timed out"));
        assert!(acknowledged(doc! {"ok": 1.0, "n": 1}).is_ok());
    }

    #[test]
    fn updates_too_large_for_one_command_are_split() {
        let layout = Layout::new(&BucketSettings::default());
        let metrics = (0..64).map(|n| (format!("{n:064}"), 0.1)).collect();
        let reading = Reading { sensor: "s".into(), at_ms: 0, event: None, metrics };
        let updates = vec![Update::of(&layout, &reading); 2000];
        let found = parts(&updates);
        assert!(found.len() > 1);
        assert_eq!(found.iter().map(|part| part.len()).sum::<usize>(), 2000);
        let bytes = |part: &&[Update<'_>]| part.iter().map(bytes_at_most).sum::<usize>();
        assert!(found.iter().all(|part| bytes(part) <= COMMAND_BYTES_MAX));
        assert_eq!(parts(&updates[..1]).len(), 1);
    }

    #[test]
    fn only_a_duplicate_key_is_a_conflict() {
        assert_eq!(fault(&doc! {"index": 0, "code": 11_000, "errmsg": "dup"}), Applied::Conflict);
        let other = fault(&doc! {"index": 0, "code": 17_419, "errmsg": "too large"});
        assert_eq!(other, Applied::Failed(Fault::new("too large (17419)")));
    }
}
