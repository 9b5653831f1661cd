//! Classifies a server's error codes.

/// The reason why a server refused a document or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A unique index already holds the key: an index other than `_id`'s, or an index that the server does
    /// not name.
    DuplicateKey,
    /// A document with this `_id` already exists.
    DuplicateId,
    /// The collection's validator, or a rule of document form, refused the document.
    Validation,
    /// The document, key or transaction exceeds the server's limit.
    TooLarge,
    /// The user lacks the permission, or is not authenticated.
    Unauthorized,
    /// The server is not (or no longer) a writable primary.
    NotPrimary,
    /// The server ran out of time, tickets, cache or disk, or limits the rate.
    Overload,
    /// The command itself is invalid: none of its documents could succeed.
    BadCommand,
    /// Any other reason.
    Other,
}

impl Class {
    /// All classes, in the order of [`Class::index`].
    pub const ALL: [Class; 9] = [
        Class::DuplicateKey,
        Class::DuplicateId,
        Class::Validation,
        Class::TooLarge,
        Class::Unauthorized,
        Class::NotPrimary,
        Class::Overload,
        Class::BadCommand,
        Class::Other,
    ];

    /// The class of a code from MongoDB's `src/mongo/base/error_codes.yml`. The comments use its names; unnamed codes above
    /// 40000 are numbered assertions of the server. A code alone never means [`Class::DuplicateId`].
    pub fn of_code(code: i32) -> Class {
        match code {
            // DuplicateKey; servers before 4.2 used 11001 on update and 12582 on a capped collection.
            11000 | 11001 | 12582 => Class::DuplicateKey,
            // DocumentValidationFailure; Overflow, InvalidBSON, NonConformantBSON; field names and _id; ImmutableField.
            121 | 15 | 22 | 378 | 52..=57 | 66 => Class::Validation,
            // BSONObjectTooLarge, KeyTooLong, DocTooLargeForCapped, TransactionTooLarge, TransactionTooLargeForCache.
            10334 | 17280 | 116 | 257 | 388 => Class::TooLarge,
            // Unauthorized, AuthenticationFailed, UserNotFound, ReauthenticationRequired, UserWritesBlocked.
            13 | 18 | 11 | 391 | 371 => Class::Unauthorized,
            // NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary, LegacyNotPrimary, PrimarySteppedDown,
            // InterruptedDueToReplStateChange.
            10107 | 13435 | 13436 | 10058 | 189 | 11602 => Class::NotPrimary,
            // LockTimeout, MaxTimeMSExpired, WriteConflict, ExceededMemoryLimit, NetworkInterfaceExceededTimeLimit,
            // ExceededTimeLimit, TemporarilyUnavailable, ResourceExhausted, PooledConnectionAcquisitionExceededTimeLimit,
            // AdmissionQueueOverflow, RateLimitExceeded, PooledConnectionAcquisitionRejected,
            // IngressRequestRateLimitExceeded, OutOfDiskSpace.
            24 | 50 | 112 | 146 | 202 | 262 | 365 | 402 | 407 | 433 | 449 | 450 | 462 | 14031 => {
                Class::Overload
            }
            // BadValue, FailedToParse, TypeMismatch, InvalidLength, ProtocolError, IllegalOperation,
            // EmptyArrayOperation, NamespaceNotFound, InvalidPath, ConflictingUpdateOperators, CommandNotFound,
            // InvalidOptions, InvalidNamespace, CommandNotSupported, CommandNotSupportedOnView, IllegalOpMsgFlag,
            // NotImplemented, IDLDuplicateField, IDLFailedToParse, IDLUnknownField, APIVersion, APIStrict,
            // APIDeprecation.
            2
            | 9
            | 14
            | 16
            | 17
            | 20
            | 21
            | 26
            | 30
            | 40
            | 59
            | 72
            | 73
            | 115
            | 166
            | 223
            | 238
            | 322..=324 => Class::BadCommand,
            40413..=40415 => Class::BadCommand,
            _ => Class::Other,
        }
    }

    /// The index in [`Class::ALL`], from 0.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name for reports: lower-case words with spaces.
    pub fn name(self) -> &'static str {
        match self {
            Class::DuplicateKey => "duplicate key",
            Class::DuplicateId => "duplicate id",
            Class::Validation => "validation",
            Class::TooLarge => "too large",
            Class::Unauthorized => "unauthorized",
            Class::NotPrimary => "not primary",
            Class::Overload => "overload",
            Class::BadCommand => "bad command",
            Class::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_codes_have_their_class() {
        let table: [(Class, &[i32]); 8] = [
            (Class::DuplicateKey, &[11000, 11001, 12582]),
            (Class::Validation, &[121]),
            (Class::TooLarge, &[10334, 17280]),
            (Class::Unauthorized, &[13, 18]),
            (Class::NotPrimary, &[10107, 13435, 10058]),
            (Class::Overload, &[50, 202, 462]),
            (Class::BadCommand, &[2, 9, 14, 59, 40415]),
            (Class::Other, &[0, 1, -1, i32::MAX, 8000]),
        ];
        for (class, codes) in table {
            for &code in codes {
                assert_eq!(Class::of_code(code), class, "code {code}");
            }
        }
    }

    #[test]
    fn the_index_is_the_position_in_all() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index);
        }
    }
}
