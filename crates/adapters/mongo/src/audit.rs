//! Audits a run: reads every stored document and compares it with the ledger.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use plimsoll_deployment::{MajorityError, Namespace, catch_up};
use plimsoll_document::{Encoded, IdForm, STAMP_FIELD, Source, ycsb_id};
use plimsoll_ledger::audit::{Differences, Examples};
use plimsoll_ledger::{
    Audit, Content, Findings, Found, Ledger, OtherWriters, Receipt, Run, Shown, Touched, Version,
};
use plimsoll_measure::integrity::Indexes;
use plimsoll_wire::{
    Address, ConnectOptions, Connection, Cursor, FindRequest, FindSpec, ReadMode, ReadPreference,
};

use crate::operation_builder::identity_of;
use crate::setup::{Counters, Differs, Effects, Judged, Setup};

pub use members::Compared;
pub use shards::Placed;

mod indexes;
mod members;
mod second_look;
mod shards;

/// The server's time limit for one batch of the scan.
const BATCH_TIMEOUT: Duration = Duration::from_secs(120);
/// Documents in one batch of the scan, unless 16 MB are reached before.
const BATCH_DOCUMENTS: u32 = 20_000;
/// Progress is reported once per this many documents.
const PROGRESS_EVERY: u64 = 50_000;

/// The most versions of a document of another run. A stamp fits every receipt with its number in some
/// version, but mostly in a far higher version.
const VERSIONS_MAX: u32 = 1 << 16;

/// A document number below this confirms a receipt of another run: of the ObjectIds that drivers generate, one in 65,536 has such a number.
const LIKELY_NUMBERS: u64 = 1 << 24;

/// The scope of an audit: a run's documents and where they are stored.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// Their content.
    pub source: Option<&'a Source>,
    /// The form of their ids.
    pub id: IdForm,
    /// The counters that all changes incremented; `None` if the changes differ.
    pub counters: Option<&'a Counters>,
    /// The kinds of updates of a plan whose changes differ, if the ledger follows some of them.
    pub effects: Option<&'a Effects>,
    /// The most documents of a collection whose indexes are checked.
    pub index_documents_max: u64,
    /// The longest check of the indexes.
    pub index_time_max: Duration,
    /// The longest wait for members that lag; zero compares no members and reads no shards.
    pub lag_max: Duration,
    /// Documents that other operations may have changed or removed.
    pub touched: &'a Touched,
    /// Whether foreign documents may be in the collection.
    pub other_writers: OtherWriters,
}

impl<'a> Scope<'a> {
    /// The scope of a run.
    pub fn of(setup: &'a Setup, touched: &'a Touched, other_writers: OtherWriters) -> Self {
        Self {
            namespace: &setup.namespace,
            source: setup.source.as_ref(),
            id: setup.id,
            counters: setup.counters.as_ref(),
            effects: setup.effects.as_ref(),
            index_documents_max: setup.index_documents_max,
            index_time_max: setup.index_time_max,
            lag_max: setup.lag_max,
            touched,
            other_writers,
        }
    }

    /// Whether copies are compared: without receipts, differing documents cannot be identified.
    fn compares_members(&self) -> bool {
        !self.lag_max.is_zero() && self.id != IdForm::Own
    }
}

/// Listens to the progress of a scan.
pub trait Listener: Send {
    /// Reports that this many documents were read.
    fn read(&mut self, _documents: u64) {}

    /// Reports a lost document; called at the end, once for each.
    fn lost(&mut self, _number: u64) {}
}

/// Ignores the progress.
impl Listener for () {}

/// The reason why documents could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server failed or refused, or its majority lags.
    #[error(transparent)]
    Majority(#[from] MajorityError),
    /// No member of a shard is its primary.
    #[error("the shard {0} has no primary that can be reached")]
    NoPrimary(String),
    /// A member has an address that cannot be parsed.
    #[error("{0:?} is no address")]
    Address(String),
    /// The primary does not report which writes its members must have.
    #[error("the primary cannot be asked for its last write: {0}")]
    NoTarget(String),
}

