//! Looks for every document through each index of the collection, and lets the server validate it.
//!
//! The scan in stored order shows that a document exists. A query finds it only if its index has it.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::{Bson, Document, RawDocument, doc, rawdoc};
use plimsoll_ledger::{Audit, IndexScan};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::count::exact;
use plimsoll_measure::duration::Span;
use plimsoll_measure::integrity::Indexes;
use plimsoll_wire::{ConnectOptions, Connection, Cursor, Error, FindRequest};

use super::{BATCH_TIMEOUT, Reader};

/// The most indexes of a collection, as in MongoDB.
const INDEXES_MAX: usize = 64;
/// The time after which the duration of a scan is estimated.
const PROBE: Duration = Duration::from_secs(1);
/// The most errors of the server's validation that are kept.
const ERRORS_MAX: usize = 10;
/// Codes of servers that do not know a command, or do not implement it.
const UNSUPPORTED: [i32; 2] = [59, 238];

/// The code of a server that gave up a command after its `maxTimeMS`.
const TIME_EXCEEDED: i32 = 50;
/// The longest wait for the answer of a server after the end of the time.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The scans through an index, over all servers.
struct Scans {
    seen: IndexScan,
    /// The number of servers that have the index and returned it completely.
    servers: usize,
    /// Whether a server did not return the whole index: then no other server scans it.
    is_left_out: bool,
}

/// The reason why a part of the check ended early.
enum Early {
    /// The time is over.
    Late,
    Failed(Error),
}

/// Checks the indexes on each of `servers`, unless the collection is too large. A check that fails is no violation: its reason is kept.
pub(super) async fn check(servers: &[ConnectOptions], audit: &mut Audit<'_>, reader: &Reader<'_>) -> Indexes {
    let (most, mut indexes) = (reader.scope.index_documents_max, Indexes::default());
    if most == 0 || reader.scope.index_time_max.is_zero() {
        return indexes;
    }
    if reader.read > most {
        indexes.skipped.push(format!(
            "The indexes were not checked: the collection has {} documents, and audit.index_documents_max is {}.",
            exact(reader.read),
            exact(most)
        ));
        return indexes;
    }
    let (mut scans, budget) = (BTreeMap::new(), Budget::start(reader.scope.index_time_max));
    for server in servers {
        let looked = look_at(server, audit, reader, &budget, &mut scans, &mut indexes).await;
        let place = format!("The indexes on {} were", server.address);
        indexes.skipped.extend(looked.err().map(|early| budget.ended_early(&place, &early)));
    }
    for (name, scan) in scans {
        // An index that only some servers have lacks the documents of the others.
        if scan.servers == servers.len() {
            audit.compare_index(&scan.seen);
            indexes.checked.push(name);
        }
    }
    indexes
}

async fn look_at(
    server: &ConnectOptions,
    audit: &Audit<'_>,
    reader: &Reader<'_>,
    budget: &Budget,
    scans: &mut BTreeMap<String, Scans>,
    indexes: &mut Indexes,
) -> Result<(), Early> {
    let options = ConnectOptions { timeout: Some(BATCH_TIMEOUT), ..server.clone() };
    let mut connection = budget.run(Connection::connect(&options)).await?;
    for name in budget.run(names(&mut connection, reader)).await? {
        let new = || Scans { seen: audit.index_scan(), servers: 0, is_left_out: false };
        let scan = scans.entry(name.clone()).or_insert_with(new);
        if scan.is_left_out {
            continue;
        }
        match scanned(&mut connection, audit, reader, budget, &name, &mut scan.seen).await {
            Ok(()) => scan.servers += 1,
            Err(sentence) => {
                indexes.skipped.push(sentence);
                scan.is_left_out = true;
                // The cursor of a scan that was given up is open, and after an error the connection may be unusable.
                if !budget.left().is_zero() {
                    connection = budget.run(Connection::connect(&options)).await?;
                }
            }
        }
    }
    validate(&mut connection, reader, budget, indexes).await
}

