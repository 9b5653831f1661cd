//! What an event is called in a collection: 16 bytes that follow from where it was read.
//!
//! Four bytes of the topic's number, four of the partition, eight of the offset, all big-endian. BSON compares binary values of
//! one length byte by byte, so the `_id`s of a partition ascend as its offsets do, and every insert is at the right edge of its
//! partition's part of the index.

use plimsoll_measure::clock;

use crate::encode;

/// The length of an identity.
pub const BYTES: usize = 16;

/// Where an event was read: with the topic's number it names the event in every run.
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
    /// The bytes that are stored.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&self.topic.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.partition.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Reads what [`Identity::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (topic, rest) = bytes.split_first_chunk::<4>()?;
        let (partition, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            topic: u32::from_be_bytes(*topic),
            partition: u32::from_be_bytes(*partition),
            offset: u64::from_be_bytes(rest.try_into().ok()?),
        })
    }

    /// Appends it as an element.
    pub fn append(self, out: &mut Vec<u8>, key: &str) {
        encode::binary(out, key, Some(&self.to_bytes()));
    }
}

/// Makes ObjectIds: the second, five bytes drawn once, and a count.
#[derive(Debug)]
pub struct ObjectIds {
    second: u32,
    drawn: [u8; 5],
    count: u32,
}

impl ObjectIds {
    /// A maker; `drawn` tells it from every other.
    pub fn new(drawn: [u8; 8]) -> Self {
        let [a, b, c, d, e, x, y, z] = drawn;
        Self { second: 0, drawn: [a, b, c, d, e], count: u32::from_be_bytes([0, x, y, z]) }
    }

    /// A maker unlike any other, by the system's random numbers.
    pub fn random() -> Self {
        Self::new(random())
    }

    /// The ids from now on say that they are of this second since 1970.
    pub fn set_second(&mut self, second: u32) {
        self.second = second;
    }

    /// The same, by the clock: once a batch is enough.
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
        // Before the system has random numbers: the clock and the process are all there is.
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
    fn an_identity_reads_back_and_sorts_as_topic_partition_and_offset_do() {
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
