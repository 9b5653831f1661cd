//! The load target over the official driver: the same operations, so that the driver's tax can be shown.

use std::error::Error as StdError;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{ClientOptions, ReadConcern, WriteConcern};
use mongodb::{Client, Collection};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::{Class, Outcome as Wire, W};

use crate::books::{Books, Closed};
use crate::maker::{Maker, Picked};
use crate::outcome::{add, outcome, rejection, state};
use crate::setup::{Command, FindShape, Selection, Setup};
use crate::topology::Site;

/// One worker's view of the server, over the official driver.
#[derive(Debug)]
pub struct Driver {
    maker: Maker,
    site: Arc<Site>,
    /// One client a worker, made on its own runtime: its pool is what users have.
    client: Mutex<Option<Client>>,
}

/// One operation in flight through the worker's client.
#[derive(Debug)]
pub struct Lane {
    collection: Collection<RawDocumentBuf>,
    ready: Ready,
}

#[derive(Debug)]
enum Ready {
    Nothing,
    Insert { documents: Vec<RawDocumentBuf>, numbers: Range<u64>, ordered: bool },
    Find { filter: Document, promised: bool, operation: usize },
    Change { filter: Document, update: RawDocumentBuf, promised: bool, operation: usize },
}

impl Driver {
    /// A target for one worker.
    pub fn new(setup: Arc<Setup>, site: Arc<Site>, books: Books) -> Self {
        Self { maker: Maker::new(setup, books), site, client: Mutex::default() }
    }

    /// What this worker has to tell the others before a phase.
    pub const fn maker(&self) -> &Maker {
        &self.maker
    }

    /// Ends the target and gives its books.
    pub fn close(self) -> Closed {
        self.maker.close()
    }

    async fn client(&self) -> Result<Client, Error> {
        let known = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let mut options = ClientOptions::parse(self.site.uri()).await?;
        options.app_name.get_or_insert_with(|| "plimsoll".into());
        options.write_concern = self.maker.setup.write_concern.as_ref().map(write_concern);
        options.retry_writes = Some(false);
        options.retry_reads = Some(false);
        options.max_pool_size = Some(plimsoll_load::arrivals::CONNECTIONS_MAX);
        let client = Client::with_options(options)?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    fn ready_insert(&self, batch: u32, ordered: bool) -> Option<Ready> {
        let numbers = self.maker.take(batch)?;
        let document = |number| raw(|out| self.maker.write_document(out, number));
        Some(Ready::Insert { documents: numbers.clone().map(document).collect(), numbers, ordered })
    }

    fn ready_other(&self, command: &Command, operation: usize, number: u64) -> Option<Ready> {
        let picked = self.maker.pick(operation, number)?;
        let filter = self.filter(command, picked);
        match command {
            Command::Find { .. } => Some(Ready::Find { filter, promised: picked.promised, operation }),
            Command::Delete { .. } => {
                Some(Ready::Change { filter, update: RawDocumentBuf::new(), promised: false, operation })
            }
            _ => {
                let update = raw(|out| self.maker.write_update(out, command, picked));
                let promised = picked.promised && command.must_match();
                Some(Ready::Change { filter, update, promised, operation })
            }
        }
    }

    fn filter(&self, command: &Command, picked: Picked) -> Document {
        let filter = raw(|out| self.maker.write_filter(out, command, picked));
        Document::try_from(filter.as_ref()).unwrap_or_default()
    }

    async fn insert(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[RawDocumentBuf],
        numbers: &Range<u64>,
        ordered: bool,
    ) -> Reply {
        let sent: Result<(), Error> = match documents {
            [one] => collection.insert_one(one).await.map(drop),
            many => collection.insert_many(many).ordered(ordered).await.map(drop),
        };
        let mut reply = Reply { bytes_sent: bytes(documents), ..Reply::acknowledged(0) };
        let mut books = self.maker.books();
        let split = Split::of(documents.len(), reply.bytes_sent);
        let acknowledged = self.maker.setup.is_acknowledged();
        for (span, outcome) in outcomes(&sent, documents.len(), ordered, acknowledged, split) {
            let first = numbers.start + span.start as u64;
            books.settle(first..first + span.len() as u64, state(outcome));
            add(&mut reply, outcome, span.len() as u64);
        }
        reply
    }

    async fn change(
        &self,
        lane: &Lane,
        filter: &Document,
        update: &RawDocumentBuf,
        promised: bool,
        operation: usize,
    ) -> Reply {
        let command = &self.maker.setup.commands[operation];
        let collection = &lane.collection;
        let changed = match command {
            Command::Delete { .. } => {
                collection.delete_one(filter.clone()).await.map(|done| done.deleted_count)
            }
            Command::Update { multi, upsert, .. } => {
                let update = Document::try_from(update.as_ref()).unwrap_or_default();
                let changed = if *multi {
                    collection.update_many(filter.clone(), update).upsert(*upsert).await
                } else {
                    collection.update_one(filter.clone(), update).upsert(*upsert).await
                };
                changed.map(|done| done.matched_count + u64::from(done.upserted_id.is_some()))
            }
            _ => collection.replace_one(filter.clone(), update).await.map(|done| done.matched_count),
        };
        match changed {
            Ok(0) if promised => Reply::failed(Outcome::Rejected(Rejection::Unexpected), 1),
            Ok(count) => Reply::acknowledged(count),
            Err(error) => Reply::failed(of_error(&error), 1),
        }
    }
}

async fn find(
    collection: &Collection<RawDocumentBuf>,
    filter: &Document,
    shape: &FindShape,
    by_receipt: bool,
    promised: bool,
) -> Reply {
    let mut find = collection.find(filter.clone());
    if let Some(projection) = &shape.projection {
        find = find.projection(projection.clone());
    }
    if let Some(sort) = &shape.sort {
        find = find.sort(sort.clone());
    }
    if let Some(level) = &shape.read_concern {
        find = find.read_concern(ReadConcern::custom(level));
    }
    // A negative limit asks for one batch, as the lean client does for one document.
    let limit = if by_receipt { Some(-1) } else { shape.limit.map(i64::from) };
    if let Some(limit) = limit {
        find = find.limit(limit);
    }
    let mut cursor = match find.await {
        Ok(cursor) => cursor,
        Err(error) => return Reply::failed(of_read_error(&error), 1),
    };
    let mut documents = 0;
    loop {
        match cursor.advance().await {
            Ok(true) => documents += 1,
            Ok(false) if promised && documents != 1 => {
                return Reply::failed(Outcome::Rejected(Rejection::Unexpected), 1);
            }
            Ok(false) => return Reply::acknowledged(documents),
            Err(error) => return Reply::failed(of_read_error(&error), 1),
        }
    }
}

fn raw(write: impl FnOnce(&mut Vec<u8>)) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    write(&mut bytes);
    // The bytes are ours and whole; a document that were none would be found out by the server's refusal.
    RawDocumentBuf::from_bytes(bytes).unwrap_or_default()
}

