//! Writes the readings of a commit into their buckets. This module decides on updates; [`Io`] sends them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::store::Stored;
use super::super::store::{Written, repetitions};
use super::super::{Fault, key};
use super::full_cache::Full;
use super::layout::{LEVELS, Layout, Slot};
use crate::reading::Reading;

/// Rounds of one commit. A round goes one level deeper, or loses a race against another process, which is rare.
const ROUNDS_MAX: usize = 32;

/// An update of one bucket: it adds all readings if the bucket is not full and holds none of them.
#[derive(Clone, Debug)]
pub(super) struct Update<'r> {
    pub(super) id: String,
    pub(super) level: u8,
    pub(super) start_ms: i64,
    /// One or more readings of one sensor.
    pub(super) readings: Vec<&'r Reading>,
    /// Their indexes in the commit.
    places: Vec<usize>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) slots: HashSet<Slot>,
}

/// The collection, or its simulation.
pub(super) trait Io: Sync {
    /// Sends updates in any order and answers each, at the write concern.
    fn update(&self, updates: &[Update<'_>]) -> impl Future<Output = Result<Vec<Applied>, Fault>> + Send;
    /// Reads buckets as they are now on the primary.
    fn look(&self, ids: Vec<String>) -> impl Future<Output = Result<HashMap<String, Seen>, Fault>> + Send;
    /// Waits until the content of these buckets meets the write concern.
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
    let keys: Vec<_> = readings.iter().map(key::of).collect();
    let repeats = repetitions(&keys);
    let mut written: Vec<Written> = vec![Ok(Stored::New); readings.len()];
    let first = repeats.iter().enumerate().filter(|(_, repeats)| repeats.is_none());
    let mut pending: Vec<_> =
        first.map(|(place, _)| Pending { place, level: full.level_for(layout, &readings[place]) }).collect();
    let mut rounds = 0;
    while !pending.is_empty() {
        rounds += 1;
        if rounds > ROUNDS_MAX {
            let fault = Fault::new("too many concurrent writes to the same buckets");
            pending.iter().for_each(|left| written[left.place] = Err(fault.clone()));
            break;
        }
        pending = round(layout, full, io, readings, pending, &mut written).await?;
    }
    for (place, first) in repeats.iter().enumerate().filter_map(|(place, first)| Some((place, (*first)?))) {
        written[place] = written[first].clone().map(|_| Stored::Known);
    }
    Ok(written)
}

/// Tries all readings once. Returns those to retry.
async fn round(
    layout: &Layout,
    full: &Full,
    io: &impl Io,
    readings: &[Reading],
    pending: Vec<Pending>,
    written: &mut [Written],
) -> Result<Vec<Pending>, Fault> {
    let updates = group(layout, readings, &pending);
    let applied = io.update(&updates).await?;
    let mut contested = Vec::new();
    for (update, applied) in updates.into_iter().zip(applied) {
        match applied {
            Applied::Done => {}
            Applied::Conflict => contested.push(update),
            Applied::Failed(fault) => {
                update.places.iter().for_each(|place| written[*place] = Err(fault.clone()))
            }
        }
    }
    if contested.is_empty() {
        return Ok(Vec::new());
    }
    let seen = io.look(contested.iter().map(|update| update.id.clone()).collect()).await?;
    let (again, known) = settle(layout, full, &contested, &seen, written);
    // The first write of a known reading may lack its acknowledgement, so its bucket must meet the write concern too.
    if let Some(id) = known {
        io.confirm(&id).await?;
    }
    Ok(again)
}

/// One update for each bucket, with as many readings as fill it.
fn group<'r>(layout: &Layout, readings: &'r [Reading], pending: &[Pending]) -> Vec<Update<'r>> {
    let mut buckets: BTreeMap<String, Vec<&Pending>> = BTreeMap::new();
    for one in pending {
        let reading = &readings[one.place];
        buckets.entry(layout.id(&reading.sensor, one.level, reading.at_ms)).or_default().push(one);
    }
    let updates = buckets.iter().flat_map(|(id, all)| {
        all.chunks(layout.readings_max).map(|some| Update {
            id: id.clone(),
            level: some[0].level,
            start_ms: layout.start_ms(some[0].level, readings[some[0].place].at_ms),
            readings: some.iter().map(|one| &readings[one.place]).collect(),
            places: some.iter().map(|one| one.place).collect(),
        })
    });
    updates.collect()
}

/// Decides for each contested reading: known, retry, or one level deeper. Returns the bucket of a known one.
fn settle(
    layout: &Layout,
    full: &Full,
    contested: &[Update<'_>],
    seen: &HashMap<String, Seen>,
    written: &mut [Written],
) -> (Vec<Pending>, Option<String>) {
    let (mut again, mut known) = (Vec::new(), None);
    let nothing = Seen::default();
    for update in contested {
        let seen = seen.get(&update.id).unwrap_or(&nothing);
        let is_full = seen.slots.len() >= layout.readings_max;
        if let Some(last) = seen.slots.iter().max().filter(|_| is_full) {
            full.remember(&update.id, update.start_ms + last.offset_ms);
        }
        for (reading, place) in update.readings.iter().zip(&update.places) {
            if seen.slots.contains(&Slot::of(reading, update.start_ms)) {
                written[*place] = Ok(Stored::Known);
                known = Some(update.id.clone());
            } else if !is_full {
                again.push(Pending { place: *place, level: update.level });
            } else if update.level + 1 < LEVELS {
                again.push(Pending { place: *place, level: update.level + 1 });
            } else {
                let fault =
                    format!("the sensor has over {} readings for one millisecond", layout.readings_max);
                written[*place] = Err(Fault::new(fault));
            }
        }
    }
    (again, known)
}
