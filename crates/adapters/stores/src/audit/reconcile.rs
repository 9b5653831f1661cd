//! Compares found documents with the events of the source.

use std::collections::BTreeMap;

use super::partition::{Expected, Partition, Payload, TooLong};
use super::report::{FORMAT, Report};
use crate::document::identity::Identity;

/// A found document.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A document that identifies its event.
    Event {
        /// The identity of its event.
        identity: Identity,
        /// Its payload, if it is stored and a checksum is needed.
        payload: Payload<'a>,
    },
    /// A document that claims to be an event of this source, but is not.
    Unexpected,
    /// A document that does not identify its event.
    Foreign,
}

/// Compares found documents with expected events.
#[derive(Debug)]
pub struct Reconcile {
    partitions: BTreeMap<(u32, u32), Partition>,
    documents: u64,
    foreign: u64,
    unexpected: u64,
}

impl Reconcile {
    /// Creates an audit of `expected`, without findings.
    ///
    /// # Errors
    /// [`TooLong`] for a partition of more than 8 Gi offsets.
    pub fn new(expected: Vec<Expected>) -> Result<Self, TooLong> {
        let mut partitions = BTreeMap::new();
        for expected in expected {
            partitions.insert((expected.number, expected.partition), Partition::new(expected)?);
        }
        Ok(Self { partitions, documents: 0, foreign: 0, unexpected: 0 })
    }

    /// Whether the payload of a document is needed.
    pub fn wants_payload(&self, identity: Identity) -> bool {
        let partition = self.partitions.get(&(identity.topic, identity.partition));
        partition.is_some_and(|partition| partition.wants_payload())
    }

    /// Adds one document.
    pub fn see(&mut self, found: Found<'_>) {
        self.documents += 1;
        let (identity, payload) = match found {
            Found::Event { identity, payload } => (identity, payload),
            Found::Unexpected => return self.unexpected += 1,
            Found::Foreign => return self.foreign += 1,
        };
        match self.partitions.get_mut(&(identity.topic, identity.partition)) {
            Some(partition) => partition.see(identity.offset, payload),
            None => self.unexpected += 1,
        }
    }

