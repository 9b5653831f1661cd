//! Reads skip, limit and order, and pages by a cursor.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bson::{Bson, DateTime, Document, doc};
use serde_json::{Map, Value, json};

use super::bounds::{LIMIT_MAX, SKIP_MAX, SORTS_MAX};
use super::dialect::Dialect;
use super::field::Field;
use super::unknown;
use crate::Refusal;

/// The default limit of version 3.
const LIMIT_V3: u64 = 100;
/// The default limit of version 4.
const LIMIT_V4: u64 = 10;
/// The longest cursor, in bytes: a PID of 512 bytes, escaped and encoded.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// The date fields by which a cursor may page, newest first.
pub(crate) const KEYSET: [&str; 3] = ["createdAt", "creationTime", "updatedAt"];

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The documents to skip.
    pub skip: u64,
    /// The maximum number of documents on the page, 1 or more.
    pub limit: u64,
    /// The order; none if empty.
    pub sort: Document,
}

impl Default for Page {
    fn default() -> Self {
        Self { skip: 0, limit: LIMIT_V3, sort: Document::new() }
    }
}

/// Reads `{"skip": 0, "limit": 25, "order": "creationTime:desc"}` of version 3, or `sort` of version 4.
///
/// # Errors
/// A property is unknown, a number is out of bounds, or an order is malformed.
pub(super) fn page(limits: &Value, dialect: Dialect) -> Result<Page, Refusal> {
    let empty = Map::new();
    let limits = match limits {
        Value::Null => &empty,
        Value::Object(limits) => limits,
        _ => return Err(Refusal::bad("limits needs an object")),
    };
    let order = if dialect == Dialect::V3 { "order" } else { "sort" };
    if let Some(other) = limits.keys().find(|key| !["skip", "limit", order].contains(&key.as_str())) {
        return Err(unknown(other));
    }
    let limit = if dialect == Dialect::V3 { LIMIT_V3 } else { LIMIT_V4 };
    let sort = match dialect {
        Dialect::V3 => orders(limits.get(order))?,
        Dialect::V4 => sorts(limits.get(order))?,
    };
    Ok(Page {
        skip: number(limits, "skip", 0, 0..=SKIP_MAX)?,
        limit: number(limits, "limit", limit, 1..=LIMIT_MAX)?,
        sort: sort_document(&sort, dialect)?,
    })
}

