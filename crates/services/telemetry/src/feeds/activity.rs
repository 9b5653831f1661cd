//! Parses and checks activities.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};
use plimsoll_service::{InvalidField, name, timestamp};
use serde_json::{Map, Value, json};

use super::error::Error;
use super::position::Position;

/// An action of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The id. A retry has the same id and is stored once.
    pub id: String,
    /// The user.
    pub user: String,
    /// The time, in milliseconds since 1970 (UTC).
    pub at_ms: i64,
    /// The kind, as `post` or `like`.
    pub kind: String,
    /// The text.
    pub text: Option<String>,
    /// The object of the action.
    pub object: Option<String>,
}

/// The longest text, in bytes.
pub const TEXT_BYTES_MAX: usize = 4_000;
/// The fields of the JSON form.
const FIELDS: [&str; 6] = ["activityId", "userId", "timestamp", "type", "text", "object"];

impl Activity {
    /// Parses `{"userId": "…", "type": "…"}`; optional are `activityId`, `timestamp` (RFC 3339 or milliseconds since 1970,
    /// otherwise now), `text` and `object`.
    ///
    /// # Errors
    /// The first [`InvalidField`] field.
    pub fn parse(json: &Value, now_ms: i64, future_ms_max: i64) -> Result<Self, InvalidField> {
        let fields = json.as_object().ok_or_else(|| {
            InvalidField::new("", "an activity is a JSON object: {\"userId\": …, \"type\": …}")
        })?;
        if let Some(unknown) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return Err(InvalidField::new(unknown, format!("is unknown; known are {}", FIELDS.join(", "))));
        }
        let required = |field| {
            name_of(fields, field)?
                .ok_or_else(|| InvalidField::new(field, "is missing: an activity has a userId and a type"))
        };
        Ok(Self {
            user: required("userId")?,
            kind: required("type")?,
            id: name_of(fields, "activityId")?.unwrap_or_else(|| ObjectId::new().to_hex()),
            at_ms: at(fields, now_ms, future_ms_max)?,
            text: text(fields)?,
            object: name_of(fields, "object")?,
        })
    }

    /// The JSON form, with the timestamp in milliseconds.
    pub fn to_json(&self) -> Value {
        let mut json =
            json!({"activityId": self.id, "userId": self.user, "timestamp": self.at_ms, "type": self.kind});
        for (field, value) in [("text", &self.text), ("object", &self.object)] {
            if let Some(value) = value {
                json[field] = value.as_str().into();
            }
        }
        json
    }

    /// The approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        let optional = [&self.text, &self.object].into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>() + self.id.len() + self.user.len() + self.kind.len() + optional
    }

    /// The position in a feed.
    pub fn position(&self) -> Position {
        Position { at_ms: self.at_ms, id: self.id.clone() }
    }

    /// The stored form, with the activity's id in the field `id`.
    pub(super) fn document(&self, id: &str) -> Document {
        let at = DateTime::from_millis(self.at_ms);
        let mut document = doc! {id: &self.id, "a": &self.user, "t": at, "k": &self.kind};
        for (field, value) in [("x", &self.text), ("o", &self.object)] {
            if let Some(value) = value {
                document.insert(field, value);
            }
        }
        document
    }

    /// Decodes the stored form, with the activity's id in the field `id`.
    pub(super) fn stored(document: &Document, id: &str) -> Result<Self, Error> {
        let text = |field| document.get_str(field).map(str::to_owned);
        let optional = |field| document.get_str(field).map(str::to_owned).ok();
        Ok(Self {
            id: text(id)?,
            user: text("a")?,
            at_ms: document.get_datetime("t")?.timestamp_millis(),
            kind: text("k")?,
            text: optional("x"),
            object: optional("o"),
        })
    }
}

fn name_of(fields: &Map<String, Value>, field: &str) -> Result<Option<String>, InvalidField> {
    let Some(value) = fields.get(field) else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| InvalidField::new(field, "must be a string"))?;
    name::fault(text, name::BYTES_MAX)
        .map_or_else(|| Ok(Some(text.to_owned())), |reason| Err(InvalidField::new(field, reason)))
}

fn at(fields: &Map<String, Value>, now_ms: i64, future_ms_max: i64) -> Result<i64, InvalidField> {
    let fault = |reason: String| InvalidField::new("timestamp", reason);
    let Some(value) = fields.get("timestamp") else { return Ok(now_ms) };
    let at_ms = match value {
        Value::String(text) => timestamp::parse(text).map_err(fault)?,
        value => value.as_i64().filter(|at_ms| *at_ms >= 0).ok_or_else(|| fault(timestamp::FORM.into()))?,
    };
    if at_ms > now_ms.saturating_add(future_ms_max) {
        return Err(fault(format!("lies in the future by more than {} s", future_ms_max / 1000)));
    }
    Ok(at_ms)
}

fn text(fields: &Map<String, Value>) -> Result<Option<String>, InvalidField> {
    let Some(value) = fields.get("text") else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| InvalidField::new("text", "must be a string"))?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(InvalidField::new(
            "text",
            format!("has {} bytes: at most {TEXT_BYTES_MAX} are taken", text.len()),
        ));
    }
    if text.contains('\0') {
        return Err(InvalidField::new("text", "must not contain the character 0"));
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn parse(json: &Value) -> Result<Activity, InvalidField> {
        Activity::parse(json, NOW, 300_000)
    }

    #[test]
    fn an_activity_survives_its_json_form() {
        let json = json!({"activityId": "a", "userId": "ann", "timestamp": NOW, "type": "post", "text": "hi", "object": "o"});
        let activity = parse(&json).unwrap();
        assert_eq!(activity.to_json(), json);
        for id in ["_id", "i"] {
            assert_eq!(Activity::stored(&activity.document(id), id).unwrap(), activity);
        }
    }

    #[test]
    fn an_activity_without_time_and_id_gets_both() {
        let (one, other) =
            (json!({"userId": "ann", "type": "post"}), json!({"userId": "ann", "type": "post"}));
        let (one, other) = (parse(&one).unwrap(), parse(&other).unwrap());
        assert_eq!(one.at_ms, NOW);
        assert_ne!(one.id, other.id);
    }

    #[test]
    fn an_invalid_field_is_refused_by_name() {
        let check = |field: &str, value: Value, part: &str| {
            let mut json = json!({"userId": "ann", "type": "post"});
            json[field] = value;
            let fault = parse(&json).unwrap_err();
            assert!(fault.field == field && fault.reason.contains(part), "{fault}");
        };
        for field in ["userId", "type", "activityId", "object"] {
            check(field, json!({"$ne": null}), "string");
            check(field, json!("$where"), "`$`");
            check(field, json!("x".repeat(129)), "at most 128");
        }
        check("text", json!(["a"]), "string");
        check("text", json!("x".repeat(4001)), "at most 4000");
        check("text", json!("a\0b"), "character 0");
        check("timestamp", json!(NOW + 300_001), "future");
        check("timestamp", json!("tomorrow"), "RFC 3339");
        check("timestamp", json!({"$date": 1}), "RFC 3339");
        check("timestamp", json!(-1), "RFC 3339");
        check("$set", json!(1), "unknown");
        check("likes", json!(1), "unknown");
        assert_eq!(parse(&json!({"type": "post"})).unwrap_err().field, "userId");
        assert!(parse(&json!([1])).unwrap_err().reason.contains("JSON object"));
    }
}
