//! Translates `fields` and `limits` of version 3's `fullquery`.

use bson::{Bson, Document, doc};
use serde_json::{Map, Value};

use super::bounds::{CONDITIONS_MAX, SEARCH_WORDS_MAX};
use super::clause;
use super::dialect::Dialect;
use super::field::Field;
use super::literal::{self, Dates};
use super::{Find, all, joined, page, parameter, pattern, scientific};
use crate::Refusal;
use crate::documents::schema::{self, Kind};
use crate::documents::search::{self, GRAM_CHARS, GRAMS, SEARCHED};

/// The condition of one key of `fields`.
pub(super) struct Condition {
    /// The key.
    pub(super) key: String,
    /// The condition.
    pub(super) filter: Document,
}

/// Translates `fields` and `limits`.
///
/// # Errors
/// One of them is not JSON, or a part of it is not accepted.
pub fn translate(fields: Option<&str>, limits: Option<&str>) -> Result<Find, Refusal> {
    let filter = all(conditions(fields)?.into_iter().map(|it| it.filter).collect());
    let page = page::page(&parameter("limits", limits)?, Dialect::V3)?;
    Ok(Find { filter, page, ..Find::default() })
}

/// The condition of each key of `fields`.
pub(super) fn conditions(fields: Option<&str>) -> Result<Vec<Condition>, Refusal> {
    let fields = parameter("fields", fields)?;
    let fields = fields.as_object().ok_or_else(|| Refusal::bad("fields needs an object"))?;
    if fields.len() > CONDITIONS_MAX as usize {
        return Err(Refusal::bad(format!("fields has more than {CONDITIONS_MAX} keys")));
    }
    let given = fields.iter().filter(|(_, value)| !value.is_null());
    given.map(|(key, value)| Ok(Condition { key: key.clone(), filter: condition(key, value)? })).collect()
}

fn condition(key: &str, value: &Value) -> Result<Document, Refusal> {
    match key {
        "mode" => mode(value),
        "text" => text(value),
        "scientific" => Ok(all(scientific::conditions(value)?)),
        "userGroups" => groups(value),
        _ => by_kind(key, value),
    }
}

/// Conditions in the language of `where`. The caller's access stays above them.
fn mode(value: &Value) -> Result<Document, Refusal> {
    let object = value.as_object().ok_or_else(|| Refusal::bad("mode needs an object"))?;
    clause::conditions(object, Dialect::V3)
}

/// Every word occurs in one of the searched fields, in any case, also inside of another word. One word at least must be long enough for the
/// index. A dataset without grams is compared as well: it has very long texts, or is not in the index yet.
fn text(value: &Value) -> Result<Document, Refusal> {
    let text = value.as_str().ok_or_else(|| Refusal::bad("text needs a text"))?;
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() > SEARCH_WORDS_MAX {
        return Err(Refusal::bad(format!("text accepts at most {SEARCH_WORDS_MAX} words")));
    }
    let patterns = words.iter().map(|word| pattern::searched(word)).collect::<Result<Vec<_>, _>>()?;
    let grams: Vec<i32> = words.iter().flat_map(|word| search::of_word(word)).collect();
    if grams.is_empty() && !words.is_empty() {
        return Err(Refusal::bad(format!("search for a word of {GRAM_CHARS} characters or more")));
    }
    let indexed = grams.iter().map(|gram| doc! {GRAMS: {"$in": [*gram, Bson::Null]}});
    let compared = patterns.iter().map(|pattern| {
        let fields = SEARCHED.iter().map(|field| doc! {*field: {"$regex": pattern, "$options": "i"}});
        doc! {"$or": fields.collect::<Vec<_>>()}
    });
    Ok(all(indexed.chain(compared).collect()))
}

fn groups(value: &Value) -> Result<Document, Refusal> {
    let conditions = ["ownerGroup", "accessGroups"].map(|field| by_kind(field, value));
    let conditions = conditions.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(joined("$or", conditions.into_iter().filter(|it| !it.is_empty()).collect()))
}

