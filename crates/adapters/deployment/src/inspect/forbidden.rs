//! Finds forbidden fields and counts the documents that have them.

use std::fmt;
use std::str::FromStr;

use bson::raw::RawElement;
use bson::{Document, RawDocument, doc, rawdoc};
use plimsoll_measure::inspection::{Choice, Forbidden, Presence, Value};
use plimsoll_wire::Error as WireError;

use super::query::{Inspector, counted};
use super::walk::walk;
use super::{FORBIDDEN_MAX, json};
use crate::cursor::batch;
use crate::namespace::Namespace;

/// The largest size of a pattern in bytes.
const PATTERN_BYTES_MAX: usize = 256;
/// The largest number of paths and documents listed for each field.
const EXAMPLES_MAX: usize = 5;
/// The largest size of a listed `_id` in bytes.
const ID_BYTES_MAX: usize = 1024;

/// Selects fields by their dotted path: `note` or `customer.password`. `*` matches any characters, dots included: `*.password`.
/// Arrays are transparent: `lines.sku` is a field of every element of `lines`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// A text that is not a field's path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no field: write a path such as note or customer.password, with * for any characters, such as *.password"
)]
pub struct PatternError {
    text: String,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let plain = text.replace("[]", "");
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('$') && !name.contains('\0');
        let is_path = plain.len() <= PATTERN_BYTES_MAX && plain.split('.').all(is_name);
        if is_path { Ok(Self(plain)) } else { Err(PatternError { text: text.to_owned() }) }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Whether the pattern matches a path, which is given without `[]`.
    fn matches(&self, path: &str) -> bool {
        let mut parts = self.0.split('*');
        let (first, rest) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
        let Some(mut path) = path.strip_prefix(first) else { return false };
        let Some((last, middle)) = rest.split_last() else { return path.is_empty() };
        for part in middle {
            let Some(at) = path.find(part) else { return false };
            path = &path[at + part.len()..];
        }
        path.ends_with(last)
    }

    /// The path, if it is exact.
    fn exact(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(self.0.as_str())
    }
}

/// Finds forbidden fields in documents. A fold that never connects.
#[derive(Debug)]
pub(super) struct Watch<'p> {
    patterns: &'p [Pattern],
    found: Vec<Forbidden>,
}

impl<'p> Watch<'p> {
    pub(super) fn new(patterns: &'p [Pattern]) -> Self {
        let patterns = &patterns[..patterns.len().min(FORBIDDEN_MAX)];
        let nothing = |pattern: &Pattern| Forbidden { pattern: pattern.to_string(), ..Forbidden::default() };
        Self { patterns, found: patterns.iter().map(nothing).collect() }
    }

