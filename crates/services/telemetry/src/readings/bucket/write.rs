//! Writes the readings of a commit into their buckets. This module decides on updates; [`Io`] sends them.

use std::collections::{BTreeMap, HashMap};

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};

use super::super::Fault;
use super::super::partial::{Before, Metrics, entries, missing, outcomes};
use super::super::stored::Written;
use super::full_cache::Full;
use super::layout::{LEVELS, Layout, Slot};
use crate::reading::Reading;

/// The largest number of rounds of one commit. A further round goes one level deeper, or follows a lost race
/// against another process, which is rare.
const ROUNDS_MAX: usize = 32;

/// An update of one bucket: it adds all readings if the bucket is not full and holds none of them.
#[derive(Clone, Debug)]
pub(super) struct Update<'r> {
    pub(super) id: String,
    pub(super) level: u8,
    pub(super) start_ms: i64,
    /// One or more readings of one sensor.
    pub(super) readings: Vec<&'r Reading>,
    /// The indexes of their entries in the commit.
    places: Vec<usize>,
}

/// The largest number of rows of one merge: its command must fit the server's limit.
const ROWS_MAX: usize = 100;
/// The largest number of merges in flight.
const MERGES_MAX: usize = 8;

/// An update of one bucket: it adds metrics to rows if none of the rows has any of them.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    pub(super) id: String,
    /// One row or more.
    pub(super) rows: Vec<Row>,
    level: u8,
}

/// A row of a bucket, and the metrics that it lacks.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) slot: Slot,
    pub(super) more: Metrics,
    /// The metrics that it has.
    stored: Metrics,
    /// The index of its entry in the commit.
    place: usize,
}

impl Merge {
    /// The merge of one row.
    pub(super) fn of(id: String, slot: Slot, more: Metrics) -> Self {
        Merge { id, level: 0, rows: vec![Row { slot, more, stored: Metrics::new(), place: 0 }] }
    }
}

impl<'r> Update<'r> {
    /// The update of one reading, at the first level.
    pub(super) fn of(layout: &Layout, reading: &'r Reading) -> Self {
        let (id, start_ms) =
            (layout.id(&reading.sensor, 0, reading.at_ms), layout.start_ms(0, reading.at_ms));
        Update { id, level: 0, start_ms, readings: vec![reading], places: vec![0] }
    }
}

/// The outcome of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// All of its readings are stored.
    Done,
    /// The guard failed, or another process created the bucket.
    Conflict,
    /// The update was refused.
    Failed(Fault),
}

/// The content of a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// The metrics of each reading.
    pub(super) slots: HashMap<Slot, Metrics>,
}

