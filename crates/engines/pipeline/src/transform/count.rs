//! Counts events in time windows.

use std::collections::BTreeMap;

use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Batch, Event, Fate, Span};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// The `count` transform of a pipeline file.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountSettings {
    /// The length of a window, at least a millisecond. Windows begin at multiples of it since 1970 UTC.
    pub window: duration::Span,
    /// Whether each key is counted separately.
    #[serde(default)]
    pub by_key: bool,
}

/// Counts events in windows of their append time.
///
/// Each batch yields one event per window (and key): `{"window":<ms>,"count":<n>}`, with the key of the counted events and
/// the offset of the last one. Consumers add up the counts of a window. No event is delayed, so a late event counts in its own
/// window. The counts depend on the division into batches, which may differ when events are read again: effectively-once
/// needs a sink whose transaction keeps the positions.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    window_ms: u64,
    by_key: bool,
}

impl Count {
    /// Builds the transform from its settings.
    ///
    /// # Errors
    ///
    /// If the window is shorter than a millisecond.
    pub fn build(settings: CountSettings) -> Result<Self, TransformError> {
        let window_ms = settings.window.as_ns() / MILLISECOND_NS;
        if window_ms == 0 {
            return Err(TransformError::Refused("count: `window` must be at least a millisecond".into()));
        }
        Ok(Self { window_ms, by_key: settings.by_key })
    }
}

/// The start of a window in milliseconds since 1970 UTC, and its key.
type Window = (u64, Option<Vec<u8>>);

impl TransformFactory for Count {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(*self))
    }

    fn name(&self) -> &str {
        "count"
    }

    fn repeatable(&self) -> bool {
        false
    }
}

impl Transform for Count {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let mut counted: BTreeMap<Window, (u64, u64)> = BTreeMap::new();
        for event in batch.events() {
            let window = event.appended_ms - event.appended_ms % self.window_ms;
            let key = batch.key(event).filter(|_| self.by_key).map(<[u8]>::to_vec);
            let (count, last) = counted.entry((window, key)).or_default();
            *count += 1;
            *last = (*last).max(event.offset);
        }
        let lasts: BTreeMap<u64, _> =
            counted.into_iter().map(|((window, key), (count, last))| (last, (window, key, count))).collect();
        batch.sift(|batch, index| {
            let event = batch.events()[index];
            let Some((window, key, count)) = lasts.get(&event.offset) else { return Fate::Drop };
            let key = key.as_ref().map_or(Span::NULL, |key| batch.keep(key));
            let payload = batch.keep(format!(r#"{{"window":{window},"count":{count}}}"#).as_bytes());
            batch.replace(index, Event { key, payload, vector: Span::NULL, ..event });
            Fate::Keep
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    #[test]
    fn each_window_and_key_of_a_batch_yields_one_count() {
        let mut batch = Batch::new(Partition::new("t", 0));
        for offset in 0..100_u64 {
            let key = if offset % 4 == 0 { &b"a"[..] } else { b"b" };
            batch.push(Record { offset, appended_ms: 1000 + offset, key: Some(key), payload: Some(b"x") });
        }
        Count::build(CountSettings { window: duration::Span::from_ns(50 * MILLISECOND_NS), by_key: true })
            .unwrap()
            .apply(&mut batch)
            .unwrap();
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        let given: Vec<_> = batch
            .events()
            .iter()
            .map(|event| (event.offset, text(batch.key(event)), text(batch.payload(event))))
            .collect();
        let expected = [
            (48, "a", r#"{"window":1000,"count":13}"#),
            (49, "b", r#"{"window":1000,"count":37}"#),
            (96, "a", r#"{"window":1050,"count":12}"#),
            (99, "b", r#"{"window":1050,"count":38}"#),
        ];
        let expected: Vec<_> =
            expected.map(|(at, key, payload)| (at, key.to_owned(), payload.to_owned())).into();
        assert_eq!(given, expected);
    }
}