fn bytes(documents: &[RawDocumentBuf]) -> u64 {
    documents.iter().map(|document| document.as_bytes().len() as u64).sum()
}

fn write_concern(lean: &plimsoll_wire::WriteConcern) -> WriteConcern {
    let mut concern = WriteConcern::default();
    concern.w = Some(match &lean.w {
        W::Number(number) => (*number).into(),
        W::Majority => mongodb::options::Acknowledgment::Majority,
        W::Tag(tag) => mongodb::options::Acknowledgment::Custom(tag.clone()),
    });
    concern.journal = lean.j;
    concern.w_timeout = lean.timeout_ms.map(|ms| std::time::Duration::from_millis(u64::from(ms)));
    concern
}

/// The outcome of each document of an insert, in spans.
fn outcomes(
    sent: &Result<(), Error>,
    count: usize,
    ordered: bool,
    acknowledged: bool,
    split: Split,
) -> Vec<(Range<usize>, Outcome)> {
    let whole = |outcome| vec![(0..count, outcome)];
    let error = match sent {
        Ok(()) if acknowledged => return whole(Outcome::Acknowledged),
        Ok(()) => return whole(Outcome::Unknown(Doubt::Unacknowledged)),
        Err(error) => error,
    };
    let ErrorKind::InsertMany(many) = error.kind.as_ref() else {
        return whole(of_insert_error(error, split));
    };
    let others = match &many.write_concern_error {
        Some(_) => Outcome::Unknown(Doubt::WriteConcern),
        None => Outcome::Acknowledged,
    };
    let refused = many.write_errors.iter().flatten();
    let refused = refused.map(|error| (error.index, outcome(Wire::of_write_error(error.code))));
    spread(refused, count, ordered, others)
}

/// Spans around refused documents; behind the first one of an ordered insert nothing was tried.
fn spread(
    refused: impl Iterator<Item = (usize, Outcome)>,
    count: usize,
    ordered: bool,
    others: Outcome,
) -> Vec<(Range<usize>, Outcome)> {
    let mut spans = Vec::new();
    let mut next = 0;
    for (index, outcome) in refused.filter(|(index, _)| *index < count) {
        spans.push((next..index, others));
        spans.push((index..index + 1, outcome));
        next = index + 1;
    }
    let rest = if ordered && next > 0 { Outcome::Rejected(Rejection::NotTried) } else { others };
    spans.push((next..count, rest));
    spans.retain(|(span, _)| !span.is_empty());
    spans
}

/// Whether the driver may have sent an insert as several commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Possible,
    No,
}

impl Split {
    /// Held against what every server takes in one command.
    const fn of(documents: usize, bytes: u64) -> Self {
        if documents > 100_000 || bytes > 48_000_000 { Self::Possible } else { Self::No }
    }
}

/// A refusal of one command says nothing about those before it.
fn of_insert_error(error: &Error, split: Split) -> Outcome {
    match split {
        Split::No => of_error(error),
        Split::Possible => Outcome::Unknown(Doubt::Interrupted),
    }
}

