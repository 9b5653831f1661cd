//! Translates the parameter `filter` of both versions.

use bson::Document;
use serde_json::{Map, Value};

use super::bounds::{FIELDS_MAX, LIMIT_WITH_RELATIONS_MAX};
use super::clause;
use super::dialect::Dialect;
use super::field::Field;
use super::{Find, include, page, parameter, unknown};
use crate::Refusal;

/// Translates a filter: `where`, `fields`, `limits`, `include`.
///
/// # Errors
/// The text is not JSON, a property is unknown, or a bound is exceeded.
pub fn translate(filter: Option<&str>, dialect: Dialect) -> Result<Find, Refusal> {
    let filter = parameter("filter", filter)?;
    let needs = || Refusal::bad("Invalid JSON in filter: it needs an object");
    let filter = filter.as_object().ok_or_else(needs)?;
    let known = ["where", "fields", "limits", "include"];
    if let Some(other) = filter.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(unknown(other));
    }
    let part = |name: &str| filter.get(name).unwrap_or(&Value::Null);
    let page = page::page(part("limits"), dialect)?;
    let include = include::relations(part("include"))?;
    if !include.is_empty() && page.limit > LIMIT_WITH_RELATIONS_MAX {
        let most = LIMIT_WITH_RELATIONS_MAX;
        return Err(Refusal::bad(format!("a page with relations has at most {most} datasets: lower limit")));
    }
    let projection = projection(part("fields"), dialect)?;
    Ok(Find { filter: conditions(part("where"), dialect)?, projection, page, include })
}

fn conditions(part: &Value, dialect: Dialect) -> Result<Document, Refusal> {
    match part {
        Value::Null => Ok(Document::new()),
        Value::Object(conditions) => clause::conditions(conditions, dialect),
        Value::String(text) if dialect == Dialect::V3 => {
            let conditions: Map<String, Value> = parameter("where", Some(text))?
                .as_object()
                .cloned()
                .ok_or_else(|| Refusal::bad("where needs an object"))?;
            clause::conditions(&conditions, dialect)
        }
        _ => Err(Refusal::bad("where needs an object")),
    }
}

/// Reads a list of names, or an object of names and `true` or 1. The key is always part of the answer.
fn projection(fields: &Value, dialect: Dialect) -> Result<Option<Document>, Refusal> {
    let needs = || Refusal::bad("fields needs a list of names");
    let names: Vec<&str> = match fields {
        Value::Null => return Ok(None),
        Value::Array(names) => {
            names.iter().map(|name| name.as_str().ok_or_else(needs)).collect::<Result<_, _>>()?
        }
        Value::Object(names) if dialect == Dialect::V3 => {
            names.iter().map(|(name, shown)| shown_name(name, shown)).collect::<Result<_, _>>()?
        }
        _ => return Err(needs()),
    };
    if names.is_empty() {
        return Ok(None);
    }
    if names.len() > FIELDS_MAX {
        return Err(Refusal::bad(format!("fields lists at most {FIELDS_MAX} names")));
    }
    let mut paths = names
        .iter()
        .map(|name| Field::parse(name, dialect).map(|field| field.path))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(Some(disjoint(paths)))
}

fn shown_name<'a>(name: &'a str, shown: &Value) -> Result<&'a str, Refusal> {
    let is_shown = shown.as_bool() == Some(true) || shown.as_i64() == Some(1);
    if is_shown {
        Ok(name)
    } else {
        Err(Refusal::bad("fields accepts only `true` and 1: list fields to show"))
    }
}

