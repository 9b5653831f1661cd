//! Encodes the keys of metadata: MongoDB gives `.` and `$` a meaning.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that JavaScript's `encodeURIComponent` changes, and `.`.
const CHANGED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// The stored form of a key.
pub fn encode(key: &str) -> String {
    utf8_percent_encode(key, CHANGED).to_string()
}

/// The key of a stored form. A stored key that is not such a form stays as it is.
pub fn decode(stored: &str) -> String {
    percent_decode_str(stored).decode_utf8().map_or_else(|_| stored.to_owned(), |key| key.into_owned())
}

/// The stored form of a key in a query, which may be encoded already.
pub fn encode_again(key: &str) -> String {
    encode(&decode(key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stored_key_has_no_character_with_a_meaning() {
        assert_eq!(encode("Sample temp. [K]"), "Sample%20temp%2E%20%5BK%5D");
        assert_eq!(encode("$where"), "%24where");
        assert_eq!(encode("it's_(a)-key!~*"), "it's_(a)-key!~*");
        assert_eq!(encode("µ\0"), "%C2%B5%00");
        assert_eq!(decode("%FF"), "%FF", "an invalid form is shown as stored");
    }

    proptest! {
        #[test]
        fn every_key_survives(key in ".*") {
            let stored = encode(&key);
            prop_assert!(!stored.contains(['.', '$', '\0']));
            prop_assert_eq!(decode(&stored), key);
            prop_assert_eq!(encode_again(&stored), stored);
        }
    }
}