fn of_error(error: &Error) -> Outcome {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => outcome(Wire::of_write_error(error.code)),
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Outcome::Unknown(Doubt::WriteConcern),
        ErrorKind::Command(error) => outcome(Wire::of_command_error(error.code)),
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => Outcome::Unknown(Doubt::ConnectionLost),
        ErrorKind::ServerSelection { .. } => Outcome::Rejected(Rejection::NotTried),
        _ => Outcome::Unknown(Doubt::Interrupted),
    }
}

/// A read that the server refused was not done, whatever kept it.
fn of_read_error(error: &Error) -> Outcome {
    match error.kind.as_ref() {
        ErrorKind::Command(error) => Outcome::Rejected(rejection(Class::of_code(error.code))),
        _ => of_error(error),
    }
}

impl Target for Driver {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        self.maker.books().limit(documents);
    }

    async fn open(&self) -> Result<Lane, Box<dyn StdError + Send + Sync>> {
        let client = self.client().await?;
        let namespace = &self.maker.setup.namespace;
        client.database("admin").run_command(mongodb::bson::doc! {"ping": 1}).await?;
        Ok(Lane {
            collection: client.database(&namespace.db).collection(&namespace.collection),
            ready: Ready::Nothing,
        })
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        let command = &self.maker.setup.commands[operation];
        let ready = match command {
            Command::Insert { batch, ordered } => self.ready_insert(*batch, *ordered),
            _ => self.ready_other(command, operation, number),
        };
        let Some(ready) = ready else { return Prepared::Exhausted };
        lane.ready = ready;
        Prepared::Ready
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        let ready = std::mem::replace(&mut lane.ready, Ready::Nothing);
        let work = async {
            match &ready {
                Ready::Nothing => Reply::acknowledged(0),
                Ready::Insert { documents, numbers, ordered } => {
                    self.insert(&lane.collection, documents, numbers, *ordered).await
                }
                Ready::Find { filter, promised, operation } => {
                    let Command::Find { shape, selection } = &self.maker.setup.commands[*operation] else {
                        return Reply::acknowledged(0);
                    };
                    let by_receipt = matches!(selection, Selection::Receipt);
                    find(&lane.collection, filter, shape, by_receipt, *promised).await
                }
                Ready::Change { filter, update, promised, operation } => {
                    self.change(lane, filter, update, *promised, *operation).await
                }
            }
        };
        let documents = if let Ready::Insert { documents, .. } = &ready { documents.len() as u64 } else { 1 };
        let late = |_| Reply::failed(Outcome::Unknown(Doubt::Timeout), documents);
        tokio::time::timeout(self.maker.setup.timeout, work).await.unwrap_or_else(late)
    }

    fn discard(&self, lane: &mut Lane) {
        if let Ready::Insert { numbers, .. } = std::mem::replace(&mut lane.ready, Ready::Nothing) {
            self.maker.books().give_back(numbers);
        }
    }

    fn tick(&self) {
        self.maker.books().flush();
    }

    /// The driver's pool mends its connections itself.
    fn is_broken(&self, _lane: &Lane) -> bool {
        false
    }

    async fn settle(&self, _lane: &mut Lane) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_interrupted_leaves_its_documents_unknown() {
        let error = |code: i32| {
            let response = mongodb::bson::doc! {"ok": 0, "code": code, "errmsg": "no", "codeName": "No"};
            let command: mongodb::error::CommandError = bson::deserialize_from_document(response).unwrap();
            Error::from(ErrorKind::Command(command))
        };
        for code in [11600, 11602, 91, 189, 50, 262] {
            assert_eq!(of_error(&error(code)), Outcome::Unknown(Doubt::Interrupted), "{code}");
        }
        assert_eq!(of_error(&error(10107)), Outcome::Rejected(Rejection::NotPrimary));
        assert_eq!(of_read_error(&error(50)), Outcome::Rejected(Rejection::Overload));
        assert_eq!(
            of_insert_error(&error(10107), Split::of(200_000, 0)),
            Outcome::Unknown(Doubt::Interrupted)
        );
    }

    const REFUSED: Outcome = Outcome::Rejected(Rejection::DuplicateKey);

    #[test]
    fn refused_documents_stand_alone_in_an_unordered_insert() {
        let spans = spread([(1, REFUSED), (3, REFUSED)].into_iter(), 4, false, Outcome::Acknowledged);
        assert_eq!(
            spans,
            [(0..1, Outcome::Acknowledged), (1..2, REFUSED), (2..3, Outcome::Acknowledged), (3..4, REFUSED)]
        );
    }

    #[test]
    fn nothing_is_tried_behind_the_first_refusal_of_an_ordered_insert() {
        let spans = spread([(1, REFUSED)].into_iter(), 4, true, Outcome::Acknowledged);
        assert_eq!(spans[2], (2..4, Outcome::Rejected(Rejection::NotTried)));
    }
}