/// A projection without the parts of a field that it also shows whole, because the server refuses such parts. `paths` are in order.
fn disjoint(paths: Vec<String>) -> Document {
    let mut projection = Document::new();
    for path in paths {
        let is_part = path.match_indices('.').any(|(dot, _)| projection.contains_key(&path[..dot]));
        if !is_part {
            projection.insert(path, 1);
        }
    }
    projection
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use serde_json::json;

    use super::*;
    use crate::query::include::Relation;
    use crate::query::page::Cursor;

    fn translated(json: Value, dialect: Dialect) -> Result<Find, Refusal> {
        translate(Some(&json.to_string()), dialect)
    }

    #[test]
    fn the_example_of_version_3_is_translated() {
        let filter = json!({
            "where": {"sourceFolder": {"inq": ["/a"]}, "or": [{"type": "raw"}, {"type": "derived"}]},
            "include": [{"relation": "origdatablocks"}],
            "fields": ["pid", "datasetName"],
            "limits": {"skip": 0, "limit": 25, "order": "creationTime:desc"},
        });
        let find = translated(filter, Dialect::V3).unwrap();
        let expected = doc! {"$and": [
            {"sourceFolder": {"$in": ["/a"]}},
            {"$or": [{"type": "raw"}, {"type": "derived"}]},
        ]};
        assert_eq!(find.filter, expected);
        assert_eq!(find.projection, Some(doc! {"_id": 1, "datasetName": 1}));
        assert_eq!(find.include, [Relation::OrigDatablocks]);
        assert_eq!((find.page.limit, find.page.skip), (25, 0));
    }

    #[test]
    fn an_absent_filter_lists_everything_in_pages() {
        for absent in [None, Some(""), Some("{}"), Some(" ")] {
            assert_eq!(translate(absent, Dialect::V3), Ok(Find::default()));
            assert_eq!(translate(absent, Dialect::V4).unwrap().page.limit, 10);
        }
    }

    #[test]
    fn a_projection_shows_no_part_of_a_field_twice() {
        let fields =
            json!({"fields": {"datasetlifecycle": 1, "datasetlifecycle.archivable": true, "pid": true}});
        let find = translated(fields, Dialect::V3).unwrap();
        assert_eq!(find.projection, Some(doc! {"_id": 1, "datasetlifecycle": 1}));
    }

    #[test]
    fn a_page_with_relations_is_small() {
        let filter = |limit: u64| json!({"include": ["attachments"], "limits": {"limit": limit}});
        assert!(translated(filter(100), Dialect::V4).is_ok());
        assert!(translated(filter(101), Dialect::V4).unwrap_err().to_string().contains("at most 100"));
    }

    #[test]
    fn a_list_that_is_followed_shows_the_field_of_its_order() {
        let find = translated(json!({"fields": ["owner"]}), Dialect::V4).unwrap();
        assert_eq!(find.projection, Some(doc! {"owner": 1}));
        let followed = find.followed(None).unwrap();
        assert_eq!(followed.projection, Some(doc! {"owner": 1, "createdAt": 1}));
        let unordered = translated(json!({}), Dialect::V3).unwrap();
        assert_eq!(unordered.followed(None).unwrap().page.sort, doc! {"createdAt": -1, "_id": -1});
        for order in ["createdAt:asc", "size:desc", "createdAt:desc,size:desc"] {
            let other = translated(json!({"limits": {"order": order}}), Dialect::V3).unwrap();
            assert_eq!(other.followed(None).unwrap_err().status(), 400, "{order}");
        }
    }

    #[test]
    fn a_cursor_follows_only_the_order_of_its_list() {
        let date = bson::DateTime::from_millis(5);
        let document = doc! {"_id": "a", "createdAt": date, "creationTime": date};
        let check = |list: &str, dialect, limits: Value, follows: bool| {
            let order = doc! {list: -1, "_id": -1};
            let cursor = Cursor::of(&document, &order).unwrap();
            let find = translated(json!({"limits": &limits}), dialect).unwrap();
            let followed = find.followed(Some(&cursor)).map(|find| find.page.sort);
            let followed = followed.map_err(|refusal| refusal.status());
            let expected = if follows { Ok(order) } else { Err(400) };
            assert_eq!(followed, expected, "{list}, {dialect:?}, {limits}");
        };
        let (v3, v4) = (Dialect::V3, Dialect::V4);
        check("createdAt", v3, json!({}), true);
        check("createdAt", v4, json!({}), true);
        check("creationTime", v3, json!({}), true);
        // Version 4 has a default order.
        check("creationTime", v4, json!({}), false);
        check("createdAt", v3, json!({"order": "createdAt:desc"}), true);
        check("creationTime", v4, json!({"sort": {"creationTime": "desc"}}), true);
        for (name, direction) in [("size", "desc"), ("createdAt", "asc"), ("creationTime", "desc")] {
            check("createdAt", v3, json!({"order": format!("{name}:{direction}")}), false);
            check("createdAt", v4, json!({"sort": {name: direction}}), false);
        }
    }

    #[test]
    fn faults_have_the_words_of_scicat() {
        let check = |text: &str, said: &str| {
            let refusal = translate(Some(text), Dialect::V4).unwrap_err();
            assert_eq!(refusal.status(), 400);
            assert!(refusal.to_string().starts_with(said), "{refusal}");
        };
        check("{", "Invalid JSON in filter: ");
        check("{\"where\":{},\"where\":{}}", "Invalid JSON in filter: ");
        check("[]", "Invalid JSON in filter: ");
        check(&"[".repeat(10_000), "Invalid JSON in filter: ");
        check(&" x".repeat(100_000), "filter has ");
        check(r#"{"wher": {}}"#, "Property wher should not exist in the filter object");
        check(r#"{"where": {"$where": "1"}}"#, "Property $where should not exist");
        check(r#"{"fields": ["$where"]}"#, "Property $where should not exist");
        check(r#"{"fields": {"pid": 1}}"#, "fields needs");
        check(r#"{"where": "x"}"#, "where needs");
    }

    #[test]
    fn a_projection_computes_nothing() {
        for fields in [
            json!({"pid": {"$function": {}}}),
            json!({"pid": "$ownerGroup"}),
            json!({"pid": 0}),
            json!([{"$meta": 1}]),
            json!(vec!["a"; 201]),
        ] {
            assert!(translated(json!({"fields": fields}), Dialect::V3).is_err(), "{fields}");
        }
    }
}