/// Scans an index to its end.
///
/// # Errors
/// A sentence that says why it is left out.
async fn scanned(
    connection: &mut Connection,
    audit: &Audit<'_>,
    reader: &Reader<'_>,
    budget: &Budget,
    name: &str,
    seen: &mut IndexScan,
) -> Result<(), String> {
    let (has_time, began) = (!budget.left().is_zero(), clock::now());
    match budget.run(through(connection, audit, reader, budget, name, seen)).await {
        Ok(None) => Ok(()),
        Ok(Some(needed)) => Err(budget.sentence(name, reader.read, needed)),
        Err(Early::Late) if has_time => {
            let took = Duration::from_nanos(clock::now().since(began));
            Err(budget.sentence(name, reader.read, Needed::MoreThan(took)))
        }
        Err(early) => Err(budget.ended_early(&format!("The index {name} was"), &early)),
    }
}

/// The time of the check.
struct Budget {
    began: Instant,
    limit: Duration,
}

impl Budget {
    fn start(limit: Duration) -> Self {
        Self { began: clock::now(), limit }
    }

    fn spent(&self) -> Duration {
        Duration::from_nanos(clock::now().since(self.began))
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.spent())
    }

    /// The remaining time in milliseconds, at least one, because zero means no limit to a server.
    fn left_ms(&self) -> u32 {
        u32::try_from(self.left().as_millis()).unwrap_or(u32::MAX).clamp(1, i32::MAX.unsigned_abs())
    }

    /// Runs a part of the check in the remaining time. Servers get that time as `maxTimeMS`. A server that
    /// ignores it is abandoned a second later.
    async fn run<T>(&self, part: impl Future<Output = Result<T, Error>>) -> Result<T, Early> {
        if self.left().is_zero() {
            return Err(Early::Late);
        }
        match tokio::time::timeout(self.left() + ANSWER_MAX, part).await {
            Ok(Err(Error::Server(error))) if error.code == TIME_EXCEEDED => Err(Early::Late),
            Ok(result) => result.map_err(Early::Failed),
            Err(_) => Err(Early::Late),
        }
    }

    /// A sentence about a part that ended early. It begins with `subject`, such as `The index a_1 was`.
    fn ended_early(&self, subject: &str, early: &Early) -> String {
        match early {
            Early::Late => {
                format!("{subject} not checked in time: audit.index_time_max is {}.", self.shown())
            }
            Early::Failed(error) => format!("{subject} not checked: {error}."),
        }
    }

    fn shown(&self) -> Span {
        Span::from_ns(u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time of a whole scan of `all` documents, if the rest of the scan exceeds the remaining time.
    fn exceeded(&self, first: Read, now: Read, all: u64) -> Option<Needed> {
        exceeds(first, now, all, self.left())
    }

    fn sentence(&self, name: &str, documents: u64, needed: Needed) -> String {
        let (word, needed) = match needed {
            Needed::About(time) => ("about", time),
            Needed::MoreThan(time) => ("more than", time),
        };
        format!(
            "The index {name} was not checked: a scan of {} documents through it takes {word} {} s, and audit.index_time_max is {}.",
            exact(documents),
            exact(needed.as_secs_f64().round() as u64),
            self.shown()
        )
    }
}

/// The time of a whole scan that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// Estimated from the batches after the first.
    About(Duration),
    /// Spent on the first batch alone.
    MoreThan(Duration),
}

/// The documents that a scan has read, and the time since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Read {
    took: Duration,
    documents: u64,
}

/// The estimated time of a whole scan, if the rest of the scan exceeds `left`. The estimate ignores the first
/// batch: a server may prepare the whole scan before its first answer.
fn exceeds(first: Read, now: Read, all: u64, left: Duration) -> Option<Needed> {
    let (took, documents) = (now.took - first.took, now.documents - first.documents);
    let rest = all.saturating_sub(now.documents);
    if rest == 0 || (took < PROBE && !left.is_zero()) {
        return None;
    }
    if documents == 0 {
        return Some(Needed::MoreThan(now.took));
    }
    let rest = took.mul_f64(rest as f64 / documents as f64);
    (rest > left).then_some(Needed::About(now.took + rest))
}

