//! Keeps a fixed share of the events.

use plimsoll_measure::random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Batch, Fate};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// The `sample` transform of a pipeline file.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleSettings {
    /// The share to keep, from 0 to 1.
    pub share: f64,
}

/// Keeps a share of the events, chosen by partition and offset, so that a repeated read keeps the same ones.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Events whose hash, one of 2⁶⁴ numbers, is below this are kept.
    below: u128,
}

impl Sample {
    /// Builds the transform from its settings.
    ///
    /// # Errors
    ///
    /// If the share is not from 0 to 1.
    pub fn build(settings: SampleSettings) -> Result<Self, TransformError> {
        if !(0.0..=1.0).contains(&settings.share) {
            let words = format!("sample: `share` must be from 0 to 1, not {}", settings.share);
            return Err(TransformError::Refused(words));
        }
        Ok(Self { below: (settings.share * 2_f64.powi(64)) as u128 })
    }
}

/// Hashes partition and offset to 64 bits.
fn spread(partition: u32, offset: u64) -> u64 {
    random::mix(offset.wrapping_add(u64::from(partition).wrapping_mul(random::STEP)))
}

impl TransformFactory for Sample {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(*self))
    }

    fn name(&self) -> &str {
        "sample"
    }
}

impl Transform for Sample {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let partition = batch.partition().index;
        batch.sift(|batch, index| {
            let goes_on = u128::from(spread(partition, batch.events()[index].offset)) < self.below;
            if goes_on { Fate::Keep } else { Fate::Drop }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    fn kept(share: f64) -> Vec<u64> {
        // The first event of the first partition has the smallest hash, zero.
        let mut batch = Batch::new(Partition::new("t", 0));
        (0..10_000).for_each(|offset| batch.push(Record { offset, ..Record::default() }));
        let mut sample = Sample::build(SampleSettings { share }).unwrap();
        sample.apply(&mut batch).unwrap();
        batch.events().iter().map(|event| event.offset).collect()
    }

    #[test]
    fn a_share_is_kept_and_always_the_same() {
        assert_eq!((kept(0.0).len(), kept(1.0).len()), (0, 10_000));
        let tenth = kept(0.1);
        assert!((900..1100).contains(&tenth.len()), "{}", tenth.len());
        assert_eq!(tenth, kept(0.1));
        assert!(Sample::build(SampleSettings { share: 1.5 }).is_err());
    }
}
