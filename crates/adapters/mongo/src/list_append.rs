//! Plans appends to lists and reads of them, records their history, and reads every list at the end.
//!
//! Two lists are fields of one document, so an operation of several steps spans documents and fields. A document's `_id` carries the run.

use bson::{Document, RawDocument, doc};
use plimsoll_consistency::{Element, ListId, Outcome, Step, Transaction};
use plimsoll_deployment::Namespace;
use plimsoll_element::append;
use plimsoll_ledger::Run;
use plimsoll_load::mix::scramble;
use plimsoll_measure::clock;
use plimsoll_wire::{Connection, Error};

use crate::setup::Setup;

/// The most operations that one worker records; its load then ends.
pub const OPERATIONS_MAX: usize = 500_000;

/// The number of operations per list before other lists take their place: about 30 appends, so that reads
/// stay short.
const OPERATIONS_PER_LIST: u64 = 24;
/// The list numbers that are reserved for each phase.
const LISTS_PER_PHASE: u64 = 1_000_000_000;
/// The most workers of a run.
const WORKERS_MAX: u64 = 256;
/// The most lists in one of the final reads.
const READ_BATCH: usize = 100;
/// The process number of the final reads in the history.
const READER: u32 = u32::MAX;
/// The number of successive lists that share a document, each in its own field.
pub const LISTS_PER_DOCUMENT: u64 = FIELDS.len() as u64;
const FIELDS: [&str; 2] = ["a", "b"];

/// A planned step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    Append(ListId, Element),
    Read(ListId),
}

/// Numbers the elements of one worker and keeps its history.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    elements: u64,
    history: Vec<Transaction>,
}

impl Recorder {
    /// Plans the steps of an operation; false if the history is full.
    pub fn plan(&mut self, shape: Shape, number: u64, steps: &mut Vec<Planned>) -> bool {
        steps.clear();
        let draw = |salt: u64| scramble(number, salt);
        for index in 0..1 + draw(0) % u64::from(shape.steps) {
            let list = shape.list(number, draw(2 * index + 1));
            steps.push(if draw(2 * index + 2).is_multiple_of(2) {
                Planned::Read(list)
            } else {
                self.elements += 1;
                Planned::Append(list, self.elements * WORKERS_MAX + shape.worker % WORKERS_MAX)
            });
        }
        self.history.len() < OPERATIONS_MAX
    }

    pub fn record(&mut self, transaction: Transaction) {
        self.history.push(transaction);
    }

    pub fn close(self) -> Vec<Transaction> {
        self.history
    }
}

/// The settings of one operation of the plan for one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub steps: u32,
    pub lists: u32,
    pub worker: u64,
    pub phase: u32,
}

impl Shape {
    /// A list in use. All workers move on to other lists at about the same time, because they share the numbers of operations.
    fn list(&self, number: u64, draw: u64) -> ListId {
        let lists = u64::from(self.lists);
        let earlier = number / (lists * OPERATIONS_PER_LIST) * lists;
        u64::from(self.phase.saturating_sub(1)) * LISTS_PER_PHASE + earlier + draw % lists
    }
}

/// Appends the update that appends an element.
pub(crate) fn write_append(out: &mut Vec<u8>, setup: &Setup, list: ListId, element: Element) {
    append::string(out, "update", setup.namespace.collection.as_bytes());
    append::array(out, "updates", |out| {
        append::embedded_item(out, 0, |out| {
            append::document(out, |out| {
                append::nested(out, "q", |out| append::string(out, "_id", id(setup.run, list)));
                append::nested(out, "u", |out| {
                    append::nested(out, "$push", |out| append::int64(out, field(list), element as i64));
                });
                append::boolean(out, "upsert", true);
            });
        });
    });
}

/// Appends the find that reads a list.
pub(crate) fn write_read(out: &mut Vec<u8>, setup: &Setup, list: ListId) {
    append::string(out, "find", setup.namespace.collection.as_bytes());
    append::nested(out, "filter", |out| append::string(out, "_id", id(setup.run, list)));
    append::int64(out, "limit", 1);
    append::boolean(out, "singleBatch", true);
}

/// The elements in the reply to the find of [`write_read`]. A missing list is empty. `None` if the reply has
/// another form.
pub(crate) fn elements(reply: &RawDocument, list: ListId) -> Option<Vec<Element>> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    let Some(found) = batch.into_iter().next() else { return Some(Vec::new()) };
    let found = found.ok()?.as_document()?;
    match found.get(field(list)).ok()? {
        None => Some(Vec::new()),
        Some(stored) => {
            stored.as_array()?.into_iter().map(|item| Some(item.ok()?.as_i64()? as Element)).collect()
        }
    }
}

/// Reads every list of a history, so that its last appends have a position in the order. Each read of a list
/// counts as a transaction. `None` if the reply or a stored list has another form than expected.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn read_all(
    connection: &mut Connection,
    setup: &Setup,
    history: &[Transaction],
) -> Result<Option<Vec<Transaction>>, Error> {
    let mut lists: Vec<ListId> =
        history.iter().flat_map(|transaction| &transaction.steps).map(Step::list).collect();
    lists.sort_unstable();
    lists.dedup();
    let mut reads = Vec::with_capacity(lists.len());
    for lists in lists.chunks(READ_BATCH) {
        let invoked_ns = clock::now().as_ns();
        let Some(found) = read_some(connection, setup, lists).await? else { return Ok(None) };
        let completed_ns = clock::now().as_ns();
        for list in lists {
            let Some(elements) = stored(&found, setup.run, *list) else { return Ok(None) };
            reads.push(Transaction {
                process: READER,
                invoked_ns,
                completed_ns,
                outcome: Outcome::Committed,
                steps: vec![Step::Read { list: *list, elements }],
            });
        }
    }
    Ok(Some(reads))
}