/// The indexes that have every document.
async fn names(connection: &mut Connection, reader: &Reader<'_>) -> Result<Vec<String>, Error> {
    let namespace = reader.scope.namespace;
    let command = rawdoc! {"listIndexes": namespace.collection.as_str()};
    let reply = match connection.command(&namespace.db, &command).await {
        Err(Error::Server(error)) if UNSUPPORTED.contains(&error.code) => return Ok(Vec::new()),
        other => other?,
    };
    let listed = Document::try_from(reply.as_ref()).unwrap_or_default();
    let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let whole = batch.into_iter().flatten().filter_map(Bson::as_document).filter(|index| is_whole(index));
    let named = whole.filter_map(|index| index.get_str("name").ok().map(str::to_owned));
    Ok(named.take(INDEXES_MAX).collect())
}

/// Whether an index has an entry for every document, and can be scanned from its first entry to its last.
fn is_whole(index: &Document) -> bool {
    let is_set = |key| index.get_bool(key).unwrap_or(false);
    let plain =
        |(field, order): (&String, &Bson)| !field.contains("$**") && !matches!(order, Bson::String(_));
    let partial = index.contains_key("partialFilterExpression") || index.contains_key("expireAfterSeconds");
    let keys = index.get_document("key");
    !is_set("sparse") && !is_set("hidden") && !partial && keys.is_ok_and(|keys| keys.iter().all(plain))
}

/// Reads the `_id` of every document through an index. Returns the time that the scan would take if that is too long.
async fn through(
    connection: &mut Connection,
    audit: &Audit<'_>,
    reader: &Reader<'_>,
    budget: &Budget,
    name: &str,
    seen: &mut IndexScan,
) -> Result<Option<Needed>, Error> {
    let mut spec = reader.spec(connection);
    spec.hint = Some(Bson::String(name.to_owned()));
    spec.projection = Some(doc! {"_id": 1});
    spec.max_time_ms = Some(budget.left_ms());
    let mut cursor = Cursor::new(FindRequest::new(&spec, &connection.limits())?);
    let (began, mut first, mut read) = (clock::now(), None, 0);
    while let Some(documents) = cursor.next(connection).await? {
        let documents = documents.inspect(|_| read += 1);
        let numbers = documents.filter_map(|document: &RawDocument| reader.number(document));
        numbers.for_each(|number| audit.see_through(seen, number));
        let now = Read { took: Duration::from_nanos(clock::now().since(began)), documents: read };
        if let Some(needed) = budget.exceeded(*first.get_or_insert(now), now, reader.read) {
            return Ok(Some(needed));
        }
    }
    Ok(None)
}

/// Runs the server's own validation, where it exists. It takes the collection out of use meanwhile; the load has ended.
async fn validate(
    connection: &mut Connection,
    reader: &Reader<'_>,
    budget: &Budget,
    indexes: &mut Indexes,
) -> Result<(), Early> {
    let namespace = reader.scope.namespace;
    let command =
        rawdoc! {"validate": namespace.collection.as_str(), "maxTimeMS": i64::from(budget.left_ms())};
    match budget.run(connection.command(&namespace.db, &command)).await {
        Ok(reply) => {
            let room = ERRORS_MAX.saturating_sub(indexes.errors.len());
            indexes.errors.extend(errors(&reply).into_iter().take(room));
        }
        Err(Early::Failed(Error::Server(error))) if UNSUPPORTED.contains(&error.code) => {}
        Err(Early::Failed(Error::Server(error))) => {
            indexes.skipped.push(format!("The server did not validate the collection: {error}."));
        }
        Err(Early::Late) => {
            indexes.skipped.push(budget.ended_early("The server's own validation was", &Early::Late));
        }
        Err(early) => return Err(early),
    }
    Ok(())
}

