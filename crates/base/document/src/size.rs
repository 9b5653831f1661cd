//! Holds the sizes of values, and the lengths of texts, binary data and arrays.

use crate::arguments::{Args, Fields};
use crate::error::Error;
use crate::random::below;

/// The minimum and the maximum size in bytes. Additions saturate, so that an absurd template gives an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Size {
    /// A size that never changes.
    pub(crate) fn exact(bytes: usize) -> Self {
        Self { min: bytes, max: bytes }
    }

    /// The size of both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The size of `times` values of this size.
    pub(crate) fn times(self, times: Lengths) -> Self {
        Self { min: self.min.saturating_mul(times.min), max: self.max.saturating_mul(times.max) }
    }
}

/// A length from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Lengths {
    /// Reads `{<exact>: n}` or `{min, max}`.
    pub(crate) fn parse(args: &Args<'_>, exact: &str) -> Result<Self, Error> {
        let fields = args.fields(&[exact, "min", "max"])?;
        if fields.get("min").is_some() || fields.get("max").is_some() {
            if fields.get(exact).is_some() {
                return Err(args.expected(&format!("either \"{exact}\" or \"min\" and \"max\"")));
            }
            return Self::parse_range(&fields, usize::MAX);
        }
        let remedy = format!("write {{{exact}: 64}} or {{min: 16, max: 64}}");
        let bytes = fields.need(exact, &remedy)?.whole_within(1, i64::MAX, "a positive whole number")?;
        Ok(Self { min: bytes as usize, max: bytes as usize })
    }

    /// Reads `min` (0 when not given) and `max`, up to a limit.
    pub(crate) fn parse_range(fields: &Fields<'_>, limit: usize) -> Result<Self, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let max = fields.need("max", "write {min: 16, max: 64}")?;
        let expected = if limit == i64::MAX {
            "a whole number of 0 or more".to_owned()
        } else {
            format!("a whole number from 0 to {limit}")
        };
        let max = max.whole_within(0, limit, &expected)?;
        let min = fields.get("min").map_or(Ok(0), |min| {
            min.whole_within(0, max, &format!("a whole number from 0 to max, which is {max}"))
        })?;
        Ok(Self { min: min as usize, max: max as usize })
    }

    /// The length for a random word.
    #[inline]
    pub(crate) fn value(self, word: u64) -> usize {
        self.min + below(word, (self.max - self.min) as u64 + 1) as usize
    }

    /// The length, if it is fixed.
    pub(crate) fn exact(self) -> Option<usize> {
        (self.min == self.max).then_some(self.min)
    }

    /// The bounds as a size.
    pub(crate) fn size(self) -> Size {
        Size { min: self.min, max: self.max }
    }
}
