//! Events known by what they say, for destinations that do not keep where an event came from.
//!
//! What is found is matched with the first event that says the same and was not found yet; if all were, it is a copy of one. So
//! events that say the same are counted right, and which of them is missing does not matter.

/// Events of one source at most: 1.5 GiB of memory.
const EVENTS_MAX: usize = 1 << 26;

/// A source of more events than can be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the source has more than {EVENTS_MAX} events, and more cannot be known by what they say: audit a destination that keeps where \
     its events come from, or a topic of less"
)]
pub struct TooMany;

/// What an event says, in eight bytes: FNV-1a (64 bits) over its key and its payload, each behind its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Likeness(u64);

impl Likeness {
    /// That of a key and a payload; none differs from no bytes.
    pub fn of(key: Option<&[u8]>, payload: Option<&[u8]>) -> Self {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        let add = |hash: u64, part: Option<&[u8]>| {
            let length = part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes();
            length.iter().chain(part.unwrap_or_default()).fold(hash, mix)
        };
        Self(add(add(BASIS, key), payload))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    likeness: Likeness,
    partition: u32,
    offset: u64,
    /// Of the first of a partition's events that say the same: how many of them were found.
    found: u32,
}

/// Learns what the events of a source say.
#[derive(Debug, Default)]
pub struct Learner(Vec<Entry>);

impl Learner {
    /// Learns an event.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn learn(&mut self, likeness: Likeness, partition: u32, offset: u64) -> Result<(), TooMany> {
        if self.0.len() == EVENTS_MAX {
            return Err(TooMany);
        }
        self.0.push(Entry { likeness, partition, offset, found: 0 });
        Ok(())
    }

    /// All that was learned.
    pub fn known(mut self) -> Known {
        self.0.sort_unstable();
        Known(self.0)
    }
}

/// The events of a source, by what they say.
#[derive(Debug)]
pub struct Known(Vec<Entry>);

impl Known {
    /// The partition and the offset of the event that something found is; with `within` only an event of that partition can be
    /// meant. `None` if no event says this.
    pub fn find(&mut self, likeness: Likeness, within: Option<u32>) -> Option<(u32, u64)> {
        let mut copied = None;
        let mut at = self.place(likeness, within.unwrap_or(0));
        while let Some(entry) = self.0.get(at).filter(|entry| entry.likeness == likeness).copied() {
            if within.is_some_and(|partition| entry.partition != partition) {
                break;
            }
            let behind = at + self.0[at..].partition_point(|one| one.is_like(&entry));
            if let Some(next) = self.0[at..behind].get(entry.found as usize).copied() {
                self.0[at].found += 1;
                return Some((next.partition, next.offset));
            }
            copied.get_or_insert((entry.partition, entry.offset));
            at = behind;
        }
        copied
    }

    fn place(&self, likeness: Likeness, partition: u32) -> usize {
        self.0.partition_point(|entry| (entry.likeness, entry.partition) < (likeness, partition))
    }
}

impl Entry {
    fn is_like(&self, other: &Self) -> bool {
        (self.likeness, self.partition) == (other.likeness, other.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(text: &str) -> Likeness {
        Likeness::of(None, Some(text.as_bytes()))
    }

    fn known(events: &[(&str, u32, u64)]) -> Known {
        let mut learner = Learner::default();
        for (text, partition, offset) in events {
            learner.learn(likeness(text), *partition, *offset).unwrap();
        }
        learner.known()
    }

    #[test]
    fn each_event_is_found_once_and_what_comes_again_is_a_copy() {
        let mut known = known(&[("b", 0, 1), ("a", 0, 0), ("a", 0, 2)]);
        let found = ["a", "a", "a", "b"].map(|text| known.find(likeness(text), None));
        assert_eq!(found, [Some((0, 0)), Some((0, 2)), Some((0, 0)), Some((0, 1))]);
        assert_eq!(known.find(likeness("c"), None), None);
    }

    #[test]
    fn the_same_words_in_another_partition_are_another_event() {
        let mut known = known(&[("a", 0, 5), ("a", 1, 7)]);
        let found = [1, 1, 2, 0].map(|partition| known.find(likeness("a"), Some(partition)));
        assert_eq!(found, [Some((1, 7)), Some((1, 7)), None, Some((0, 5))]);
    }

    #[test]
    fn keys_and_payloads_do_not_run_into_each_other() {
        let all = [
            Likeness::of(Some(b"ab"), Some(b"c")),
            Likeness::of(Some(b"a"), Some(b"bc")),
            Likeness::of(None, Some(b"abc")),
            Likeness::of(Some(b""), Some(b"abc")),
            Likeness::of(Some(b"abc"), None),
            Likeness::of(Some(b"abc"), Some(b"")),
        ];
        let mut distinct = all.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
    }
}
