//! Records the kinds of change that a writer intends, on disk before the first change of each kind.
//!
//! Changes reach the disk shortly after they are made, intents before. So after a crash the intents show which kinds of change
//! may be unrecorded.

/// One kind of change of existing documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Intent {
    /// Replaces a document by its next version.
    Replace = 1,
    /// Removes a document.
    Remove = 2,
    /// Changes or inserts a document in a way that cannot be tracked.
    Alter = 4,
    /// Makes any of these changes to documents chosen without their numbers.
    Any = 8,
}

/// The kinds of change that a writer intends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intents(u8);

impl Intents {
    /// No change is intended.
    pub const NONE: Self = Self(0);

    /// Whether the set contains this kind.
    #[inline]
    pub const fn contains(self, intent: Intent) -> bool {
        self.0 & intent as u8 != 0
    }

    /// The set with one more kind.
    #[must_use]
    pub const fn with(self, intent: Intent) -> Self {
        Self(self.0 | intent as u8)
    }

    /// The union of both intents.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// The kinds of these bits; unknown bits are ignored.
    pub(crate) const fn of_bits(bits: u64) -> Self {
        Self((bits & 0b1111) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_exactly_the_added_kinds() {
        let kinds = [Intent::Replace, Intent::Remove, Intent::Alter, Intent::Any];
        for (at, kind) in kinds.into_iter().enumerate() {
            let one = Intents::NONE.with(kind);
            assert_eq!(kinds.map(|other| one.contains(other)), [0, 1, 2, 3].map(|other| other == at));
            assert_eq!(Intents::of_bits(one.bits() | 0xf0), one);
        }
        let both = Intents::NONE.with(Intent::Replace).or(Intents::NONE.with(Intent::Any));
        assert!(
            both.contains(Intent::Replace) && both.contains(Intent::Any) && !both.contains(Intent::Alter)
        );
    }
}
