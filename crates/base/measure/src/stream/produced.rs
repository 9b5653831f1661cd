//! Represents records that a broker acknowledged to this program: the ledger of a producer.

use serde::{Deserialize, Serialize};

use crate::random::{FNV_BASIS, fnv1a};

/// Consecutive records of a partition that a broker acknowledged. A ledger has one line for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Produced {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The offset of the first record.
    pub first: u64,
    /// The offset of the last record.
    pub last: u64,
    /// The wrapping sum of [`checksum`] over the records.
    pub checksum: u64,
}

impl Produced {
    /// The number of records.
    pub const fn records(&self) -> u64 {
        self.last.saturating_sub(self.first) + 1
    }

    /// Adds records if they directly follow these; returns whether they do.
    pub fn append(&mut self, next: &Self) -> bool {
        let follows =
            (&*self.topic, self.partition, self.last + 1) == (&*next.topic, next.partition, next.first);
        if follows {
            self.last = next.last;
            self.checksum = self.checksum.wrapping_add(next.checksum);
        }
        follows
    }
}

/// The share of one record in a checksum: FNV-1a (64 bits) over its offset, little-endian, and its payload. Shares are added,
/// wrapping, so their order does not matter. A missing payload (`None`) differs from an empty one.
pub fn checksum<'a>(offset: u64, payload: Option<impl IntoIterator<Item = &'a [u8]>>) -> u64 {
    let head = fnv1a(FNV_BASIS, &offset.to_le_bytes());
    match payload {
        None => fnv1a(head, &[1]),
        Some(pieces) => pieces.into_iter().fold(fnv1a(head, &[0]), fnv1a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn produced(first: u64, last: u64) -> Produced {
        Produced { topic: "t".into(), partition: 1, first, last, checksum: first }
    }

    #[test]
    fn only_records_right_after_others_join_them() {
        let mut all = produced(5, 7);
        assert!(!all.append(&produced(9, 9)) && !all.append(&Produced { partition: 2, ..produced(8, 9) }));
        assert!(all.append(&produced(8, 9)));
        assert_eq!(all, Produced { checksum: 13, ..produced(5, 9) });
        assert_eq!(all.records(), 5);
    }

    #[test]
    fn a_missing_payload_differs_from_an_empty_one_and_offsets_count() {
        let none = None::<[&[u8]; 1]>;
        let all = [checksum(1, none), checksum(1, Some([&b""[..]])), checksum(2, Some([&b""[..]]))];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
