//! Refers to a range of a batch's memory.

/// A range of a batch's arena, or no value.
///
/// A span is two 32-bit numbers: [`crate::Limits`] keeps an arena below 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// No value, which differs from an empty one.
    pub const NULL: Self = Self { start: u32::MAX, end: u32::MAX };

    /// The range from `start` to `end`.
    ///
    /// # Panics
    ///
    /// If the range does not lie below 4 GiB: limits keep arenas far smaller.
    pub fn new(start: usize, end: usize) -> Self {
        assert!(start <= end && end < u32::MAX as usize, "an arena holds less than 4 GiB");
        Self { start: start as u32, end: end as u32 }
    }

    /// Whether there is no value.
    pub const fn is_null(self) -> bool {
        self.start == u32::MAX
    }

    /// Length in elements, zero for no value.
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it has no elements.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The range from `start` to `end` within this one.
    ///
    /// # Panics
    ///
    /// If it does not lie within.
    pub fn within(self, start: usize, end: usize) -> Self {
        assert!(!self.is_null() && start <= end && end <= self.len(), "a part lies within the whole");
        Self::new(self.start as usize + start, self.start as usize + end)
    }

    /// Its start in `whole`, if it lies within.
    pub const fn offset_in(self, whole: Self) -> Option<usize> {
        let lies = !self.is_null() && !whole.is_null() && whole.start <= self.start && self.end <= whole.end;
        if lies { Some((self.start - whole.start) as usize) } else { None }
    }

    /// Its elements in `all`, `None` for no value.
    pub fn of<T>(self, all: &[T]) -> Option<&[T]> {
        if self.is_null() { None } else { Some(&all[self.start as usize..self.end as usize]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_differs_from_empty() {
        assert_eq!(Span::NULL.of(b"abc"), None);
        assert_eq!(Span::new(1, 1).of(b"abc"), Some(&b""[..]));
        assert_eq!(Span::new(1, 3).of(b"abc"), Some(&b"bc"[..]));
        assert_eq!((Span::NULL.len(), Span::new(1, 3).len()), (0, 2));
    }

    #[test]
    fn a_part_knows_its_offset_in_the_whole() {
        let whole = Span::new(10, 20);
        assert_eq!(whole.within(3, 7).offset_in(whole), Some(3));
        assert_eq!(whole.offset_in(whole), Some(0));
        for other in [Span::NULL, Span::new(9, 12), Span::new(18, 21)] {
            assert_eq!(other.offset_in(whole), None, "{other:?}");
        }
        assert_eq!(whole.offset_in(Span::NULL), None);
    }
}
