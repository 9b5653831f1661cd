//! Merges partial readings: readings with the same sensor, time and event add up their metrics. If a metric has several values, the
//! first value is kept.
//!
//! A store writes one [`Entry`] for each identity of a commit, and returns the metrics that it held before. [`outcomes`] then answers
//! every reading as if the readings had been written one after the other.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Fault;
use super::key;
use super::stored::{Stored, Written};
use crate::reading::Reading;

/// Metrics by name, sorted.
pub(crate) type Metrics = Vec<(String, f64)>;

/// The readings of a commit with one identity.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'r> {
    pub(crate) key: String,
    /// The metrics of all these readings.
    pub(crate) reading: Cow<'r, Reading>,
    /// Their indexes in the commit.
    places: Vec<usize>,
}

/// The metrics that a store held before it wrote an entry; `None` if it held no such reading.
pub(crate) type Before = Result<Option<Metrics>, Fault>;

/// The entries of a commit, in the order of their first readings.
pub(crate) fn entries(readings: &[Reading]) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(readings.len());
    let mut known = HashMap::with_capacity(readings.len());
    for (place, reading) in readings.iter().enumerate() {
        let key = key::of(reading);
        match known.get(&key) {
            Some(index) => {
                let entry: &mut Entry<'_> = &mut entries[*index];
                entry.places.push(place);
                let more = missing(&reading.metrics, &entry.reading.metrics);
                if !more.is_empty() {
                    add(&mut entry.reading.to_mut().metrics, more);
                }
            }
            None => {
                known.insert(key.clone(), entries.len());
                entries.push(Entry { key, reading: Cow::Borrowed(reading), places: vec![place] });
            }
        }
    }
    entries
}

/// The outcome of each reading of a commit; `before` has an item for each entry.
pub(crate) fn outcomes(readings: &[Reading], entries: &[Entry<'_>], before: Vec<Before>) -> Vec<Written> {
    let mut written = vec![Ok(Stored::New); readings.len()];
    for (entry, before) in entries.iter().zip(before) {
        let mut stored = match before {
            Ok(stored) => stored,
            Err(fault) => {
                entry.places.iter().for_each(|place| written[*place] = Err(fault.clone()));
                continue;
            }
        };
        for place in &entry.places {
            let sent = &readings[*place].metrics;
            written[*place] = Ok(stored.as_ref().map_or(Stored::New, |stored| outcome(sent, stored)));
            let stored = stored.get_or_insert_default();
            let more = missing(sent, stored);
            add(stored, more);
        }
    }
    written
}

fn outcome(sent: &Metrics, stored: &Metrics) -> Stored {
    let held = |name: &String| stored.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    if sent.iter().any(|(name, value)| held(name).is_some_and(|held| held != *value)) {
        return Stored::Differs;
    }
    if sent.iter().all(|(name, _)| held(name).is_some()) { Stored::Known } else { Stored::Merged }
}

/// The sent metrics whose names are not stored.
pub(crate) fn missing(sent: &Metrics, stored: &Metrics) -> Metrics {
    let is_missing = |(name, _): &&(String, f64)| !stored.iter().any(|(known, _)| known == name);
    sent.iter().filter(is_missing).cloned().collect()
}

/// Adds metrics whose names are not stored.
pub(crate) fn add(stored: &mut Metrics, more: Metrics) {
    stored.extend(more);
    stored.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(pairs: &[(&str, f64)]) -> Metrics {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn reading(at_ms: i64, pairs: &[(&str, f64)]) -> Reading {
        Reading { sensor: "s".into(), at_ms, event: None, metrics: metrics(pairs) }
    }

    #[test]
    fn an_entry_has_the_metrics_of_all_its_readings_and_the_first_value_of_each() {
        let commit = [
            reading(1, &[("b", 1.0)]),
            reading(2, &[("b", 2.0)]),
            reading(1, &[("a", 3.0), ("b", 9.0), ("c", 4.0)]),
        ];
        let entries = entries(&commit);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].reading.metrics, metrics(&[("a", 3.0), ("b", 1.0), ("c", 4.0)]));
        assert!(matches!(entries[1].reading, Cow::Borrowed(_)), "a single reading is not copied");
    }

    #[test]
    fn every_reading_is_answered_as_if_it_were_written_alone() {
        let check = |before: Option<&[(&str, f64)]>, sent: &[&[(&str, f64)]], expected: &[Stored]| {
            let commit: Vec<_> = sent.iter().map(|pairs| reading(1, pairs)).collect();
            let found = outcomes(&commit, &entries(&commit), vec![Ok(before.map(metrics))]);
            assert_eq!(found, expected.iter().map(|it| Ok(*it)).collect::<Vec<_>>(), "{before:?} {sent:?}");
        };
        let (a1, a2, b1) = (&[("a", 1.0)][..], &[("a", 2.0)][..], &[("b", 1.0)][..]);
        let both = &[("a", 1.0), ("b", 1.0)][..];
        check(
            None,
            &[a1, a1, a2, b1, both],
            &[Stored::New, Stored::Known, Stored::Differs, Stored::Merged, Stored::Known],
        );
        check(
            Some(a2),
            &[a1, a2, both, b1],
            &[Stored::Differs, Stored::Known, Stored::Differs, Stored::Known],
        );
        check(Some(both), &[a1, b1], &[Stored::Known, Stored::Known]);
    }

    #[test]
    fn a_fault_answers_every_reading_of_its_entry_and_no_other() {
        let commit = [reading(1, &[("a", 1.0)]), reading(2, &[("a", 1.0)]), reading(1, &[("b", 1.0)])];
        let found = outcomes(&commit, &entries(&commit), vec![Err(Fault::new("no")), Ok(None)]);
        assert_eq!(found.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
    }
}
