//! Provides the interface of readings: ingest, statistics, ranges, the latest.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use mongodb::Database;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::Acknowledgment;
use tokio::sync::{mpsc, oneshot};

use super::allowance::Allowance;
use super::bucket::{self, Buckets};
use super::committer::{self, Job, Shared};
use super::counters::{Counters, Counting, add};
use super::document::{self, Documents};
use super::group_commit::GroupCommit;
use super::newest::Newest;
use super::queue::{Places, Queue};
use super::range::{Page, RangeQuery};
use super::statistics::{SensorStatistics, StatisticsQuery};
use super::store::Store;
use super::stored::{Stored, Written};
use super::tally::Tally;
use super::time_series::{self, Series};
use super::{Design, Error, Fault, IngestError, Settings};
use crate::plan::{self, Plan};
use crate::reading::Reading;
use plimsoll_service::Clock;
use plimsoll_service::Reservation;
use plimsoll_service::blocking;

/// The largest number of sensors that one statistics query reads concurrently.
const TALLIES_MAX: usize = 8;

/// The answers for the readings of a batch, in their order.
pub type Answers = Vec<Result<Stored, IngestError>>;

/// Readings in MongoDB. Clones share everything.
#[derive(Clone)]
pub struct Readings {
    shared: Arc<Shared>,
    /// The same store, for queries: perhaps through other connections.
    reads: Arc<dyn Store>,
    committers: Arc<[mpsc::UnboundedSender<Job>]>,
    settings: Arc<Settings>,
    database: Option<Database>,
}

/// The collection that records the design of the stored readings.
const DESIGNS: &str = "reading_design";

/// Refuses to open a database with another design: the designs do not see each other's readings. The first process to open a
/// database records its design.
async fn agree_on_design(database: &Database, wanted: Design) -> Result<(), Error> {
    let designs = database.collection::<Document>(DESIGNS);
    if designs.find_one(recorded()).await?.is_none() {
        check_unrecorded(&designs_with_readings(database).await?, wanted)?;
    }
    let before = designs.find_one_and_update(recorded(), record(wanted)).upsert(true).await?;
    let found = before.and_then(|before| before.get_str("design").ok().map(str::to_owned));
    match found.filter(|found| found != wanted.name()) {
        Some(found) => Err(Error::OtherDesign { found, wanted: wanted.name() }),
        None => Ok(()),
    }
}

/// The designs that have readings in the database. A database that was filled before designs were recorded, or restored without
/// the record, has readings and no record.
async fn designs_with_readings(database: &Database) -> Result<Vec<Design>, Error> {
    let mut found = Vec::new();
    for design in [Design::Document, Design::Bucket, Design::TimeSeries] {
        let collection = database.collection::<RawDocumentBuf>(collection_of(design));
        if collection.find_one(doc! {}).projection(doc! {"_id": 1}).await?.is_some() {
            found.push(design);
        }
    }
    Ok(found)
}

const fn collection_of(design: Design) -> &'static str {
    match design {
        Design::Document => document::COLLECTION,
        Design::Bucket => bucket::COLLECTION,
        Design::TimeSeries => time_series::COLLECTION,
    }
}

/// Refuses a design that would not see these readings.
fn check_unrecorded(found: &[Design], wanted: Design) -> Result<(), Error> {
    match found {
        [] => Ok(()),
        [only] if *only == wanted => Ok(()),
        [only] => Err(Error::OtherDesign { found: only.name().to_owned(), wanted: wanted.name() }),
        several => {
            let names: Vec<_> = several.iter().map(|design| design.name()).collect();
            Err(Error::SeveralDesigns(names.join(" and ")))
        }
    }
}

/// Opens the store of a design.
async fn store(database: &Database, settings: &Settings) -> Result<Arc<dyn Store>, Error> {
    let store: Arc<dyn Store> = match settings.design {
        Design::Document => Arc::new(Documents::open(database).await?),
        Design::Bucket => Arc::new(Buckets::open(database, &settings.bucket).await?),
        Design::TimeSeries => Arc::new(Series::open(database).await?),
    };
    Ok(store)
}

fn recorded() -> Document {
    doc! {"_id": "design"}
}

