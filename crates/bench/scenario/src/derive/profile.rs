//! Folds over documents, and keeps for each field its frequency, types, sizes and distribution.

use bson::RawDocument;
use bson::raw::RawBsonRef;

use super::values::{Field, Fields, Values, items};

/// The largest number of fields at one path of the documents.
const FIELDS_MAX: usize = 200;
/// The largest number of paths in the whole profile.
const PLACES_MAX: usize = 2_000;
/// The deepest profiled level.
const DEPTH_MAX: usize = 16;

/// The fields of the documents seen so far. Its size is bounded.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(super) root: Fields,
    /// The sum of the documents' sizes, in bytes.
    bytes: u64,
    places: usize,
}

impl Profile {
    /// Adds a document. The fields from an invalid element on are ignored.
    pub fn see(&mut self, document: &RawDocument) {
        self.bytes += document.as_bytes().len() as u64;
        document_into(&mut self.root, document, &mut self.places, 1);
    }

    /// The number of documents.
    pub const fn documents(&self) -> u64 {
        self.root.documents
    }

    /// The mean size of a document in bytes; 0 without documents.
    pub(super) fn mean_bytes(&self) -> u64 {
        self.bytes / self.root.documents.max(1)
    }

    /// The values of a top-level field. `None` if no document had the field.
    pub(super) fn field(&self, name: &str) -> Option<&Values> {
        self.root.fields.iter().find(|field| field.name == name).map(|field| &field.values)
    }
}

fn document_into(fields: &mut Fields, document: &RawDocument, places: &mut usize, depth: usize) {
    fields.documents += 1;
    for element in document.iter_elements() {
        let Ok(element) = element else { break };
        let Ok(value) = element.value() else { break };
        let index = if depth < DEPTH_MAX { place(fields, element.key().as_str(), places) } else { None };
        match index {
            Some(index) => value_into(&mut fields.fields[index].values, value, places, depth),
            None => fields.left_out += 1,
        }
    }
}

/// The index of a field, which is added if it is new. `None` if the profile is full.
fn place(fields: &mut Fields, name: &str, places: &mut usize) -> Option<usize> {
    if let Some(index) = fields.fields.iter().position(|field| field.name == name) {
        return Some(index);
    }
    if fields.fields.len() == FIELDS_MAX || *places == PLACES_MAX {
        return None;
    }
    *places += 1;
    fields.fields.push(Field { name: name.to_owned(), values: Values::default() });
    Some(fields.fields.len() - 1)
}

fn value_into(values: &mut Values, value: RawBsonRef<'_>, places: &mut usize, depth: usize) {
    let group = values.add(value);
    match value {
        RawBsonRef::Document(document) => document_into(&mut group.fields, document, places, depth + 1),
        RawBsonRef::Array(_) if depth + 1 < DEPTH_MAX => {
            let all = group.items.get_or_insert_default();
            items(value).for_each(|item| value_into(all, item, places, depth + 1));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf, rawdoc};

    use super::*;

    fn of(documents: &[RawDocumentBuf]) -> Profile {
        let mut profile = Profile::default();
        documents.iter().for_each(|document| profile.see(document));
        profile
    }

    #[test]
    fn fields_count_by_document_and_items_of_arrays_each() {
        let profile = of(&[rawdoc! {"a": 1, "tags": ["x", "yy", 3]}, rawdoc! {"tags": []}]);
        assert_eq!((profile.documents(), profile.field("a").unwrap().count), (2, 1));
        let tags = &profile.field("tags").unwrap().groups[0];
        assert_eq!((tags.numbers.min, tags.numbers.max), (0.0, 3.0));
        let items = tags.items.as_ref().unwrap();
        assert_eq!((items.count, items.groups.len()), (3, 2));
    }

    #[test]
    fn the_size_of_a_profile_is_bounded() {
        let wide = |from: usize| {
            let fields: Document = (from..from + 300).map(|index| (format!("f{index}"), 1.into())).collect();
            RawDocumentBuf::try_from(fields).unwrap()
        };
        let profile = of(&[wide(0), wide(300)]);
        assert_eq!((profile.root.fields.len(), profile.root.left_out), (FIELDS_MAX, 400));
        let mut deep = rawdoc! {"x": 1};
        for _ in 0..20_000 {
            let mut above = RawDocumentBuf::new();
            above.append(bson::cstr!("a"), deep);
            deep = above;
        }
        assert!(of(&[deep]).places <= DEPTH_MAX);
        let many: Document = (0..100)
            .map(|outer| {
                let inner: Document = (0..100).map(|inner| (format!("i{inner}"), 1.into())).collect();
                (format!("o{outer}"), inner.into())
            })
            .collect();
        assert_eq!(of(&[RawDocumentBuf::try_from(many).unwrap()]).places, PLACES_MAX);
    }
}