impl Error {
    /// Whether a server or the network closed a connection, so that another one may succeed.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Majority(MajorityError::Wire(plimsoll_wire::Error::Lost { .. })))
    }
}

impl From<plimsoll_wire::Error> for Error {
    fn from(error: plimsoll_wire::Error) -> Self {
        Self::Majority(error.into())
    }
}

/// The result of an audit.
#[derive(Clone, Debug, Default)]
pub struct Audited {
    /// The documents that the servers show.
    pub findings: Findings,
    /// The check of the indexes.
    pub indexes: Indexes,
    /// The members of replica sets, compared with their primary.
    pub compared: Compared,
    /// The shards, compared with their mongos.
    pub placed: Placed,
}

impl Audited {
    /// Whether every promise holds on every copy.
    pub fn holds(&self) -> bool {
        let placement = &self.placed.placement;
        self.findings.holds() && self.differences().next().is_none() && placement.unplaced.0 == 0
    }

    /// The members that differ from their primary, by their addresses.
    pub fn differences(&self) -> impl Iterator<Item = &(String, Differences)> {
        self.compared.differences.iter()
    }
}

/// Reads the whole collection on each of `servers`, and on the members and shards behind them. Then looks for
/// the documents through each index.
///
/// # Errors
/// When a server cannot be read to the end. A member or a shard that cannot be read is named in the result.
pub async fn scan<'a>(
    servers: &[ConnectOptions],
    ledger: &'a Ledger,
    scope: Scope<'a>,
    listener: &mut impl Listener,
) -> Result<Audited, Error> {
    let mut audit = Audit::with(ledger, scope.touched, scope.other_writers);
    let mut reader = Reader::new(ledger, scope);
    let mut audited = Audited::default();
    for server in servers {
        let seen = scan_server(server, audit.afresh(), &mut reader, listener, &mut audited).await?;
        audit.merge(&seen);
    }
    if !audit.halves().is_empty() {
        look_again(servers, &mut audit, &reader).await?;
    }
    audited.indexes = indexes::check(servers, &mut audit, &reader).await;
    audit.lost().for_each(|number| listener.lost(number));
    audited.findings = audit.finish();
    Ok(audited)
}

/// Reads one server, its members and its shards; returns the sightings of the server alone.
async fn scan_server<'a>(
    server: &ConnectOptions,
    mut audit: Audit<'a>,
    reader: &mut Reader<'a>,
    listener: &mut impl Listener,
    audited: &mut Audited,
) -> Result<Audit<'a>, Error> {
    let mut connection = connect(server).await?;
    let mut shards = shards::find(&mut connection, server, reader).await;
    let lagging = match &mut shards {
        Ok(shards) => shards.catch_up(reader.scope.lag_max).await,
        Err(_) => Vec::new(),
    };
    if lagging.is_empty() {
        catch_up(&mut connection, reader.scope.namespace).await?;
    } else {
        // The lagging shards would keep the mongos waiting, too.
        reader.lagging.extend(lagging);
        reader.lagging.push(server.address.clone());
    }
    let spec = reader.spec(&connection);
    read(&mut connection, &spec, &mut audit, reader, listener).await?;
    let placed = match shards {
        Ok(shards) => Ok(shards.compare((&mut connection, server), &audit, reader, listener).await),
        Err(sentence) => Err(sentence),
    };
    audited.place(placed);
    let compared = members::compare(&mut connection, server, &audit, reader, listener).await;
    audited.compared.extend(compared);
    Ok(audit)
}

impl Audited {
    fn place(&mut self, placed: Result<Placed, String>) {
        match placed {
            Ok(placed) => {
                self.compared.extend(placed.compared.clone());
                self.placed.extend(placed);
            }
            Err(sentence) => self.placed.shards.skipped.push(sentence),
        }
    }
}

/// Connects for a scan.
async fn connect(server: &ConnectOptions) -> Result<Connection, plimsoll_wire::Error> {
    Connection::connect(&ConnectOptions { timeout: Some(BATCH_TIMEOUT), ..server.clone() }).await
}

