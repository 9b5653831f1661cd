//! Visits every value in a document, with its path.

use bson::RawDocument;
use bson::raw::{RawBsonRef, RawElement, RawIter};

use super::json::DEPTH_MAX;

/// The largest length of a path in bytes.
const PATH_BYTES_MAX: usize = 256;

/// Whether every value was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// Every value was visited.
    Whole,
    /// Some values are too deep, have too long a path, or are invalid BSON.
    Cut,
}

/// Visits every value of a document with its dotted path, outer values first. `tags[]` is the path of each
/// element of the array `tags`.
pub(super) fn walk<'a>(document: &'a RawDocument, see: &mut impl FnMut(&str, &RawElement<'a>)) -> Walked {
    let mut walk = Walk { path: String::new(), walked: Walked::Whole, see };
    walk.inside(document.iter_elements(), Step::Field, DEPTH_MAX);
    walk.walked
}

/// The relation of a value to its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Field,
    Element,
}

struct Walk<'s, S> {
    path: String,
    walked: Walked,
    see: &'s mut S,
}

impl<'a, S: FnMut(&str, &RawElement<'a>)> Walk<'_, S> {
    fn inside(&mut self, elements: RawIter<'a>, step: Step, levels: usize) {
        let above = self.path.len();
        for element in elements {
            let Ok(element) = element else {
                self.walked = Walked::Cut;
                return;
            };
            self.step(step, element.key().as_str());
            if self.path.len() > PATH_BYTES_MAX || levels == 0 {
                self.walked = Walked::Cut;
            } else {
                (self.see)(&self.path, &element);
                self.below(&element, levels - 1);
            }
            self.path.truncate(above);
        }
    }

    fn step(&mut self, step: Step, key: &str) {
        match step {
            Step::Element => self.path.push_str("[]"),
            Step::Field => {
                if !self.path.is_empty() {
                    self.path.push('.');
                }
                self.path.push_str(key);
            }
        }
    }

    fn below(&mut self, element: &RawElement<'a>, levels: usize) {
        match element.value() {
            Ok(RawBsonRef::Document(document)) => self.inside(document.iter_elements(), Step::Field, levels),
            Ok(RawBsonRef::Array(array)) => self.inside(array.iter_elements(), Step::Element, levels),
            Ok(_) => {}
            Err(_) => self.walked = Walked::Cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    fn paths(document: &RawDocument) -> (Vec<String>, Walked) {
        let mut paths = Vec::new();
        let walked = walk(document, &mut |path: &str, _: &RawElement<'_>| paths.push(path.to_owned()));
        (paths, walked)
    }

    #[test]
    fn every_value_has_its_path() {
        let document = rawdoc! {"a": {"b": 1}, "tags": ["x", "y"], "lines": [{"sku": [[1]]}]};
        let expected = [
            "a",
            "a.b",
            "tags",
            "tags[]",
            "tags[]",
            "lines",
            "lines[]",
            "lines[].sku",
            "lines[].sku[]",
            "lines[].sku[][]",
        ];
        assert_eq!(paths(&document), (expected.map(str::to_owned).to_vec(), Walked::Whole));
    }

    #[test]
    fn values_too_deep_or_with_too_long_paths_are_skipped_and_reported() {
        let mut deep = rawdoc! {"x": 1};
        for _ in 0..20_000 {
            let mut above = RawDocumentBuf::new();
            above.append(bson::cstr!("a"), deep);
            deep = above;
        }
        let (seen, walked) = paths(&deep);
        assert_eq!((seen.len(), walked), (DEPTH_MAX, Walked::Cut));
        let mut long = RawDocumentBuf::new();
        long.append(bson::raw::CString::try_from("k".repeat(300)).unwrap(), 1);
        long.append(bson::cstr!("b"), 1);
        assert_eq!(paths(&long), (vec!["b".to_owned()], Walked::Cut));
    }
}
