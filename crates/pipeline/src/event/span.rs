//! A piece of a batch's memory.

/// A range of a batch's arena, or nothing at all.
///
/// Spans are two 32-bit numbers: an arena holds less than 4 GiB, which [`crate::Limits`] sees to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// No value, which is not the same as an empty one.
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

    /// Whether there is nothing in it.
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

    /// Its elements in `all`, `None` for no value.
    pub fn of<T>(self, all: &[T]) -> Option<&[T]> {
        if self.is_null() { None } else { Some(&all[self.start as usize..self.end as usize]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_the_same_as_empty() {
        assert_eq!(Span::NULL.of(b"abc"), None);
        assert_eq!(Span::new(1, 1).of(b"abc"), Some(&b""[..]));
        assert_eq!(Span::new(1, 3).of(b"abc"), Some(&b"bc"[..]));
        assert_eq!((Span::NULL.len(), Span::new(1, 3).len()), (0, 2));
    }
}