/// Reads a collection to its end.
async fn read(
    connection: &mut Connection,
    spec: &FindSpec,
    audit: &mut Audit<'_>,
    reader: &mut Reader<'_>,
    listener: &mut impl Listener,
) -> Result<(), plimsoll_wire::Error> {
    let mut cursor = Cursor::new(FindRequest::new(spec, &connection.limits())?);
    while let Some(documents) = cursor.next(connection).await? {
        for document in documents {
            audit.see(reader.judge(document));
            if reader.read.is_multiple_of(PROGRESS_EVERY) {
                listener.read(reader.read);
            }
        }
    }
    listener.read(reader.read);
    Ok(())
}

/// Reads the documents of every transaction that the scan shows in part once more: the server may have committed it during the scan.
async fn look_again<'a>(
    servers: &[ConnectOptions],
    audit: &mut Audit<'a>,
    reader: &Reader<'a>,
) -> Result<(), Error> {
    let mut second = audit.afresh();
    let numbers: Vec<u64> = audit.halves().iter().flat_map(|half| audit.numbers_of(half)).collect();
    for server in servers {
        let mut connection = connect(server).await?;
        let spec = reader.spec(&connection);
        second_look::look_up(&mut connection, &spec, &numbers, &mut second, reader).await?;
    }
    audit.excuse_late_commits(&second);
    Ok(())
}

struct Reader<'a> {
    ledger: &'a Ledger,
    run: Run,
    scope: Scope<'a>,
    /// The servers without a majority that has their latest writes. A scan at majority misses documents there.
    lagging: Vec<Address>,
    scratch: Vec<u8>,
    read: u64,
}

impl<'a> Reader<'a> {
    fn new(ledger: &'a Ledger, scope: Scope<'a>) -> Self {
        Self { ledger, run: ledger.run(), scope, lagging: Vec::new(), scratch: Vec::new(), read: 0 }
    }

    /// A reader of the same documents that has read none.
    fn afresh(&self) -> Self {
        Self { lagging: self.lagging.clone(), ..Self::new(self.ledger, self.scope) }
    }

    /// Reads everything in stored order. On a member of a replica set, and behind a mongos, the scan is at
    /// majority, or at `local` if the majority lags.
    fn spec(&self, connection: &Connection) -> FindSpec {
        let namespace = self.scope.namespace;
        let mut spec = FindSpec::new(&namespace.db, &namespace.collection);
        spec.batch_size = Some(BATCH_DOCUMENTS);
        let concern = if self.lagging.contains(connection.address()) { "local" } else { "majority" };
        spec.read_concern = connection.hello().is_replicated().then(|| concern.into());
        spec
    }

    /// Reads a member that may be a secondary. Every document counts, even before the member knows that a
    /// majority has it.
    fn member_spec(&self, connection: &Connection) -> FindSpec {
        let read_preference = ReadPreference::of(ReadMode::SecondaryPreferred);
        FindSpec { read_concern: None, read_preference, ..self.spec(connection) }
    }
}

