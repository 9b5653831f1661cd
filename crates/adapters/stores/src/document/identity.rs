//! Derives the `_id` of an event from its source: 16 bytes of topic, partition and offset. Also makes ObjectIds.
//!
//! Four bytes are the topic's number, four the partition, eight the offset, all big-endian. BSON compares binary values of
//! one length bytewise, so the `_id`s of a partition ascend with its offsets: every insert is at the right edge of its
//! partition's range of the index.

use plimsoll_element::append;
use plimsoll_measure::clock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The length of an identity.
pub const BYTES: usize = 16;

/// The source of an event, which identifies it in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The topic's number ([`crate::topics`]).
    pub topic: u32,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
}

impl Identity {
    /// The stored bytes.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&self.topic.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.partition.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Parses the bytes of [`Identity::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (topic, rest) = bytes.split_first_chunk::<4>()?;
        let (partition, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            topic: u32::from_be_bytes(*topic),
            partition: u32::from_be_bytes(*partition),
            offset: u64::from_be_bytes(rest.try_into().ok()?),
        })
    }

    /// Appends the identity as an element.
    pub fn append(self, out: &mut Vec<u8>, key: &str) {
        append::binary(out, key, Some(&self.to_bytes()));
    }
}

/// The choice of documents' `_id`s, which decides the effect of writing an event twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdKind {
    /// Topic, partition and offset, in 16 bytes: a repeated event is recognised.
    #[default]
    Source,
    /// A random ObjectId: a repeated event is stored twice.
    ObjectId,
    /// The payload's own `_id`: an existing document with it counts as the same event.
    Payload,
}

/// Generates ObjectIds: the second, five random bytes, and a counter.
#[derive(Debug)]
pub struct ObjectIds {
    second: u32,
    drawn: [u8; 5],
    count: u32,
}

impl ObjectIds {
    /// Creates a generator from the random bytes `drawn`.
    pub fn new(drawn: [u8; 8]) -> Self {
        let [a, b, c, d, e, x, y, z] = drawn;
        Self { second: 0, drawn: [a, b, c, d, e], count: u32::from_be_bytes([0, x, y, z]) }
    }

    /// Creates a generator with random bytes of the system.
    pub fn random() -> Self {
        Self::new(random())
    }

    /// Sets the second (since 1970) of the next ids.
    pub fn set_second(&mut self, second: u32) {
        self.second = second;
    }

    /// Sets the current second. One call per batch is enough.
    pub fn set_now(&mut self) {
        self.set_second(u32::try_from(clock::wall_ms() / 1000).unwrap_or(u32::MAX));
    }

    /// The next id.
    pub fn make(&mut self) -> [u8; 12] {
        self.count = self.count.wrapping_add(1);
        let ([a, b, c, d], [e, f, g, h, i]) = (self.second.to_be_bytes(), self.drawn);
        let [_, x, y, z] = self.count.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, x, y, z]
    }
}

/// Random bytes of the system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if drawn != Ok(N) {
        // Early after boot the system has no random numbers: the clock and the process replace them.
        let seed =
            clock::wall_ms() ^ clock::now().as_ns().rotate_left(17) ^ u64::from(std::process::id()) << 40;
        bytes.iter_mut().zip(seed.to_le_bytes().into_iter().cycle()).for_each(|(byte, seed)| *byte = seed);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back_and_sorts_by_topic_partition_and_offset() {
        let all: Vec<_> =
            [(0, 0, 0), (0, 0, 255), (0, 0, 256), (0, 1, 0), (1, 0, 0), (u32::MAX, 7, u64::MAX)]
                .map(|(topic, partition, offset)| Identity { topic, partition, offset })
                .into();
        let bytes: Vec<_> = all.iter().map(|identity| identity.to_bytes()).collect();
        assert!(all.is_sorted() && bytes.is_sorted());
        let read: Vec<_> = bytes.iter().filter_map(|bytes| Identity::from_bytes(bytes)).collect();
        assert_eq!(read, all);
        assert_eq!(Identity::from_bytes(&[0; 15]), None);
    }

    #[test]
    fn object_ids_differ_and_carry_their_second() {
        let mut ids = ObjectIds::new([1, 2, 3, 4, 5, 0xff, 0xff, 0xfe]);
        ids.set_second(0x0102_0304);
        assert_eq!(ids.make(), [1, 2, 3, 4, 1, 2, 3, 4, 5, 0xff, 0xff, 0xff]);
        assert_eq!(ids.make(), [1, 2, 3, 4, 1, 2, 3, 4, 5, 0, 0, 0]);
        assert_ne!(random::<16>(), random::<16>());
    }
}