/// The collection, or its simulation.
pub(super) trait Io: Sync {
    /// Sends updates in any order and answers each, at the write concern.
    fn update(&self, updates: &[Update<'_>]) -> impl Future<Output = Result<Vec<Applied>, Fault>> + Send;
    /// Reads buckets as they are now on the primary.
    fn look(&self, ids: Vec<String>) -> impl Future<Output = Result<HashMap<String, Seen>, Fault>> + Send;
    /// Merges metrics into rows, at the write concern. Returns whether the rows were changed: another process may have been faster.
    fn merge(&self, merge: &Merge) -> impl Future<Output = Result<bool, Fault>> + Send;
    /// Waits until the content of a bucket meets the write concern.
    fn confirm(&self, id: &str) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// A reading in flight.
struct Pending {
    place: usize,
    level: u8,
}

pub(super) async fn write(
    layout: &Layout,
    full: &Full,
    io: &impl Io,
    readings: &[Reading],
) -> Result<Vec<Written>, Fault> {
    let entries = entries(readings);
    let wanted: Vec<&Reading> = entries.iter().map(|entry| entry.reading.as_ref()).collect();
    let mut before: Vec<Before> = vec![Ok(None); entries.len()];
    let first =
        |(place, reading): (usize, &&Reading)| Pending { place, level: full.level_for(layout, reading) };
    let mut pending: Vec<_> = wanted.iter().enumerate().map(first).collect();
    let mut rounds = 0;
    while !pending.is_empty() {
        rounds += 1;
        if rounds > ROUNDS_MAX {
            let fault = Fault::new("too many concurrent writes to the same buckets");
            pending.iter().for_each(|left| before[left.place] = Err(fault.clone()));
            break;
        }
        pending = round(layout, full, io, &wanted, pending, &mut before).await?;
    }
    Ok(outcomes(readings, &entries, before))
}

/// Tries all readings once. Returns those to retry.
async fn round(
    layout: &Layout,
    full: &Full,
    io: &impl Io,
    readings: &[&Reading],
    pending: Vec<Pending>,
    before: &mut [Before],
) -> Result<Vec<Pending>, Fault> {
    let updates = group(layout, readings, &pending);
    let applied = io.update(&updates).await?;
    let mut contested = Vec::new();
    for (update, applied) in updates.into_iter().zip(applied) {
        match applied {
            Applied::Done => {}
            Applied::Conflict => contested.push(update),
            Applied::Failed(fault) => {
                update.places.iter().for_each(|place| before[*place] = Err(fault.clone()))
            }
        }
    }
    if contested.is_empty() {
        return Ok(Vec::new());
    }
    let seen = io.look(contested.iter().map(|update| update.id.clone()).collect()).await?;
    let Settled { mut again, merges, known } = settle(layout, full, &contested, &seen, before);
    // The first write of a known reading may lack its acknowledgement, so its bucket must meet the write concern too.
    if let Some(id) = known {
        io.confirm(&id).await?;
    }
    let merged = merges
        .into_iter()
        .map(|merge| async move { Ok::<_, Fault>((io.merge(&merge).await?, merge)) }.boxed());
    let merged: Vec<(bool, Merge)> =
        stream::iter(merged.collect::<Vec<_>>()).buffer_unordered(MERGES_MAX).try_collect().await?;
    for (is_done, merge) in merged {
        for row in merge.rows {
            match is_done {
                true => before[row.place] = Ok(Some(row.stored)),
                false => again.push(Pending { place: row.place, level: merge.level }),
            }
        }
    }
    Ok(again)
}

/// The updates of all buckets. A bucket with more readings than fill it gets several updates.
fn group<'r>(layout: &Layout, readings: &[&'r Reading], pending: &[Pending]) -> Vec<Update<'r>> {
    let mut buckets: BTreeMap<String, Vec<&Pending>> = BTreeMap::new();
    for one in pending {
        let reading = readings[one.place];
        buckets.entry(layout.id(&reading.sensor, one.level, reading.at_ms)).or_default().push(one);
    }
    let updates = buckets.iter().flat_map(|(id, all)| {
        all.chunks(layout.readings_max).map(|some| Update {
            id: id.clone(),
            level: some[0].level,
            start_ms: layout.start_ms(some[0].level, readings[some[0].place].at_ms),
            readings: some.iter().map(|one| readings[one.place]).collect(),
            places: some.iter().map(|one| one.place).collect(),
        })
    });
    updates.collect()
}

/// The decisions about contested readings.
#[derive(Default)]
struct Settled {
    /// Readings to try again, here or one level deeper.
    again: Vec<Pending>,
    /// Metrics that known readings lack.
    merges: Vec<Merge>,
    /// A bucket with a known reading.
    known: Option<String>,
}

/// Decides for each contested reading: known, merge, retry, or one level deeper.
fn settle(
    layout: &Layout,
    full: &Full,
    contested: &[Update<'_>],
    seen: &HashMap<String, Seen>,
    before: &mut [Before],
) -> Settled {
    let mut settled = Settled::default();
    let nothing = Seen::default();
    for update in contested {
        let seen = seen.get(&update.id).unwrap_or(&nothing);
        let is_full = seen.slots.len() >= layout.readings_max;
        if let Some(last) = seen.slots.keys().max().filter(|_| is_full) {
            full.remember(&update.id, update.start_ms + last.offset_ms);
        }
        let mut rows = Vec::new();
        for (reading, place) in update.readings.iter().zip(&update.places) {
            let slot = Slot::of(reading, update.start_ms);
            if let Some(stored) = seen.slots.get(&slot) {
                let (more, stored) = (missing(&reading.metrics, stored), stored.clone());
                match more.is_empty() {
                    true => before[*place] = Ok(Some(stored)),
                    false => rows.push(Row { slot, more, stored, place: *place }),
                }
            } else if !is_full {
                settled.again.push(Pending { place: *place, level: update.level });
            } else if update.level + 1 < LEVELS {
                settled.again.push(Pending { place: *place, level: update.level + 1 });
            } else {
                let fault =
                    format!("the sensor has over {} readings for one millisecond", layout.readings_max);
                before[*place] = Err(Fault::new(fault));
            }
            if matches!(before[*place], Ok(Some(_))) {
                settled.known = Some(update.id.clone());
            }
        }
        let merge = |rows: &[Row]| Merge { id: update.id.clone(), rows: rows.to_vec(), level: update.level };
        settled.merges.extend(rows.chunks(ROWS_MAX).map(merge));
    }
    settled
}