fn by_kind(key: &str, value: &Value) -> Result<Document, Refusal> {
    let field = Field::parse(key, Dialect::V3)?;
    let kind = field.kind.or_else(|| schema::kind(key)).unwrap_or(Kind::Text);
    match (kind, value) {
        (Kind::Date, Value::Object(range)) => range_of(&field, range, ["begin", "end"], Dates::Read),
        (Kind::Number, Value::Object(range)) => range_of(&field, range, ["min", "max"], Dates::Keep),
        (_, Value::Object(_)) => clause::condition(key, value, Dialect::V3),
        (_, Value::Array(values)) => Ok(among(&field, values)?),
        (Kind::Date, one) => Ok(doc! {&field.path: scalar(one, Dates::Read)?}),
        (_, one) => Ok(doc! {&field.path: scalar(one, Dates::Keep)?}),
    }
}

/// One of some values; an empty list is no condition, as in a form without a choice.
fn among(field: &Field, values: &[Value]) -> Result<Document, Refusal> {
    let dates = if field.kind == Some(Kind::Date) { Dates::Read } else { Dates::Keep };
    let mut values = values.iter().map(|value| scalar(value, dates)).collect::<Result<Vec<_>, _>>()?;
    Ok(match values.len() {
        0 => Document::new(),
        1 => doc! {&field.path: values.remove(0)},
        _ => doc! {&field.path: {"$in": values}},
    })
}

fn range_of(
    field: &Field,
    range: &Map<String, Value>,
    ends: [&str; 2],
    dates: Dates,
) -> Result<Document, Refusal> {
    if let Some(other) = range.keys().find(|key| !ends.contains(&key.as_str())) {
        return Err(super::unknown(other));
    }
    let mut test = Document::new();
    for (end, operator) in ends.into_iter().zip(["$gte", "$lte"]) {
        let Some(value) = range.get(end).filter(|value| !value.is_null()) else { continue };
        let value = scalar(value, dates)?;
        let fits = match dates {
            Dates::Read => matches!(value, Bson::DateTime(_)),
            Dates::Keep => matches!(value, Bson::Int64(_) | Bson::Double(_)),
        };
        if !fits {
            return Err(Refusal::bad(format!(
                "{end} needs a {}",
                if dates == Dates::Read { "date" } else { "number" }
            )));
        }
        test.insert(operator, value);
    }
    Ok(if test.is_empty() {
        test
    } else {
        doc! {&field.path: test}
    })
}

fn scalar(value: &Value, dates: Dates) -> Result<Bson, Refusal> {
    literal::scalar(value, dates).ok_or_else(|| Refusal::bad("fields needs values without parts"))
}

#[cfg(test)]
mod tests {
    use bson::DateTime;
    use serde_json::json;

    use super::super::under;
    use super::*;

    #[track_caller]
    fn check(fields: Value, expected: Document) {
        let find = translate(Some(&fields.to_string()), None);
        assert_eq!(find.map(|find| find.filter), Ok(expected), "{fields}");
    }

