//! Assigns readings to buckets, as a pure computation.

use bson::raw::RawBsonRef;
use bson::{Bson, RawDocument};

use super::super::settings::BucketSettings;
use super::super::{Error, key};
use crate::reading::Reading;

/// The levels of buckets: hour (or part of it), minute, second, millisecond.
pub(super) const LEVELS: u8 = 4;

/// The division of time into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The span of a bucket of each level in milliseconds, each a multiple of the next.
    spans_ms: [i64; LEVELS as usize],
    /// The number of readings in a full bucket.
    pub(super) readings_max: usize,
}

impl Layout {
    pub(super) fn new(settings: &BucketSettings) -> Self {
        let top_ms = i64::from(settings.minutes) * 60_000;
        Layout { spans_ms: [top_ms, 60_000, 1_000, 1], readings_max: settings.readings_max }
    }

    /// The span of a level's buckets in milliseconds.
    pub(super) fn span_ms(&self, level: u8) -> i64 {
        self.spans_ms[usize::from(level)]
    }

    /// The start of the bucket of a time.
    pub(super) fn start_ms(&self, level: u8, at_ms: i64) -> i64 {
        let span_ms = self.span_ms(level);
        at_ms.div_euclid(span_ms).saturating_mul(span_ms)
    }

    /// The `_id` of the bucket of a time.
    pub(super) fn id(&self, sensor: &str, level: u8, at_ms: i64) -> String {
        format!("{}\t{level}", key::from(sensor, self.start_ms(level, at_ms)))
    }

    /// The buckets that contain a time and start before it: they may hold later readings.
    pub(super) fn ids_around(&self, sensor: &str, at_ms: i64) -> Vec<String> {
        let before = |level: &u8| self.start_ms(*level, at_ms) < at_ms;
        (0..LEVELS).filter(before).map(|level| self.id(sensor, level, at_ms)).collect()
    }
}

/// The identity of a reading within its bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Slot {
    /// Milliseconds after the bucket's start.
    pub(super) offset_ms: i64,
    pub(super) event: Option<String>,
}

impl Slot {
    pub(super) fn of(reading: &Reading, start_ms: i64) -> Self {
        Slot { offset_ms: reading.at_ms - start_ms, event: reading.event.clone() }
    }

    pub(super) fn to_bson(&self) -> Bson {
        match &self.event {
            // The 3.6 million milliseconds of an hour fit into 32 bits.
            None => i32::try_from(self.offset_ms).map_or(Bson::Int64(self.offset_ms), Bson::Int32),
            Some(event) => format!("{}:{event}", self.offset_ms).into(),
        }
    }

    pub(super) fn parse(found: RawBsonRef<'_>) -> Result<Self, Error> {
        let foreign = || Error::Foreign(format!("invalid bucket slot {found:?}"));
        match found {
            RawBsonRef::Int32(offset) => Ok(Slot { offset_ms: offset.into(), event: None }),
            RawBsonRef::Int64(offset_ms) => Ok(Slot { offset_ms, event: None }),
            RawBsonRef::String(text) => {
                let (offset, event) = text.split_once(':').ok_or_else(foreign)?;
                let offset_ms = offset.parse().map_err(|_| foreign())?;
                Ok(Slot { offset_ms, event: Some(event.to_owned()) })
            }
            _ => Err(foreign()),
        }
    }
}

/// The parts of a bucket's `_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) start_ms: i64,
    pub(super) level: u8,
}

impl Head {
    pub(super) fn of(bucket: &RawDocument) -> Result<Self, Error> {
        let id = bucket.get_str("_id")?;
        let level =
            id.rsplit('\t').next().and_then(|level| level.parse().ok()).filter(|level| *level < LEVELS);
        let level = level.ok_or_else(|| Error::Foreign(format!("{id:?} is not a bucket")))?;
        Ok(Head { start_ms: bucket.get_datetime("t")?.timestamp_millis(), level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn layout() -> Layout {
        Layout::new(&BucketSettings::default())
    }

    #[test]
    fn buckets_nest_and_sort_by_start_then_level() {
        let at_ms = 7 * HOUR_MS + 61_001;
        let starts: Vec<_> = (0..LEVELS).map(|level| layout().start_ms(level, at_ms)).collect();
        assert_eq!(starts, [7 * HOUR_MS, 7 * HOUR_MS + 60_000, 7 * HOUR_MS + 61_000, at_ms]);
        let ids: Vec<_> = (0..LEVELS).map(|level| layout().id("s", level, at_ms)).collect();
        assert!(ids.is_sorted());
        assert_eq!(layout().ids_around("s", at_ms), ids[..3]);
        assert_eq!(layout().ids_around("s", 7 * HOUR_MS), [""; 0]);
        assert_eq!(layout().start_ms(0, -1), -HOUR_MS);
    }

    #[test]
    fn a_slot_equals_its_stored_form() {
        for (offset_ms, event) in [(0, None), (3_599_999, None), (5, Some("e")), (5, Some("a:b"))] {
            let slot = Slot { offset_ms, event: event.map(str::to_owned) };
            let stored =
                RawDocument::from_bytes(&bson::serialize_to_vec(&bson::doc! {"k": slot.to_bson()}).unwrap())
                    .unwrap()
                    .to_owned();
            assert_eq!(Slot::parse(stored.get("k").unwrap().unwrap()).unwrap(), slot);
        }
        assert!(Slot::parse(RawBsonRef::Boolean(true)).is_err());
        assert!(Slot::parse(RawBsonRef::String("5")).is_err());
    }
}