    /// The number of documents so far.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The report, after the last document.
    pub fn finish(self) -> Report {
        Report {
            format: FORMAT,
            documents: self.documents,
            foreign: self.foreign,
            unexpected: self.unexpected,
            broker: Vec::new(),
            partitions: self.partitions.into_values().map(Partition::finish).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::audit::report::{EXAMPLES_MAX, Mismatch, Run};
    use plimsoll_measure::stream::checksum;

    fn expected(offsets: Range<u64>) -> Expected {
        Expected { topic: "t".into(), number: 7, partition: 1, offsets, holes: vec![], checksum: None }
    }

    fn fold(expected: Expected, offsets: impl IntoIterator<Item = u64>) -> Report {
        let mut fold = Reconcile::new(vec![expected]).unwrap();
        for offset in offsets {
            let identity = Identity { topic: 7, partition: 1, offset };
            let payload: &[&[u8]] = &[b"pay", b"load"];
            let payload =
                if fold.wants_payload(identity) { Payload::Pieces(payload) } else { Payload::Unread };
            fold.see(Found::Event { identity, payload });
        }
        fold.finish()
    }

    #[test]
    fn a_complete_partition_passes_in_any_order() {
        for offsets in [(100..1100).collect::<Vec<_>>(), (100..1100).rev().collect()] {
            let report = fold(expected(100..1100), offsets);
            let partition = &report.partitions[0];
            assert!(report.holds());
            assert_eq!((partition.expected, partition.found, partition.missing), (1000, 1000, 0));
            assert_eq!((partition.min, partition.max), (Some(100), Some(1099)));
        }
    }

    #[test]
    fn gaps_duplicates_and_strangers_are_counted_and_listed() {
        let offsets = (0..200).filter(|offset| !matches!(offset, 0 | 63..=65 | 199)).chain([5, 5, 300]);
        let report = fold(expected(0..200), offsets);
        let partition = &report.partitions[0];
        let runs = [(0, 0), (63, 65), (199, 199)].map(|(first, last)| Run { first, last });
        assert_eq!((partition.gaps.as_slice(), partition.missing), (runs.as_slice(), 5));
        assert_eq!((partition.duplicates, partition.duplicate_examples.as_slice()), (2, [5, 5].as_slice()));
        assert_eq!((partition.strangers, partition.stranger_examples.as_slice()), (1, [300].as_slice()));
        assert_eq!(partition.mismatches(), [Mismatch::Lost, Mismatch::Doubled, Mismatch::Strange]);
        assert!(!report.holds());
        assert_eq!((report.lost(), report.doubled()), (5, 2));
    }

    #[test]
    fn the_parts_add_up() {
        for step in 2..9 {
            let report = fold(expected(10..500), (10..500).filter(|offset| offset % step != 0));
            let partition = &report.partitions[0];
            assert_eq!(partition.found + partition.missing, partition.expected);
            let in_gaps: u64 = partition.gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
            assert_eq!(partition.gaps.len() as u64 + partition.gaps_left_out, partition.missing);
            assert_eq!(
                in_gaps + partition.gaps_left_out,
                partition.missing,
                "each of these gaps is one offset long"
            );
            assert!(partition.gaps.len() <= EXAMPLES_MAX);
        }
    }

    #[test]
    fn holes_are_not_missing_and_must_stay_empty() {
        let holes = Expected { holes: vec![3..5, 9..20], ..expected(0..10) };
        let report = fold(holes.clone(), [0, 1, 2, 5, 6, 7, 8]);
        assert!(report.holds(), "{report:?}");
        assert_eq!(report.partitions[0].expected, 7);
        assert_eq!(fold(holes, 0..10).partitions[0].strangers, 3);
    }

    #[test]
    fn a_changed_payload_is_found_by_the_checksum() {
        let sum = |offset: u64| checksum(offset, Some([&b"payload"[..]]));
        let right = (0..5).map(sum).fold(0, u64::wrapping_add);
        assert!(fold(Expected { checksum: Some(right), ..expected(0..5) }, [4, 2, 0, 1, 3]).holds());
        let wrong = fold(Expected { checksum: Some(right ^ 1), ..expected(0..5) }, 0..5);
        assert_eq!(wrong.partitions[0].mismatches(), [Mismatch::Altered]);
        assert_ne!(checksum(1, Some([&b""[..]])), checksum(1, None::<[&[u8]; 0]>));
        // The FNV-1a hash of eight zero bytes and one more, by its definition.
        let by_hand = [0_u8; 9]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, _| hash.wrapping_mul(0x0000_0100_0000_01b3));
        assert_eq!(checksum(0, Some([&b""[..]])), by_hand);
    }

    #[test]
    fn unexpected_documents_differ_from_foreign_ones() {
        let mut fold = Reconcile::new(vec![expected(0..0)]).unwrap();
        fold.see(Found::Foreign);
        let identity = Identity { topic: 8, partition: 1, offset: 0 };
        fold.see(Found::Event { identity, payload: Payload::Unread });
        fold.see(Found::Unexpected);
        let report = fold.finish();
        assert_eq!((report.documents, report.foreign, report.unexpected, report.holds()), (3, 1, 2, false));
    }

    #[test]
    fn a_report_reads_back_unchanged() {
        let report = fold(Expected { checksum: Some(3), ..expected(0..70) }, 1..40);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.starts_with(r#"{"format":1,"#), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }

    #[test]
    fn a_partition_with_too_many_offsets_is_refused() {
        assert!(Reconcile::new(vec![expected(0..u64::MAX)]).unwrap_err().to_string().contains("in ranges"));
    }
}
