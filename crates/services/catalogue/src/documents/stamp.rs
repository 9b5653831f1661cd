//! Stamps the changes of documents.

use bson::{Bson, DateTime};

/// The time of a change: later than the change before, so that two changes in one millisecond differ.
pub fn later(before: &Bson, now: DateTime) -> DateTime {
    let after = before.as_datetime().map_or(i64::MIN, |before| before.timestamp_millis().saturating_add(1));
    DateTime::from_millis(now.timestamp_millis().max(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_later_than_the_change_before() {
        let at = DateTime::from_millis;
        assert_eq!(later(&at(5).into(), at(9)), at(9));
        assert_eq!(later(&at(5).into(), at(5)), at(6));
        assert_eq!(later(&at(5).into(), at(1)), at(6), "the clock went back");
        assert_eq!(later(&Bson::Null, at(1)), at(1));
    }
}