fn record(design: Design) -> Document {
    doc! {"$setOnInsert": {"design": design.name()}}
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Readings {
    /// Creates missing collections and indexes and starts the committers on this tokio runtime. Readings are acknowledged at
    /// the database's write concern.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Unacknowledged`], [`Error::Database`].
    pub async fn open(database: &Database, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        if database.write_concern().is_some_and(|concern| concern.w == Some(Acknowledgment::Nodes(0))) {
            return Err(Error::Unacknowledged);
        }
        agree_on_design(database, settings.design).await?;
        let store = store(database, &settings).await?;
        Ok(Readings { database: Some(database.clone()), ..Readings::over(store, settings) })
    }

    /// Queries through another client's `database`, so that they do not take the connections of commits.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn reading_through(self, database: &Database) -> Result<Self, Error> {
        let reads = store(database, &self.settings).await?;
        Ok(Readings { reads, ..self })
    }

    /// Starts the committers over a store.
    pub(crate) fn over(store: Arc<dyn Store>, settings: Settings) -> Self {
        let reads = Arc::clone(&store);
        let shared = Arc::new(Shared {
            store,
            queue: Queue::new(settings.queue_readings_max),
            counting: Counting::default(),
            newest: Newest::default(),
            clock: Clock::start(),
            committers: settings.committers,
            commit_time_max: settings.commit_time_max,
        });
        let gather_ns = u64::try_from(settings.gather_max.as_nanos()).unwrap_or(u64::MAX);
        let gather = GroupCommit::new(gather_ns, settings.commit_readings_max);
        let start = |_| {
            let (sender, jobs) = mpsc::unbounded_channel();
            tokio::spawn(committer::run(Arc::clone(&shared), jobs, gather.clone()));
            sender
        };
        let committers = (0..settings.committers).map(start).collect();
        Readings { shared, reads, committers, settings: Arc::new(settings), database: None }
    }

    /// Stores one reading in a group commit and returns when it is acknowledged. If the caller cancels, the reading may or may
    /// not be stored.
    ///
    /// # Errors
    /// [`IngestError::Busy`] and [`IngestError::Closing`] if it was refused; [`IngestError::Store`] if its outcome is unknown.
    pub async fn ingest(&self, reading: Reading) -> Result<Stored, IngestError> {
        let room = self.room(self.shared.queue.try_enter(1), 1)?;
        let committer = self.committer_of(&reading.sensor);
        let mut written = self.send(committer, vec![reading], room).await?;
        Ok(written.pop().unwrap_or_else(|| Err(Fault::new("no answer")))?)
    }

    /// Stores many readings and returns their outcomes in order. A batch larger than a quarter of the queue is split; it is
    /// refused only before its first part.
    ///
    /// # Errors
    /// [`IngestError::Busy`] and [`IngestError::Closing`]: all were refused.
    pub async fn ingest_many(&self, readings: Vec<Reading>) -> Result<Answers, IngestError> {
        let part_max = (self.settings.queue_readings_max / 4).max(1);
        let mut answers = Vec::with_capacity(readings.len());
        let mut readings = readings.into_iter().peekable();
        while readings.peek().is_some() {
            let part: Vec<Reading> = readings.by_ref().take(part_max).collect();
            let count = u32::try_from(part.len()).unwrap_or(u32::MAX);
            match answers.is_empty() {
                true => {
                    let room = self.room(self.shared.queue.try_enter(count), part.len())?;
                    answers.extend(self.ingest_part(part, room).await);
                }
                false => match self.room(self.shared.queue.enter(count).await, part.len()) {
                    Ok(room) => answers.extend(self.ingest_part(part, room).await),
                    Err(error) => answers.extend(part.iter().map(|_| Err(error.clone()))),
                },
            }
        }
        Ok(answers)
    }

    /// Counts accepted and refused readings.
    fn room(&self, entered: Result<Places, IngestError>, readings: usize) -> Result<Places, IngestError> {
        match &entered {
            Ok(_) => add(&self.shared.counting.accepted, readings),
            Err(IngestError::Busy { .. }) => add(&self.shared.counting.busy, readings),
            Err(_) => {}
        }
        entered
    }

    /// Distributes readings to their committers, waits for all, and returns the answers in the order of the readings.
    async fn ingest_part(&self, readings: Vec<Reading>, mut room: Places) -> Answers {
        let mut answers: Answers = vec![Err(Fault::new("no answer").into()); readings.len()];
        let mut shares = vec![(Vec::new(), Vec::new()); self.committers.len()];
        for (place, reading) in readings.into_iter().enumerate() {
            let (places, share) = &mut shares[self.committer_of(&reading.sensor)];
            places.push(place);
            share.push(reading);
        }
        let mut sent = Vec::new();
        for (committer, (mut places, mut share)) in shares.into_iter().enumerate() {
            while !share.is_empty() {
                let rest = share.split_off(share.len().min(self.settings.commit_readings_max));
                let rest_places = places.split_off(share.len());
                // The whole part has places in the queue, so each committer's share has places too.
                let Some(room) = room.split(share.len()) else { continue };
                sent.push((places, self.send(committer, share, room)));
                (places, share) = (rest_places, rest);
            }
        }
        for (places, answer) in sent {
            let written = answer.await;
            for (index, place) in places.into_iter().enumerate() {
                answers[place] = match &written {
                    Ok(written) => written[index].clone().map_err(IngestError::Store),
                    Err(fault) => Err(IngestError::Store(fault.clone())),
                };
            }
        }
        answers
    }

    /// Sends readings to a committer at once; the future waits for the answer.
    fn send(
        &self,
        committer: usize,
        readings: Vec<Reading>,
        room: Places,
    ) -> impl Future<Output = Result<Vec<Written>, Fault>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let job = Job { readings, accepted_ns: self.shared.clock.now_ns(), answer, room };
        let sent = self.committers[committer].send(job);
        async move {
            let ended = || Fault::new("the committer has ended");
            sent.map_err(|_| ended())?;
            answered.await.map_err(|_| ended())?
        }
    }

    /// All readings of a sensor use one committer, so that its buckets see no concurrent commits.
    fn committer_of(&self, sensor: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        sensor.hash(&mut hasher);
        (hasher.finish() % self.committers.len() as u64) as usize
    }

    /// Statistics of each sensor, in the order of the query. A sensor without readings has no intervals. `memory` reserves
    /// their memory, so keep it as long as the statistics.
    ///
    /// # Errors
    /// [`Error::Query`], [`Error::TooMuch`], [`Error::TooMany`], [`Error::Memory`], [`Error::Database`].
    pub async fn statistics(
        &self,
        query: &StatisticsQuery,
        memory: &Reservation,
    ) -> Result<Vec<SensorStatistics>, Error> {
        let limits = &self.settings.query;
        query.check(limits)?;
        let values_max = limits.values_max / TALLIES_MAX.min(query.sensors.len());
        let allowance = Allowance::new(values_max, limits.summaries_max, memory.clone());
        let answers: Vec<_> =
            query.sensors.iter().map(|one| self.tally(one, query, allowance.clone()).boxed()).collect();
        stream::iter(answers).buffered(TALLIES_MAX).try_collect().await
    }

    async fn tally(
        &self,
        sensor: &str,
        query: &StatisticsQuery,
        allowance: Allowance,
    ) -> Result<SensorStatistics, Error> {
        let mut tally = Tally::new(query, allowance);
        self.reads.tally(sensor, &mut tally).await?;
        if !tally.is_long() {
            return Ok(tally.finish(sensor));
        }
        let sensor = sensor.to_owned();
        blocking::run(move || tally.finish(&sensor)).await.ok_or(Error::Aborted)
    }

    /// A sensor's last reading, by time and then event.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Foreign`].
    pub async fn latest(&self, sensor: &str) -> Result<Option<Reading>, Error> {
        let newest = &self.shared.newest;
        let hint = newest.of(sensor);
        let mut found = self.reads.latest(sensor, hint).await?;
        if let Some(at_ms) = hint.filter(|_| found.is_none()) {
            // The last known reading is missing, as after a rollback. An older one may exist.
            newest.forget(sensor, at_ms);
            found = self.reads.latest(sensor, None).await?;
        }
        newest.note(found.iter().map(|reading| (sensor, reading.at_ms)));
        Ok(found)
    }

    /// Whether a sensor has ever sent a reading.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Foreign`].
    pub async fn knows(&self, sensor: &str) -> Result<bool, Error> {
        // A cached sensor has sent an acknowledged reading. If the database has lost the reading, the answer
        // is empty instead of a 404.
        Ok(self.shared.newest.of(sensor).is_some() || self.latest(sensor).await?.is_some())
    }

    /// One page of a sensor's readings.
    ///
    /// # Errors
    /// [`Error::Query`], [`Error::Database`], [`Error::Foreign`].
    pub async fn range(&self, query: &RangeQuery) -> Result<Page, Error> {
        query.check(&self.settings.query)?;
        self.reads.range(query).await
    }

    /// Accepts no more readings and returns when all accepted ones are answered. May be called again.
    pub async fn close(&self) {
        self.shared.queue.close().await;
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.shared.counting.snapshot(self.shared.queue.len())
    }

    /// The server's query plan for each kind of command of the design.
    ///
    /// # Errors
    /// [`Error::Database`] when the server cannot explain one of them.
    pub async fn explain(&self, sensor: &str, from_ms: i64, to_ms: i64) -> Result<Vec<Plan>, Error> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        let mut commands = self.reads.commands(sensor, from_ms, to_ms);
        let update = record(self.settings.design);
        let agree = doc! {"findAndModify": DESIGNS, "query": recorded(), "update": update, "upsert": true};
        commands.push(("the recorded design, at the start", agree));
        Ok(plan::explain(database, commands).await?)
    }
}
