//! Identifies events by their content, for destinations that do not store an event's source.
//!
//! A found record matches the first event with the same content that has no match yet. If all such events
//! have a match, the record is a duplicate of the first event. So counts of events with equal content are
//! exact, while the choice of the missing event is arbitrary.

use plimsoll_measure::random::{FNV_BASIS, fnv1a};

/// Maximum events of one source; they take 1.5 GiB of memory.
const EVENTS_MAX: usize = 1 << 26;

/// The source has too many events to match by content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the source has more than {EVENTS_MAX} events, and more cannot be matched by their content: audit a destination that stores \
     the source of its events, or a smaller topic"
)]
pub struct TooManyEvents;

/// A hash of an event's content: FNV-1a (64 bits) over its key and its payload, each preceded by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentHash(u64);

impl ContentHash {
    /// The hash of a key and a payload. A missing part differs from an empty one.
    pub fn of(key: Option<&[u8]>, payload: Option<&[u8]>) -> Self {
        let add = |hash: u64, part: Option<&[u8]>| {
            let length = part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes();
            fnv1a(fnv1a(hash, &length), part.unwrap_or_default())
        };
        Self(add(add(FNV_BASIS, key), payload))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    hash: ContentHash,
    partition: u32,
    offset: u64,
    /// Records found with this content, counted in the partition's first entry.
    found: u32,
}

/// Collects the content of a source's events.
#[derive(Debug, Default)]
pub struct ContentIndexBuilder(Vec<Entry>);

impl ContentIndexBuilder {
    /// Adds an event.
    ///
    /// # Errors
    /// [`TooManyEvents`].
    pub fn add(&mut self, hash: ContentHash, partition: u32, offset: u64) -> Result<(), TooManyEvents> {
        if self.0.len() == EVENTS_MAX {
            return Err(TooManyEvents);
        }
        self.0.push(Entry { hash, partition, offset, found: 0 });
        Ok(())
    }

    /// Builds the index.
    pub fn build(mut self) -> ContentIndex {
        self.0.sort_unstable();
        ContentIndex(self.0)
    }
}

/// The events of a source, by content.
#[derive(Debug)]
pub struct ContentIndex(Vec<Entry>);

impl ContentIndex {
    /// Matches a found record: returns the partition and offset of an event with this content. `within` restricts the match to
    /// one partition. `None` if no event has this content.
    pub fn find(&mut self, hash: ContentHash, within: Option<u32>) -> Option<(u32, u64)> {
        let mut duplicate = None;
        let mut at = self.place(hash, within.unwrap_or(0));
        while let Some(entry) = self.0.get(at).filter(|entry| entry.hash == hash).copied() {
            if within.is_some_and(|partition| entry.partition != partition) {
                break;
            }
            let behind = at + self.0[at..].partition_point(|one| one.has_content_of(&entry));
            if let Some(next) = self.0[at..behind].get(entry.found as usize).copied() {
                self.0[at].found += 1;
                return Some((next.partition, next.offset));
            }
            duplicate.get_or_insert((entry.partition, entry.offset));
            at = behind;
        }
        duplicate
    }

    fn place(&self, hash: ContentHash, partition: u32) -> usize {
        self.0.partition_point(|entry| (entry.hash, entry.partition) < (hash, partition))
    }
}

impl Entry {
    fn has_content_of(&self, other: &Self) -> bool {
        (self.hash, self.partition) == (other.hash, other.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> ContentHash {
        ContentHash::of(None, Some(text.as_bytes()))
    }

    fn build(events: &[(&str, u32, u64)]) -> ContentIndex {
        let mut builder = ContentIndexBuilder::default();
        for (text, partition, offset) in events {
            builder.add(hash(text), *partition, *offset).unwrap();
        }
        builder.build()
    }

    #[test]
    fn each_event_is_found_once_and_a_repetition_is_a_duplicate() {
        let mut index = build(&[("b", 0, 1), ("a", 0, 0), ("a", 0, 2)]);
        let found = ["a", "a", "a", "b"].map(|text| index.find(hash(text), None));
        assert_eq!(found, [Some((0, 0)), Some((0, 2)), Some((0, 0)), Some((0, 1))]);
        assert_eq!(index.find(hash("c"), None), None);
    }

    #[test]
    fn equal_content_in_another_partition_is_another_event() {
        let mut index = build(&[("a", 0, 5), ("a", 1, 7)]);
        let found = [1, 1, 2, 0].map(|partition| index.find(hash("a"), Some(partition)));
        assert_eq!(found, [Some((1, 7)), Some((1, 7)), None, Some((0, 5))]);
    }

    #[test]
    fn keys_and_payloads_are_hashed_separately() {
        let all = [
            ContentHash::of(Some(b"ab"), Some(b"c")),
            ContentHash::of(Some(b"a"), Some(b"bc")),
            ContentHash::of(None, Some(b"abc")),
            ContentHash::of(Some(b""), Some(b"abc")),
            ContentHash::of(Some(b"abc"), None),
            ContentHash::of(Some(b"abc"), Some(b"")),
        ];
        let mut distinct = all.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
    }
}
