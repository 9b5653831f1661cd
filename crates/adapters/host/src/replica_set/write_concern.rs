//! Reads the write concern of a command.

use std::time::Duration;

use bson::RawDocument;
use bson::raw::RawBsonRef;

/// The longest wait of one command. A write concern without a time limit then fails with a timeout.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The number of members that must have a write, and the time limit of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteConcern {
    pub members: usize,
    pub limit: Duration,
}

impl WriteConcern {
    /// The write concern of a command. The default is the majority, as in MongoDB since 5.0.
    pub fn of(body: &RawDocument, majority: usize) -> Self {
        let Ok(concern) = body.get_document("writeConcern") else { return Self::majority(majority) };
        let members = match concern.get("w") {
            Ok(Some(RawBsonRef::Int32(number))) => usize::try_from(number).unwrap_or(0),
            Ok(Some(RawBsonRef::Int64(number))) => usize::try_from(number).unwrap_or(0),
            _ => majority,
        };
        let limit = milliseconds(concern, "wtimeout").filter(|limit| !limit.is_zero());
        Self { members, limit: limit.unwrap_or(WAIT_MAX) }
    }

    /// This member alone, without a wait.
    pub const fn alone() -> Self {
        Self { members: 1, limit: WAIT_MAX }
    }

    /// The majority, without a time limit.
    pub const fn majority(members: usize) -> Self {
        Self { members, limit: WAIT_MAX }
    }
}

/// A time limit in milliseconds, at most [`WAIT_MAX`].
pub(super) fn milliseconds(body: &RawDocument, field: &str) -> Option<Duration> {
    let value = body.get(field).ok()??;
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    Some(Duration::from_millis(u64::try_from(number).ok()?).min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_command_without_a_write_concern_wants_the_majority() {
        let of = |body: &RawDocument| WriteConcern::of(body, 2);
        assert_eq!(of(&rawdoc! {"insert": "c"}), WriteConcern::majority(2));
        assert_eq!(of(&rawdoc! {"writeConcern": {"w": "majority", "j": true}}), WriteConcern::majority(2));
        let limit = Duration::from_millis(50);
        let three = rawdoc! {"writeConcern": {"w": 3, "wtimeout": 50_i64}};
        assert_eq!(of(&three), WriteConcern { members: 3, limit });
    }
}