    #[test]
    fn the_query_of_the_published_assessment_is_translated() {
        let find = translate(
            Some(r#"{"mode":{},"pid":"PID.SAMPLE.PREFIX/predefined_12345"}"#),
            Some(r#"{"skip":0,"limit":25,"order":"creationTime:desc"}"#),
        )
        .unwrap();
        assert_eq!(find.filter, doc! {"_id": "PID.SAMPLE.PREFIX/predefined_12345"});
        assert_eq!(find.page.sort, doc! {"creationTime": -1, "_id": -1});
    }

    #[test]
    fn no_filter_has_an_empty_part() {
        let (none, own, client) = (doc! {}, doc! {"isPublished": true}, doc! {"type": "raw"});
        assert_eq!(under(&none, &none), none);
        assert_eq!(under(&none, &client), client);
        assert_eq!(under(&own, &none), doc! {"$and": [&own]});
        assert_eq!(under(&own, &client), doc! {"$and": [&client, &own]});
        assert_eq!(all(vec![none, client.clone()]), client);
    }

    #[test]
    fn each_type_of_field_has_its_form() {
        let day = |ms| DateTime::from_millis(ms);
        check(json!({"type": ["raw"]}), doc! {"type": "raw"});
        check(json!({"type": ["raw", "derived"]}), doc! {"type": {"$in": ["raw", "derived"]}});
        check(json!({"keywords": []}), doc! {});
        check(json!({"isPublished": true}), doc! {"isPublished": true});
        check(
            json!({"creationTime": {"begin": "1970-01-01", "end": "1970-01-02"}}),
            doc! {"creationTime": {"$gte": day(0), "$lte": day(86_400_000)}},
        );
        check(json!({"creationTime": {"begin": null, "end": null}}), doc! {});
        check(json!({"size": {"min": 1, "max": 5}}), doc! {"size": {"$gte": 1_i64, "$lte": 5_i64}});
        check(json!({"pid": {"$regex": "^a"}}), doc! {"_id": {"$regex": "^a"}});
        check(
            json!({"userGroups": ["a", "b"]}),
            doc! {"$or": [{"ownerGroup": {"$in": ["a", "b"]}}, {"accessGroups": {"$in": ["a", "b"]}}]},
        );
        check(json!({"datasetName": "2024-01-01"}), doc! {"datasetName": "2024-01-01"});
    }

    #[test]
    fn a_text_is_searched_as_it_is() {
        let find = translate(Some(r#"{"text": "a.*b c"}"#), None).unwrap();
        let conditions = find.filter.get_array("$and").unwrap();
        let condition = |index: usize| conditions[index].as_document().unwrap();
        let grams: Vec<&Document> =
            (0..2).map(|index| condition(index).get_document(GRAMS).unwrap()).collect();
        assert!(grams.iter().all(|it| it.get_array("$in").unwrap()[1] == Bson::Null), "{grams:?}");
        assert_eq!(conditions.len(), 4, "two grams and two words");
        let first = condition(2).get_array("$or").unwrap()[0].as_document().unwrap();
        assert_eq!(first, &doc! {"datasetName": {"$regex": "a\\.\\*b", "$options": "i"}});
        check(json!({"text": ""}), doc! {});
    }

    #[test]
    fn a_text_without_a_long_word_is_refused() {
        for text in ["a", "ab", "ab c", "äö"] {
            let refused = translate(Some(&json!({"text": text}).to_string()), None).unwrap_err();
            assert_eq!(refused, Refusal::bad("search for a word of 3 characters or more"), "{text}");
        }
        assert!(translate(Some(r#"{"text": "äöü"}"#), None).is_ok());
    }

    #[test]
    fn hostile_fields_are_refused() {
        for fields in [
            json!({"$where": "1"}),
            json!({"mode": {"$where": "1"}}),
            json!({"mode": {"$or": [{"$expr": true}]}}),
            json!({"mode": "x"}),
            json!({"pid": {"$where": "1"}}),
            json!({"pid": [{"$gt": ""}]}),
            json!({"isPublished": {"$function": {}}}),
            json!({"creationTime": {"begin": {"$gt": 1}}}),
            json!({"creationTime": {"begin": "now"}}),
            json!({"creationTime": {"$where": 1}}),
            json!({"size": {"min": "1"}}),
            json!({"userGroups": {"$where": "1"}}),
            json!({"text": {"$search": "x"}}),
            json!({"text": "x".repeat(300)}),
            json!({"ownerGroup": [["admin"]]}),
            json!([]),
        ] {
            let refused = translate(Some(&fields.to_string()), None).unwrap_err();
            assert_eq!(refused.status(), 400, "{fields}");
        }
    }
}