impl Reader<'_> {
    fn judge(&mut self, document: &RawDocument) -> Found {
        self.read += 1;
        match self.number(document) {
            None => self.strange(document),
            Some(number) => self.compare(number, document),
        }
    }

    /// Classifies a document under a foreign `_id`. Every ObjectId looks like a receipt, so a receipt of
    /// another run needs a confirmation: the document's stamp repeats it. Without a stamp, the number is one
    /// that runs assign, or the content follows from the receipt.
    fn strange(&mut self, document: &RawDocument) -> Found {
        let stamp = stamp(document);
        let Some(receipt) = self.receipt(document) else { return Found::Foreign { stamp } };
        let confirmed = match stamp {
            Some(stamp) => receipt.version_of(stamp).is_some_and(|version| version < VERSIONS_MAX),
            None if receipt.number() < LIKELY_NUMBERS => true,
            None => self.follows(receipt, 0, document) && !self.fits_another(receipt, document),
        };
        if confirmed { Found::OtherRun { run: receipt.run(), stamp } } else { Found::Foreign { stamp } }
    }

    /// A stamp names the version that determines the content. A document without a stamp was never replaced.
    fn compare(&mut self, number: u64, document: &RawDocument) -> Found {
        let stamp = stamp(document);
        let receipt = self.run.receipt(number);
        if let Some(counters) = self.scope.counters {
            return match self.increments(counters, receipt, document) {
                Ok(shown) => Found::Receipt { number, content: Content::Counted(shown), stamp: None },
                Err(Differs) => Found::Receipt { number, content: Content::Differs, stamp },
            };
        }
        if let Some(effects) = self.scope.effects {
            return match self.updates(effects, receipt, document) {
                Ok(Judged { lacking, exceeding }) => {
                    Found::Receipt { number, content: Content::Updated { lacking, exceeding }, stamp: None }
                }
                Err(Differs) => Found::Receipt { number, content: Content::Differs, stamp },
            };
        }
        let version = stamp.map_or(Some(0), |stamp| receipt.version_of(stamp));
        match version.filter(|version| self.follows(receipt, *version, document)) {
            Some(version) => Found::Receipt { number, content: Content::Follows(version), stamp: None },
            None => Found::Receipt { number, content: Content::Differs, stamp },
        }
    }

    /// The increments that the counters of a document show, if the rest of its content follows from the
    /// receipt.
    fn increments(
        &mut self,
        counters: &Counters,
        receipt: Receipt,
        document: &RawDocument,
    ) -> Result<Option<Shown>, Differs> {
        match self.encode(receipt.number(), receipt, 0) {
            Some(Encoded::Document) => counters.shown(&self.scratch, document.as_bytes()),
            _ => Err(Differs),
        }
    }

    /// The updates that a document lacks or shows in excess, if the rest of its content follows from the receipt.
    fn updates(
        &mut self,
        effects: &Effects,
        receipt: Receipt,
        document: &RawDocument,
    ) -> Result<Judged, Differs> {
        let slot = self.ledger.allocation().locate(receipt.number());
        let counts = |kind| {
            let known = slot.zip(self.ledger.changes());
            known.map_or_else(Version::default, |(slot, changes)| changes.kinds.at(kind, slot))
        };
        match self.encode(receipt.number(), receipt, 0) {
            Some(Encoded::Document) => effects.judge(&self.scratch, document.as_bytes(), counts),
            _ => Err(Differs),
        }
    }

    /// The number in a receipt of this run.
    fn number(&self, document: &RawDocument) -> Option<u64> {
        self.receipt(document).filter(|receipt| receipt.run() == self.run).map(Receipt::number)
    }

    /// The `_id` as a receipt of any run. YCSB's form omits the time of another run.
    fn receipt(&self, document: &RawDocument) -> Option<Receipt> {
        match (self.scope.id, document.get("_id").ok()??) {
            (IdForm::ObjectId, RawBsonRef::ObjectId(id)) => Some(Receipt::from_object_id(&id.bytes())),
            (IdForm::String, RawBsonRef::String(text)) => Receipt::from_hex(text.as_bytes()).ok(),
            (IdForm::User, RawBsonRef::String(text)) => {
                Some(self.run.receipt_of_tail(ycsb_id::tail(text.as_bytes())?))
            }
            _ => None,
        }
    }

    /// Whether the stored bytes match the receipt and the version.
    fn follows(&mut self, receipt: Receipt, version: u32, document: &RawDocument) -> bool {
        self.holds_content_of(receipt.number(), receipt, version, document)
    }

    /// Whether another document of the run would have the same content, so that the content confirms no receipt.
    fn fits_another(&mut self, receipt: Receipt, document: &RawDocument) -> bool {
        self.holds_content_of(receipt.number() ^ 1, receipt, 0, document)
    }

    /// Whether the stored bytes are the content of document `number` under the `_id` of `receipt`.
    fn holds_content_of(
        &mut self,
        number: u64,
        receipt: Receipt,
        version: u32,
        document: &RawDocument,
    ) -> bool {
        let encoded = self.encode(number, receipt, version);
        encoded == Some(Encoded::Document) && self.scratch == document.as_bytes()
    }

    /// Writes the content of document `number` under the `_id` of `receipt` to the scratch buffer.
    fn encode(&mut self, number: u64, receipt: Receipt, version: u32) -> Option<Encoded> {
        self.scratch.clear();
        let identity = identity_of(receipt.run(), version, receipt.number());
        let scratch = &mut self.scratch;
        self.scope.source.map(|source| source.encode_version(version, number, &identity, scratch))
    }
}

