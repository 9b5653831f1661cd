//! Chooses one of several constants.

use crate::distribution::Whole;
use crate::random::Draw;

/// The choice of an index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chooser {
    /// A distribution over the indexes.
    Spread(Whole),
    /// Weights: the first index whose bound lies above a random word.
    Weighted(Box<[u64]>),
}

/// Constants of one type and one width, one after another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) chooser: Chooser,
    pub(crate) table: Box<[u8]>,
}

impl Chooser {
    /// The index for a draw.
    #[inline]
    pub(crate) fn index(&self, draw: &Draw<'_>) -> usize {
        match self {
            Self::Spread(whole) => whole.value(draw) as usize,
            Self::Weighted(bounds) => {
                let word = draw.first();
                bounds.partition_point(|bound| *bound <= word).min(bounds.len() - 1)
            }
        }
    }
}

impl Choice {
    /// Copies the chosen constant.
    #[inline]
    pub(crate) fn write(&self, draw: &Draw<'_>, hole: &mut [u8]) {
        let start = self.chooser.index(draw) * hole.len();
        hole.copy_from_slice(&self.table[start..start + hole.len()]);
    }
}
