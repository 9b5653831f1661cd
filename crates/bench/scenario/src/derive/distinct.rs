//! Counts different values while they are few.

use bson::Bson;
use bson::raw::RawBsonRef;

/// The largest number of different values that are counted.
pub(super) const DISTINCT_MAX: usize = 50;
/// The longest text that is counted, in bytes.
const BYTES_MAX: usize = 256;
/// Values are few if each occurs at least this often on average.
const TIMES_MIN: u64 = 4;

/// Different values with their counts, in the order of their first appearance. `None` once there are too many
/// values, or one that `small` refuses.
#[derive(Clone, Debug)]
pub(super) struct Distinct(Option<Vec<(Bson, u64)>>);

impl Default for Distinct {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl Distinct {
    /// Adds a value.
    pub(super) fn add(&mut self, value: RawBsonRef<'_>) {
        let Some(known) = &mut self.0 else { return };
        let Some(value) = small(value) else {
            self.0 = None;
            return;
        };
        match known.iter().position(|(other, _)| *other == value) {
            Some(index) => known[index].1 += 1,
            None if known.len() < DISTINCT_MAX => known.push((value, 1)),
            None => self.0 = None,
        }
    }

    /// The values, if they are few and occur often.
    pub(super) fn few(&self) -> Option<&[(Bson, u64)]> {
        let known = self.0.as_deref()?;
        let total: u64 = known.iter().map(|(_, count)| count).sum();
        (total >= TIMES_MIN * known.len() as u64).then_some(known)
    }
}

/// The value, if it is a short text, a number, a boolean, a date, an ObjectId or null. `None` for any other
/// value, and for NaN.
fn small(value: RawBsonRef<'_>) -> Option<Bson> {
    let is_small = match value {
        RawBsonRef::String(text) => text.len() <= BYTES_MAX,
        RawBsonRef::Double(number) => !number.is_nan(),
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::Null => true,
        _ => false,
    };
    if is_small { Bson::try_from(value).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = i32>) -> Distinct {
        let mut distinct = Distinct::default();
        values.into_iter().for_each(|value| distinct.add(RawBsonRef::Int32(value)));
        distinct
    }

    #[test]
    fn values_are_few_only_if_they_occur_often_and_fit() {
        let few = of([1, 2, 1, 1, 2, 1, 1, 1]);
        assert_eq!(few.few(), Some(&[(Bson::Int32(1), 6), (Bson::Int32(2), 2)][..]));
        assert_eq!(of([1, 2, 3]).few(), None);
        assert!(of((0..200).map(|index| index % 50)).few().is_some());
        assert_eq!(of((0..1000).map(|index| index % 51)).few(), None);
    }

    #[test]
    fn a_large_value_or_one_with_parts_ends_the_count() {
        let text = "x".repeat(BYTES_MAX + 1);
        let mut distinct = Distinct::default();
        distinct.add(RawBsonRef::String(&text));
        (0..10).for_each(|_| distinct.add(RawBsonRef::Null));
        assert_eq!(distinct.few(), None);
    }
}