    /// Checks a document.
    pub(super) fn see(&mut self, document: &RawDocument) {
        if self.patterns.is_empty() {
            return;
        }
        let mut hit = vec![false; self.patterns.len()];
        walk(document, &mut |path: &str, _: &RawElement<'_>| self.compare(path, &mut hit));
        for (found, _) in self.found.iter_mut().zip(hit).filter(|(_, hit)| *hit) {
            found.sampled += 1;
            if found.examples.len() < EXAMPLES_MAX {
                found.examples.extend(id(document));
            }
        }
    }

    fn compare(&mut self, path: &str, hit: &mut [bool]) {
        let plain = path.replace("[]", "");
        for ((pattern, found), hit) in self.patterns.iter().zip(&mut self.found).zip(hit) {
            if pattern.matches(&plain) {
                *hit = true;
                if found.paths.len() < EXAMPLES_MAX && !found.paths.iter().any(|known| known == path) {
                    found.paths.push(path.to_owned());
                }
            }
        }
    }

    /// Returns the found fields; `choice` is the choice of documents, `None` if none could be read.
    pub(super) fn finish(self, choice: Option<Choice>) -> Vec<Forbidden> {
        let judge = |found: Forbidden| Forbidden {
            documents: (choice == Some(Choice::All)).then_some(found.sampled),
            presence: match choice {
                _ if found.sampled > 0 => Presence::Found,
                None => Presence::NotChecked,
                Some(Choice::All) => Presence::Absent,
                Some(_) => Presence::AbsentInInventory,
            },
            ..found
        };
        self.found.into_iter().map(judge).collect()
    }
}

fn id(document: &RawDocument) -> Option<Value> {
    let id = document.iter_elements().map_while(Result::ok).find(|element| element.key() == "_id")?;
    let mut alone = rawdoc! {};
    alone.append(bson::cstr!("_id"), id.value().ok()?);
    json::shown(&alone, ID_BYTES_MAX).0.get("_id").cloned()
}

/// Counts the documents with each field that has an exact path and no count yet. Returns notes about refused counts.
pub(super) async fn count(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    found: &mut [Forbidden],
) -> Result<Vec<String>, WireError> {
    let mut notes = Vec::new();
    for field in found.iter_mut().filter(|field| field.documents.is_none()) {
        let pattern = Pattern(field.pattern.clone());
        let Some(path) = pattern.exact() else { continue };
        let answer = asker.scan(&namespace.db, request(namespace, path)).await?;
        match answer.and_then(|reply| counted(&reply)) {
            Ok(documents) => {
                settle(field, documents);
                if documents > 0 && field.examples.is_empty() {
                    field.examples = examples(asker, namespace, path).await?;
                }
            }
            Err(refusal) => {
                notes.push(format!("documents with {path} were not counted: {}", refusal.reason()))
            }
        }
    }
    Ok(notes)
}

fn request(namespace: &Namespace, path: &str) -> Document {
    let there = there(path);
    let count = doc! {"$group": {"_id": 1, "n": {"$sum": 1}}};
    doc! {"aggregate": namespace.collection.as_str(), "pipeline": [{"$match": there}, count], "cursor": {}}
}

/// The `_id`s of a few documents with the field, from the whole collection.
async fn examples(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    path: &str,
) -> Result<Vec<Value>, WireError> {
    let find = doc! {
        "find": namespace.collection.as_str(), "filter": there(path), "projection": {"_id": 1},
        "limit": EXAMPLES_MAX as i64, "singleBatch": true,
    };
    let reply = asker.scan(&namespace.db, find).await?;
    let documents = reply.ok().and_then(|reply| batch(&reply));
    Ok(documents.unwrap_or_default().0.iter().filter_map(|document| id(document)).collect())
}

fn there(path: &str) -> Document {
    let mut there = Document::new();
    there.insert(path, doc! {"$exists": true});
    there
}

/// Merges counted and sampled findings: documents may be written or removed in between, and only a sample finds names that
/// contain a dot.
fn settle(field: &mut Forbidden, counted: u64) {
    field.documents = Some(counted.max(field.sampled));
    field.presence = if counted.max(field.sampled) > 0 { Presence::Found } else { Presence::Absent };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(path)
    }

    #[test]
    fn a_pattern_is_an_exact_path_or_matches_many() {
        for (pattern, path, expected) in [
            ("note", "note", true),
            ("note", "notes", false),
            ("note", "a.note", false),
            ("*.password", "a.password", true),
            ("*.password", "a.b.password", true),
            ("*.password", "password", false),
            ("*password*", "old_passwords", true),
            ("a.*.c*e", "a.b.cde", true),
            ("a.*.c*e", "a.b.cdf", false),
            ("ab*ba", "aba", false),
            ("lines[].sku", "lines.sku", true),
            ("*", "anything.at.all", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused_with_the_syntax() {
        for text in ["", ".", "a.", ".a", "a..b", "$where", "a.$b", "[]", &"x".repeat(300)] {
            let message = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(message.contains("*.password"), "{message}");
        }
    }

    fn watch(
        patterns: &[&str],
        documents: &[bson::RawDocumentBuf],
        choice: Option<Choice>,
    ) -> Vec<Forbidden> {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        let mut watch = Watch::new(&patterns);
        documents.iter().for_each(|document| watch.see(document));
        watch.finish(choice)
    }

    #[test]
    fn a_document_counts_once_however_often_it_has_the_field() {
        let documents = [
            rawdoc! {"_id": 7, "users": [{"password": 1}, {"password": 2}], "old": {"password": 3}},
            rawdoc! {"_id": 8},
        ];
        let found = &watch(&["*.password", "note"], &documents, Some(Choice::All));
        assert_eq!((found[0].sampled, found[0].documents, found[0].presence), (1, Some(1), Presence::Found));
        assert_eq!(found[0].paths, ["users[].password", "old.password"]);
        assert_eq!(found[0].examples, [7]);
        assert_eq!((found[1].presence, found[1].documents), (Presence::Absent, Some(0)));
    }

    #[test]
    fn a_field_that_a_sample_lacks_may_be_in_other_documents() {
        let found = |choice| watch(&["note"], &[rawdoc! {"_id": 1}], choice)[0].clone();
        assert_eq!(found(Some(Choice::Random)).presence, Presence::AbsentInInventory);
        assert_eq!((found(None).presence, found(None).documents), (Presence::NotChecked, None));
    }

    #[test]
    fn only_a_few_examples_are_listed() {
        let documents: Vec<_> = (0..20).map(|id| rawdoc! {"_id": id, "note": 1}).collect();
        let found = watch(&["note"], &documents, Some(Choice::All));
        assert_eq!((found[0].sampled, found[0].examples.len()), (20, EXAMPLES_MAX));
    }
}
