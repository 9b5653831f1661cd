//! Opens envelopes before comparing the records of two topics.

use anyhow::bail;
use plimsoll_pipeline::transform::Decode;
use plimsoll_pipeline::{Batch, Partition, Record as Pushed, Transform};

use super::Record;
use crate::typed::TransformSection;

/// The number of envelopes around the records of each topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelopes {
    /// The number of envelopes around each source record, which the pipeline removes.
    pub(super) source: usize,
    /// The number of envelopes around each found record, which the pipeline added.
    pub(super) found: usize,
}

impl Envelopes {
    /// Counts the envelopes of a pipeline's transforms.
    ///
    /// # Errors
    /// A transform does anything else: its results cannot be identified.
    pub(super) fn of(transforms: &[TransformSection]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for transform in transforms {
            match transform {
                TransformSection::Encode(_) => all.found += 1,
                TransformSection::Decode(_) if all.found > 0 => all.found -= 1,
                TransformSection::Decode(_) => all.source += 1,
                _ => bail!(
                    "records in a topic are identified by their content, which a transform changes: audit a pipeline whose \
                     transforms are `encode` and `decode` at most"
                ),
            }
        }
        Ok(all)
    }
}

/// Passes on the key and the payload inside a record's envelopes. `None` without the envelopes, or if one was
/// altered.
pub(super) fn open<T>(
    record: &Record<'_>,
    envelopes: usize,
    tell: impl FnOnce(Option<&[u8]>, Option<&[u8]>) -> T,
) -> Option<T> {
    if envelopes == 0 {
        return Some(tell(record.key, record.payload));
    }
    let mut batch = Batch::new(Partition::new("", record.partition));
    batch.push(Pushed { offset: record.offset, appended_ms: 0, key: record.key, payload: record.payload });
    for _ in 0..envelopes {
        Decode.apply(&mut batch).ok()?;
    }
    let event = batch.events().first().copied()?;
    Some(tell(batch.key(&event), batch.payload(&event)))
}

#[cfg(test)]
mod tests {
    use plimsoll_pipeline::transform::Encode;

    use super::*;
    use crate::PipelineFile;

    fn of(transforms: &str) -> anyhow::Result<Envelopes> {
        let text = format!("source: {{generator: {{}}}}\ntransforms: {transforms}\nsink: {{noop: {{}}}}\n");
        Envelopes::of(&serde_saphyr::from_str::<PipelineFile>(&text).unwrap().transforms)
    }

    #[test]
    fn only_envelopes_can_be_identified() {
        let count = |source, found| Envelopes { source, found };
        assert_eq!(of("[encode: {}]").unwrap(), count(0, 1));
        assert_eq!(of("[decode: {}, encode: {}, encode: {}]").unwrap(), count(1, 2));
        assert_eq!(of("[encode: {}, decode: {}]").unwrap(), count(0, 0));
        assert!(
            of("[sample: {share: 0.5}]").unwrap_err().to_string().contains("`encode` and `decode` at most")
        );
    }

    #[test]
    fn a_record_is_read_inside_its_envelopes_and_a_broken_one_is_none() {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Pushed { offset: 3, appended_ms: 1, key: Some(b"k"), payload: Some(b"said") });
        Encode.apply(&mut batch).unwrap();
        let mut envelope = batch.payload(&batch.events()[0]).unwrap().to_vec();
        let read = |envelope: &[u8]| {
            let record = Record { partition: 0, offset: 9, key: None, payload: Some(envelope) };
            open(&record, 1, |key, payload| (key.map(<[u8]>::to_vec), payload.map(<[u8]>::to_vec)))
        };
        assert_eq!(read(&envelope), Some((Some(b"k".to_vec()), Some(b"said".to_vec()))));
        *envelope.last_mut().unwrap() ^= 1;
        assert_eq!(read(&envelope), None);
    }
}
