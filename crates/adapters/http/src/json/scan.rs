//! Finds a value in the JSON of an answer without decoding the rest. Checks the whole document on the way, as strictly as a
//! full parser.

use super::Path;
use super::found::Found;
use super::path::Step;

/// The maximum nesting of arrays and objects.
const DEPTH_MAX: usize = 127;

/// The bytes are not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Finds the value at a path; the first value if a key occurs twice.
///
/// # Errors
/// When the document is not JSON, or is nested deeper than 127 levels.
pub(crate) fn find<'a>(json: &'a [u8], path: &Path) -> Result<Option<Found<'a>>, Malformed> {
    std::str::from_utf8(json).map_err(|_| Malformed)?;
    let mut scanner = Scanner { bytes: json, at: 0, depth: 0 };
    let found = scanner.value(Some(path.steps()))?;
    scanner.space();
    if scanner.at == json.len() { Ok(found) } else { Err(Malformed) }
}

impl Found<'_> {
    /// The number of items, if the value is an array.
    pub(crate) fn items(self) -> Option<u64> {
        if self.0.first() != Some(&b'[') {
            return None;
        }
        let (mut scanner, mut count) = (Scanner { bytes: self.0, at: 0, depth: 0 }, 0);
        // The array was checked when it was found.
        let _ = scanner.separated(b']', |scanner, _| {
            count += 1;
            scanner.value(None).map(drop)
        });
        Some(count)
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    /// Skips one value. Returns it if the path ends here, or else the inner value at the rest of the path.
    fn value(&mut self, path: Option<&[Step]>) -> Result<Option<Found<'a>>, Malformed> {
        self.space();
        let start = self.at;
        let inside = match self.peek() {
            Some(b'{') => self.deeper(|scanner| scanner.members(path))?,
            Some(b'[') => self.deeper(|scanner| scanner.items(path))?,
            Some(b'"') => self.text().map(|_| None)?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            _ => self.digits()?,
        };
        match path {
            Some([]) => Ok(Some(Found(&self.bytes[start..self.at]))),
            _ => Ok(inside),
        }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Malformed>) -> Result<T, Malformed> {
        if self.depth == DEPTH_MAX {
            return Err(Malformed);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn members(&mut self, path: Option<&[Step]>) -> Result<Option<Found<'a>>, Malformed> {
        let mut found = None;
        self.separated(b'}', |scanner, _| {
            let key = scanner.text()?;
            scanner.space();
            scanner.expect(b':')?;
            let rest = path.and_then(|steps| steps.split_first()).filter(|(step, _)| is_key(key, &step.key));
            let inside = scanner.value(rest.map(|(_, rest)| rest).filter(|_| found.is_none()))?;
            found = found.or(inside);
            Ok(())
        })?;
        Ok(found)
    }

    fn items(&mut self, path: Option<&[Step]>) -> Result<Option<Found<'a>>, Malformed> {
        let mut found = None;
        self.separated(b']', |scanner, index| {
            let rest =
                path.and_then(|steps| steps.split_first()).filter(|(step, _)| step.index == Some(index));
            found = found.or(scanner.value(rest.map(|(_, rest)| rest))?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `each` for the comma-separated items between two brackets.
    fn separated(
        &mut self,
        close: u8,
        mut each: impl FnMut(&mut Self, usize) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            self.space();
            each(self, index)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => break,
                _ => return Err(Malformed),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// The raw bytes between two quotation marks.
    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek().ok_or(Malformed)? {
                b'"' => break,
                b'\\' => self.escape()?,
                0..0x20 => return Err(Malformed),
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.bytes[start..self.at - 1])
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        let letter = self.bytes.get(self.at + 1).ok_or(Malformed)?;
        let length = match letter {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => {
                let digits = self.bytes.get(self.at + 2..self.at + 6).ok_or(Malformed)?;
                if digits.iter().all(u8::is_ascii_hexdigit) { 6 } else { return Err(Malformed) }
            }
            _ => return Err(Malformed),
        };
        self.at += length;
        Ok(())
    }

    fn digits(&mut self) -> Result<Option<Found<'a>>, Malformed> {
        self.skip(|byte| byte == b'-', 1);
        if self.skip(|byte| byte == b'0', 1) == 0 && self.run() == 0 {
            return Err(Malformed);
        }
        if self.skip(|byte| byte == b'.', 1) == 1 && self.run() == 0 {
            return Err(Malformed);
        }
        if self.skip(|byte| byte == b'e' || byte == b'E', 1) == 1 {
            self.skip(|byte| byte == b'+' || byte == b'-', 1);
            if self.run() == 0 {
                return Err(Malformed);
            }
        }
        Ok(None)
    }

    fn run(&mut self) -> usize {
        self.skip(|byte| byte.is_ascii_digit(), usize::MAX)
    }

    fn literal(&mut self, literal: &[u8]) -> Result<Option<Found<'a>>, Malformed> {
        if !self.bytes[self.at..].starts_with(literal) {
            return Err(Malformed);
        }
        self.at += literal.len();
        Ok(None)
    }

    fn space(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'), usize::MAX);
    }

    /// Skips at most `max` bytes of a kind and returns their number.
    fn skip(&mut self, is_of_kind: impl Fn(u8) -> bool, max: usize) -> usize {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().take(max).take_while(|byte| is_of_kind(**byte)).count();
        self.at += count;
        count
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.skip(|it| it == byte, 1) == 1 { Ok(()) } else { Err(Malformed) }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

/// Whether a raw key, without its quotation marks, equals `key`.
fn is_key(raw: &[u8], key: &str) -> bool {
    if !raw.contains(&b'\\') {
        return raw == key.as_bytes();
    }
    let quoted = [b"\"", raw, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|text| text == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::{Value, json};

    fn at<'a>(json: &'a str, path: &str) -> Result<Option<Found<'a>>, Malformed> {
        find(json.as_bytes(), &Path::parse(path).unwrap())
    }

    #[test]
    fn values_are_found_in_objects_and_arrays() {
        let json = r#" {"a": {"b": [10, {"c": "x\"y"}, [1, 2, 3]]}, "a.b": null, "é": true, "a": 7} "#;
        assert_eq!(at(json, "a.b.0").unwrap().unwrap().number(), Some(10.0));
        assert_eq!(at(json, "a.b.1.c").unwrap().unwrap().text().as_deref(), Some("x\"y"));
        assert_eq!(at(json, "a.b.2").unwrap().unwrap().items(), Some(3));
        assert!(at(json, "/a.b").unwrap().unwrap().is(&Value::Null));
        assert!(at(json, "é").unwrap().unwrap().is(&json!(true)));
        for missing in ["b", "a.b.3", "a.b.x", "a.b.0.c", "a.c"] {
            assert_eq!(at(json, missing), Ok(None), "{missing}");
        }
    }

    fn check(bytes: &[u8]) {
        let theirs =
            serde_json::from_slice::<IgnoredAny>(bytes).is_ok() && std::str::from_utf8(bytes).is_ok();
        let ours = find(bytes, &Path::parse("a").unwrap()).is_ok();
        assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn nesting_above_the_limit_is_refused_without_a_stack_overflow() {
        check(&[vec![b'['; 127], vec![b']'; 127]].concat());
        assert!(find(&vec![b'['; 1_000_000], &Path::parse("a").unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn the_scanner_accepts_exactly_the_documents_of_another_parser(
            bytes in proptest::collection::vec(proptest::sample::select(&b"{}[]\":,0123.eE+-tfnrualse \\ /\x01"[..]), 0..24),
        ) {
            check(&bytes);
        }

        #[test]
        fn a_document_cut_or_changed_at_any_byte_gets_the_verdict_of_another_parser(at in 0_usize..80, byte: u8) {
            let json = r#"{"a": [1, -2.5e3, "x\n\u00e9"], "b": {"c": null, "d": true, "e": "é"}, "f": ""}"#;
            let mut bytes = json.as_bytes().to_vec();
            let at = at % bytes.len();
            check(&bytes[..at]);
            bytes[at] = byte;
            check(&bytes);
        }
    }
}