async fn read_some(
    connection: &mut Connection,
    setup: &Setup,
    lists: &[ListId],
) -> Result<Option<Vec<Document>>, Error> {
    let mut ids: Vec<String> = lists.iter().map(|list| id(setup.run, *list)).collect();
    ids.dedup();
    let mut find = doc! {
        "find": &setup.namespace.collection,
        "filter": {"_id": {"$in": ids}},
        "batchSize": READ_BATCH as i32,
        "singleBatch": true,
    };
    let read = setup.commands.iter().zip(&setup.concerns).find_map(|(command, concerns)| {
        matches!(command, crate::setup::Command::ListAppend { .. }).then(|| concerns.read.clone()).flatten()
    });
    if let Some(level) = read {
        find.insert("readConcern", doc! {"level": level});
    }
    let reply = run(connection, &setup.namespace, &find).await?;
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).ok();
    Ok(batch.and_then(|batch| batch.iter().map(|value| value.as_document().cloned()).collect()))
}

/// The elements of a list; an empty list without its document or field. `None` if a value has another form
/// than an append stores.
fn stored(documents: &[Document], run: Run, list: ListId) -> Option<Vec<Element>> {
    let id = id(run, list);
    let document = documents.iter().find(|document| document.get_str("_id").is_ok_and(|found| found == id));
    let Some(values) = document.and_then(|document| document.get(field(list))) else { return Some(vec![]) };
    values.as_array()?.iter().map(|value| Some(value.as_i64()? as Element)).collect()
}

/// Commits an empty transaction. Returns the server's refusal if it supports no transactions.
///
/// # Errors
/// When the server does not answer.
pub async fn refused_transaction(
    connection: &mut Connection,
    namespace: &Namespace,
) -> Result<Option<String>, Error> {
    let session = doc! {"id": bson::Binary {
        subtype: bson::spec::BinarySubtype::Uuid,
        bytes: b"plimsoll-probe-1".to_vec(),
    }};
    let within = doc! {"lsid": session, "txnNumber": clock::wall_ms() as i64, "autocommit": false};
    let mut find = doc! {"find": &namespace.collection, "limit": 1, "singleBatch": true};
    find.extend(within.clone());
    find.extend(doc! {"startTransaction": true, "readConcern": {"level": "snapshot"}});
    let mut commit = doc! {"commitTransaction": 1};
    commit.extend(within);
    let admin = Namespace { db: "admin".into(), ..namespace.clone() };
    for (namespace, command) in [(namespace, find), (&admin, commit)] {
        match run(connection, namespace, &command).await {
            Ok(_) => {}
            Err(Error::Server(error)) => return Ok(Some(error.message.clone())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

async fn run(
    connection: &mut Connection,
    namespace: &Namespace,
    command: &Document,
) -> Result<Document, Error> {
    let body = bson::RawDocumentBuf::try_from(command).unwrap_or_default();
    let reply = connection.command(&namespace.db, &body).await?;
    Ok(Document::try_from(reply.as_ref()).unwrap_or_default())
}

/// The `_id` of a list's document.
fn id(run: Run, list: ListId) -> String {
    let run: String = run.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{run}-{}", list / LISTS_PER_DOCUMENT)
}

const fn field(list: ListId) -> &'static str {
    FIELDS[(list % LISTS_PER_DOCUMENT) as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SHAPE: Shape = Shape { steps: 4, lists: 8, worker: 3, phase: 1 };

    #[test]
    fn no_element_is_appended_twice_and_lists_stay_short() {
        let (mut recorders, mut steps) = ([Recorder::default(), Recorder::default()], Vec::new());
        let (mut elements, mut lengths) = (HashSet::new(), std::collections::HashMap::new());
        for number in 0..10_000 {
            let worker = number % 2;
            assert!(recorders[worker as usize].plan(Shape { worker, ..SHAPE }, number, &mut steps));
            assert!((1..=4).contains(&steps.len()));
            for step in &steps {
                let Planned::Append(list, element) = *step else { continue };
                assert!(elements.insert(element));
                *lengths.entry(list).or_insert(0) += 1;
            }
        }
        assert!(*lengths.values().max().unwrap() < 64 && lengths.len() > 400, "{lengths:?}");
    }

    #[test]
    fn two_phases_share_no_list() {
        assert_eq!(SHAPE.list(0, 5), 5);
        assert_eq!(Shape { phase: 2, ..SHAPE }.list(0, 5), LISTS_PER_PHASE + 5);
    }

    #[test]
    fn a_reply_shows_the_elements_of_its_list() {
        let reply = |found: Vec<Document>| {
            bson::RawDocumentBuf::try_from(&doc! {"cursor": {"firstBatch": found}}).unwrap()
        };
        let found = reply(vec![doc! {"_id": "x", "a": [1_i64, 2_i64]}]);
        assert_eq!(elements(&found, 0), Some(vec![1, 2]));
        assert_eq!(elements(&found, 1), Some(vec![]));
        assert_eq!(elements(&reply(vec![]), 0), Some(vec![]));
        assert_eq!(elements(&reply(vec![doc! {"a": 5}]), 0), None);
    }
}