fn number(
    limits: &Map<String, Value>,
    key: &str,
    otherwise: u64,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<u64, Refusal> {
    let Some(value) = limits.get(key).filter(|value| !value.is_null()) else { return Ok(otherwise) };
    let needs = || {
        Refusal::bad(format!(
            "{key} needs a whole number from {} to {}; page further with a cursor",
            bounds.start(),
            bounds.end()
        ))
    };
    value.as_u64().filter(|number| bounds.contains(number)).ok_or_else(needs)
}

/// Reads `field:desc`, several of them with commas, or a list.
fn orders(order: Option<&Value>) -> Result<Vec<(String, i32)>, Refusal> {
    let needs = || Refusal::bad("order needs `field:asc` or `field:desc`");
    let texts: Vec<&str> = match order {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.split(',').collect(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().ok_or_else(needs)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(needs()),
    };
    let order = |text: &str| {
        let (field, direction) = text.trim().split_once([':', ' ']).unwrap_or((text.trim(), "asc"));
        Some((field.to_owned(), direction_of(direction)?))
    };
    let texts = texts.into_iter().filter(|text| !text.trim().is_empty());
    texts.map(|text| order(text).ok_or_else(needs)).collect()
}

/// Reads `{"createdAt": "desc"}`; the newest first if absent.
fn sorts(sort: Option<&Value>) -> Result<Vec<(String, i32)>, Refusal> {
    let needs = || Refusal::bad("sort needs an object of `asc` and `desc`");
    let Some(sort) = sort.filter(|sort| !sort.is_null()) else {
        return Ok(vec![("createdAt".to_owned(), -1)]);
    };
    let direction = |value: &Value| match value {
        Value::String(text) => direction_of(text),
        Value::Number(number) => number.as_i64().filter(|it| it.abs() == 1).map(|it| it as i32),
        _ => None,
    };
    let fields = sort.as_object().ok_or_else(needs)?.iter();
    fields.map(|(name, value)| Ok((name.clone(), direction(value).ok_or_else(needs)?))).collect()
}

fn direction_of(text: &str) -> Option<i32> {
    match text.to_ascii_lowercase().as_str() {
        "asc" | "ascending" => Some(1),
        "desc" | "descending" => Some(-1),
        _ => None,
    }
}

/// The order for the server. The key ends it, so that pages neither overlap nor leave a gap.
fn sort_document(sorts: &[(String, i32)], dialect: Dialect) -> Result<Document, Refusal> {
    if sorts.len() > SORTS_MAX {
        return Err(Refusal::bad(format!("sort by at most {SORTS_MAX} fields")));
    }
    let mut document = Document::new();
    for (name, direction) in sorts {
        document.insert(Field::parse(name, dialect)?.path, *direction);
    }
    if let Some(last) = document.values().last().cloned() {
        document.entry("_id".to_owned()).or_insert(last);
    }
    Ok(document)
}

/// The place of a document in a list by one date, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    field: &'static str,
    /// `None`: the document has no date. Such documents end the list.
    at: Option<DateTime>,
    id: String,
}

impl Cursor {
    /// The place of a stored document in a list with this order; `None` if a cursor cannot page it.
    pub fn of(document: &Document, sort: &Document) -> Option<Self> {
        let field = Self::field(sort)?;
        let at = match document.get(field) {
            None | Some(Bson::Null) => None,
            Some(date) => Some(date.as_datetime().copied()?),
        };
        Some(Self { field, at, id: document.get_str("_id").ok()?.to_owned() })
    }

    /// The date of a list by one date, newest first.
    pub fn field(sort: &Document) -> Option<&'static str> {
        let (name, direction) = sort.iter().next()?;
        let by_date_and_key = sort.len() == 2 && *direction == Bson::Int32(-1);
        KEYSET.into_iter().find(|known| by_date_and_key && known == name)
    }

    /// The date of the place; `None` if the document has none.
    pub(crate) fn at(&self) -> Option<DateTime> {
        self.at
    }

    /// The form for clients, which they return as it is.
    pub fn text(&self) -> String {
        let parts = json!([self.field, self.at.map(DateTime::timestamp_millis), self.id]);
        BASE64_URL_SAFE_NO_PAD.encode(parts.to_string())
    }

    /// Reads the form for clients.
    ///
    /// # Errors
    /// The text is no cursor.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let invalid = || Refusal::bad("after needs the cursor of an earlier page");
        if text.len() > TEXT_BYTES_MAX {
            return Err(invalid());
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let (name, ms, id): (String, Option<i64>, String) =
            serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        let field = KEYSET.into_iter().find(|known| *known == name).ok_or_else(invalid)?;
        Ok(Self { field, at: ms.map(DateTime::from_millis), id })
    }

    /// The order of the list.
    pub fn sort(&self) -> Document {
        doc! {self.field: -1, "_id": -1}
    }

    /// The condition on the documents after this place. The first part bounds the scan of the index.
    pub fn condition(&self) -> Document {
        let (field, id) = (self.field, &self.id);
        match self.at {
            None => doc! {field: null, "_id": {"$lt": id}},
            // A comparison by `$lte` would leave out the documents without a date.
            Some(at) => doc! {
                field: {"$not": {"$gt": at}}, "$or": [{field: {"$ne": at}}, {"_id": {"$lt": id}}],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_version_3_have_defaults_and_an_order() {
        let limits = json!({"skip": 5, "limit": 25, "order": "creationTime:desc"});
        let read = page(&limits, Dialect::V3).unwrap();
        assert_eq!((read.skip, read.limit, read.sort), (5, 25, doc! {"creationTime": -1, "_id": -1}));
        assert_eq!(page(&json!({}), Dialect::V3), Ok(Page { skip: 0, limit: 100, sort: doc! {} }));
        assert_eq!(page(&Value::Null, Dialect::V3), Ok(Page::default()));
        for order in [json!("owner,size:desc"), json!(["owner:asc", "size desc"])] {
            let sort = page(&json!({"order": order}), Dialect::V3).unwrap().sort;
            assert_eq!(sort, doc! {"owner": 1, "size": -1, "_id": -1});
        }
        assert_eq!(page(&json!({"order": "pid:asc"}), Dialect::V3).unwrap().sort, doc! {"_id": 1});
    }

    #[test]
    fn version_4_lists_ten_and_the_newest_first() {
        let read = page(&json!({}), Dialect::V4).unwrap();
        assert_eq!((read.limit, read.sort), (10, doc! {"createdAt": -1, "_id": -1}));
        let sort = page(&json!({"sort": {"size": "asc", "owner": -1}}), Dialect::V4).unwrap().sort;
        assert_eq!(sort, doc! {"size": 1, "owner": -1, "_id": -1});
    }

    #[test]
    fn limits_out_of_bounds_are_refused() {
        for limits in [
            json!({"limit": 0}),
            json!({"limit": -1}),
            json!({"limit": 10_001}),
            json!({"limit": 1.5}),
            json!({"limit": {"$gt": 1}}),
            json!({"skip": 100_001}),
            json!({"skip": 1e300}),
            json!({"order": "creationTime:sideways"}),
            json!({"order": "$where:asc"}),
            json!({"order": [{"$meta": 1}]}),
            json!({"order": "a,b,c,d,e,f"}),
            json!({"other": 1}),
            json!([]),
        ] {
            assert!(page(&limits, Dialect::V3).is_err(), "{limits}");
        }
        for limits in
            [json!({"sort": {"size": {"$meta": "x"}}}), json!({"sort": {"unheard": 1}}), json!({"sort": "x"})]
        {
            assert!(page(&limits, Dialect::V4).is_err(), "{limits}");
        }
    }

    #[test]
    fn a_cursor_names_the_place_after_a_document() {
        let document = doc! {"_id": "a/b", "createdAt": DateTime::from_millis(5)};
        let sort = doc! {"createdAt": -1, "_id": -1};
        let cursor = Cursor::of(&document, &sort).unwrap();
        let read = Cursor::parse(&cursor.text()).unwrap();
        assert_eq!((&read, read.sort()), (&cursor, sort.clone()));
        let at = DateTime::from_millis(5);
        let after = doc! {
            "createdAt": {"$not": {"$gt": at}}, "$or": [{"createdAt": {"$ne": at}}, {"_id": {"$lt": "a/b"}}],
        };
        assert_eq!(read.condition(), after);
        let quotes = "\"".repeat(512);
        for document in [doc! {"_id": &quotes}, doc! {"_id": &quotes, "createdAt": at}] {
            let cursor = Cursor::of(&document, &sort).unwrap();
            assert_eq!(Cursor::parse(&cursor.text()).unwrap(), cursor);
        }
        assert_eq!(Cursor::of(&doc! {"_id": "a", "createdAt": "soon"}, &sort), None);
        assert_eq!(Cursor::of(&document, &doc! {"size": -1, "_id": -1}), None);
        assert_eq!(Cursor::of(&document, &doc! {"createdAt": 1, "_id": 1}), None);
    }

    #[test]
    fn a_forged_cursor_is_refused() {
        let forged = |json: Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
        for text in [
            String::new(),
            "?".into(),
            forged(json!(["$where", 1, "a"])),
            forged(json!(["ownerGroup", 1, "a"])),
            forged(json!(["createdAt", {"$gt": 1}, "a"])),
            forged(json!(["createdAt", 1, {"$gt": ""}])),
            "A".repeat(100_000),
        ] {
            assert!(Cursor::parse(&text).is_err(), "{text:.40}");
        }
    }
}