fn stamp(document: &RawDocument) -> Option<i64> {
    document.get_i64(STAMP_FIELD).ok()
}

/// Examples of violations as text: `lost: 691f…`.
pub fn examples(run: Run, examples: &Examples, most: usize) -> Vec<String> {
    let kinds = [
        ("lost", &examples.lost),
        ("phantom", &examples.phantom),
        ("duplicated", &examples.duplicated),
        ("corrupted", &examples.corrupted),
        ("read, then gone", &examples.read_then_gone),
        ("half a transaction, without", &examples.half_transactions),
        ("lost updates", &examples.lost_increments),
        ("extra updates", &examples.extra_increments),
        ("missing from an index", &examples.missing_from_index),
    ];
    let named = |(kind, numbers): (&'static str, &Vec<u64>)| {
        numbers
            .iter()
            .take(most)
            .map(move |number| format!("{kind}: {}", run.receipt(*number)))
            .collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(named).collect()
}

/// Examples of documents that differ between copies: `missing on db2:27017: 691f…`.
pub fn examples_of_copies(run: Run, audited: &Audited, most: usize) -> Vec<String> {
    let of_members = audited.differences().flat_map(|(member, it)| {
        let kinds = [("missing", &it.missing), ("corrupted", &it.corrupted)];
        let kinds = kinds.into_iter().chain([("only", &it.extra), ("another counter", &it.counters)]);
        kinds.map(move |(kind, numbers)| (format!("{kind} on {member}"), numbers))
    });
    let placement = &audited.placed.placement;
    let of_shards = [
        ("shown by the mongos, on no shard", &placement.unplaced.1),
        ("on a shard, hidden by the mongos", &placement.hidden.1),
        ("on several shards", &placement.doubled.1),
    ];
    let of_shards = of_shards.into_iter().map(|(kind, numbers)| (kind.to_owned(), numbers));
    let named = |(kind, numbers): (String, &Vec<u64>)| {
        let numbers = numbers.iter().take(most);
        numbers.map(|number| format!("{kind}: {}", run.receipt(*number))).collect::<Vec<_>>()
    };
    of_members.chain(of_shards).flat_map(named).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_ledger::Allocation;

    use super::*;
    use crate::testing::setup;

    /// The finding for a document without a stamp whose `_id` is the receipt of another run with this number.
    fn found(template: &str, number: u64) -> Found {
        let text = format!(r#"{{"collection": "d.c", "document": {template}, "stamp": false}}"#);
        let setup = setup(&text, &[("insert", r#"{"insert": {}}"#)]).unwrap();
        let scope = Scope::of(&setup, &Touched::None, OtherWriters::Excluded);
        let mut bytes = Vec::new();
        let source = setup.source.as_ref().unwrap();
        let encoded = source.encode_version(0, number, &identity_of(OTHER, 0, number), &mut bytes);
        assert_eq!(encoded, Encoded::Document);
        let ledger = Ledger::new(setup.run, Allocation::new(10, 1, None).unwrap());
        let mut reader = Reader::new(&ledger, scope);
        reader.judge(RawDocument::from_bytes(&bytes).unwrap())
    }

    const OTHER: Run = Run { time_s: 9, tag: [9, 9, 9] };

    #[test]
    fn a_likely_number_or_dependent_content_confirms_another_run() {
        let confirmed = Found::OtherRun { run: OTHER, stamp: None };
        for (template, number, expected) in [
            (r#"{"a": 1}"#, 3, confirmed),
            (r#"{"a": 1}"#, LIKELY_NUMBERS, Found::Foreign { stamp: None }),
            (r#"{"n": {"$number": {}}}"#, 3, confirmed),
            (r#"{"n": {"$number": {}}}"#, LIKELY_NUMBERS, confirmed),
        ] {
            assert_eq!(found(template, number), expected, "{template} {number}");
        }
    }
}