/// The errors in the answer of a validation; an invalid collection has at least one. A mongos answers for each shard.
fn errors(reply: &RawDocument) -> Vec<String> {
    let reply = Document::try_from(reply).unwrap_or_default();
    let shards = reply.get_document("raw").into_iter().flatten();
    let each = shards.filter_map(|(_, shard)| shard.as_document()).chain([&reply]);
    let invalid = each.filter(|part| !part.get_bool("valid").unwrap_or(true));
    let named = |part: &Document| {
        let errors = part.get_array("errors").into_iter().flatten();
        let errors: Vec<String> =
            errors.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned)).collect();
        if errors.is_empty() { vec!["the server gives no reason".to_owned()] } else { errors }
    };
    invalid.flat_map(named).collect()
}

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;

    use super::*;

    #[test]
    fn only_an_index_with_every_document_is_scanned() {
        for (index, expected) in [
            (doc! {"key": {"_id": 1}}, true),
            (doc! {"key": {"a": 1, "b": -1}, "unique": true, "sparse": false}, true),
            (doc! {"key": {"a": 1}, "sparse": true}, false),
            (doc! {"key": {"a": 1}, "hidden": true}, false),
            (doc! {"key": {"a": 1}, "partialFilterExpression": {"a": 1}}, false),
            (doc! {"key": {"a": 1}, "expireAfterSeconds": 1}, false),
            (doc! {"key": {"a": "text"}}, false),
            (doc! {"key": {"$**": 1}}, false),
            (doc! {}, false),
        ] {
            assert_eq!(is_whole(&index), expected, "{index}");
        }
    }

    #[test]
    fn a_scan_is_given_up_once_its_rest_does_not_fit_into_the_time() {
        let read = |(took_s, documents)| Read { took: Duration::from_secs(took_s), documents };
        let about = |seconds| Some(Needed::About(Duration::from_secs(seconds)));
        let check = |first, now, left_s: u64, whole_s: Option<Needed>| {
            let whole = exceeds(read(first), read(now), 4000, Duration::from_secs(left_s));
            assert_eq!(whole, whole_s, "{first:?} {now:?} {left_s}");
        };
        check((0, 0), (1, 100), 38, about(40));
        check((0, 0), (1, 100), 39, None);
        // A slow first batch.
        check((9, 100), (9, 100), 1, None);
        check((9, 100), (10, 400), 12, None);
        check((9, 100), (10, 400), 11, about(22));
        check((9, 100), (9, 100), 0, Some(Needed::MoreThan(Duration::from_secs(9))));
        check((1, 100), (20, 4000), 0, None);
        check((1, 100), (20, 5000), 0, None);
    }

    #[test]
    fn an_index_that_is_left_out_is_told_with_its_time() {
        let budget = Budget::start(Duration::from_secs(30));
        let sentence = budget.sentence("a_1", 3_949_000, Needed::About(Duration::from_millis(51_800)));
        let expected = "The index a_1 was not checked: a scan of 3,949,000 documents through it takes about 52 s, and audit.index_time_max is 30s.";
        assert_eq!(sentence, expected);
    }

    #[test]
    fn an_invalid_collection_has_an_error_even_without_a_reason() {
        let check = |reply: Document, expected: &[&str]| {
            assert_eq!(errors(&RawDocumentBuf::try_from(reply).unwrap()), expected);
        };
        check(doc! {"valid": true, "errors": [], "ok": 1.0}, &[]);
        check(doc! {"valid": false, "errors": ["a", "b"], "ok": 1.0}, &["a", "b"]);
        check(doc! {"valid": false, "ok": 1.0}, &["the server gives no reason"]);
        let shards = doc! {"s1": {"valid": true}, "s2": {"valid": false, "errors": ["c"]}};
        check(doc! {"valid": false, "errors": ["one shard"], "raw": shards, "ok": 1.0}, &["c", "one shard"]);
    }
}
