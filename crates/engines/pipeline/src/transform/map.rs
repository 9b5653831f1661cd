//! Changes payloads: selects, renames and sets fields, or runs a program.

use std::collections::BTreeMap;

use bson::RawDocument;
use jaq_json::Val;
use plimsoll_jq::is_larger;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ExpressionError;
use super::expression::{Expression, text};
use super::extended::{self, Fields};
use super::input::Encoding;
use super::unmatched::Unmatched;
use crate::event::{Batch, Cause, Event, Fate};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// The `map` transform of a pipeline file. The steps apply in this order.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MapSettings {
    /// The fields to keep. Default: all.
    pub project: Vec<String>,
    /// New names of fields: `old: new`.
    pub rename: BTreeMap<String, String>,
    /// Fields, and programs of the jq language for their values.
    pub set: BTreeMap<String, String>,
    /// A program of the jq language for the payload. An event without a result is dropped; before the sink `keyed` it deletes its
    /// document.
    pub expression: Option<String>,
    /// The encoding of payloads, before and after.
    pub format: Encoding,
}

/// Changes payloads. Unreadable payloads are rejected; tombstones pass unchanged.
pub struct Map {
    settings: MapSettings,
    unmatched: Unmatched,
}

impl Map {
    /// Builds the transform from its settings.
    ///
    /// # Errors
    ///
    /// If there is no step, or a program is invalid.
    pub fn build(settings: &MapSettings) -> Result<Self, TransformError> {
        if program(settings).is_empty() {
            let words = "map: give at least one of `project`, `rename`, `set` and `expression`";
            return Err(TransformError::Refused(words.into()));
        }
        Steps::build(settings)?;
        Ok(Self { settings: settings.clone(), unmatched: Unmatched::default() })
    }

    /// The same transform, with another fate of events without a result.
    #[must_use]
    pub fn with_unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched, ..self }
    }
}

/// The compiled steps.
enum Steps {
    /// One program for all steps.
    Json(Expression),
    /// Fields are selected and renamed without decoding; a program does the other steps, if any.
    Bson(Fields, Option<Expression>),
}

impl Steps {
    fn build(settings: &MapSettings) -> Result<Self, TransformError> {
        if settings.format == Encoding::Json {
            return Ok(Self::Json(compile(&program(settings))?));
        }
        let fields = Fields::build(&settings.project, &settings.rename);
        let fields = fields.map_err(|error| TransformError::Refused(format!("map: rename: {error}")))?;
        let rest = program(&MapSettings {
            set: settings.set.clone(),
            expression: settings.expression.clone(),
            ..MapSettings::default()
        });
        let rest = (!rest.is_empty()).then(|| compile(&rest)).transpose()?;
        Ok(Self::Bson(fields, rest))
    }

    /// The new payload of an event, or none if the event is dropped.
    fn map(&self, payload: &[u8], batch: &Batch, event: &Event) -> Result<Option<Vec<u8>>, ExpressionError> {
        match self {
            Self::Json(program) => {
                let given = program.run(Encoding::Json, batch, event)?;
                given.map(|value| text(&value, batch.event_bytes_max())).transpose()
            }
            Self::Bson(fields, program) => {
                let kept = fields.apply(extended::document(payload)?)?;
                let Some(program) = program else { return Ok(Some(kept.into_bytes())) };
                let given = program.give(extended::read(&kept)?, batch, event)?;
                given.map(|value| document(&value, &kept, batch.event_bytes_max())).transpose()
            }
        }
    }
}

/// The document of a value, unless it is too large.
fn document(value: &Val, was: &RawDocument, bytes_max: usize) -> Result<Vec<u8>, ExpressionError> {
    let oversize = ExpressionError::Oversize(bytes_max);
    if is_larger(value, bytes_max) {
        return Err(oversize);
    }
    let written = extended::write(value, was)?.into_bytes();
    if written.len() > bytes_max { Err(oversize) } else { Ok(written) }
}

fn compile(program: &str) -> Result<Expression, TransformError> {
    Expression::compile(program).map_err(|error| TransformError::Refused(format!("map: {error}")))
}

/// The text of one program that does all steps; empty without steps.
fn program(settings: &MapSettings) -> String {
    let mut steps = Vec::new();
    if !settings.project.is_empty() {
        let names: Vec<_> = settings.project.iter().map(|name| quoted(name)).collect();
        steps.push(format!("with_entries(select(.key as $name | any(({}); . == $name)))", names.join(", ")));
    }
    if !settings.rename.is_empty() {
        let pairs: Vec<_> =
            settings.rename.iter().map(|(old, new)| format!("{}: {}", quoted(old), quoted(new))).collect();
        let renamed = format!("with_entries(.key |= ({{{}}}[.] // .))", pairs.join(", "));
        // If two fields had one name, only the second would remain.
        let whole = r#"if length == $fields then . else error("two fields would have one name") end"#;
        steps.push(format!("(length as $fields | {renamed} | {whole})"));
    }
    steps.extend(settings.set.iter().map(|(field, value)| format!(".[{}] = ({value})", quoted(field))));
    steps.extend(settings.expression.clone());
    steps.join(" | ")
}

/// A text literal of the jq language, which has JSON's syntax.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl TransformFactory for Map {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Running(Steps::build(&self.settings)?, self.unmatched)))
    }

    fn name(&self) -> &str {
        "map"
    }
}

struct Running(Steps, Unmatched);

impl Transform for Running {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| {
            let event = batch.events()[index];
            let mapped = batch.payload(&event).map(|payload| self.0.map(payload, batch, &event));
            match mapped {
                None => Fate::Keep,
                Some(Ok(None)) => self.1.fate(batch, index),
                Some(Ok(Some(payload))) => {
                    let payload = batch.keep(&payload);
                    batch.events_mut()[index].payload = payload;
                    Fate::Keep
                }
                Some(Err(error)) => Fate::Reject(Cause::new("map", error.class(), error.to_string())),
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CauseClass, Record};
    use crate::position::Partition;
    use crate::transform::unmatched::testing::{COPY, passed};
    use bson::{Bson, Document, doc};

    fn mapped(settings: &MapSettings, payload: &str) -> Option<String> {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record { payload: Some(payload.as_bytes()), ..Record::default() });
        TransformFactory::build(&Map::build(settings).unwrap(), 0).unwrap().apply(&mut batch).unwrap();
        let event = batch.events().first()?;
        Some(String::from_utf8(batch.payload(event)?.to_vec()).unwrap())
    }

    #[test]
    fn fields_are_projected_renamed_and_set_in_this_order() {
        let settings = MapSettings {
            project: vec!["a".into(), "b c".into()],
            rename: [("b c".to_owned(), "d\"(".to_owned())].into(),
            set: [("e".to_owned(), ".a + 1".to_owned())].into(),
            ..MapSettings::default()
        };
        let given = mapped(&settings, r#"{"a": 1, "b c": 2, "x": 3}"#);
        assert_eq!(given.as_deref(), Some(r#"{"a":1,"d\"(":2,"e":2}"#));
    }

    #[test]
    fn an_expression_may_drop_an_event() {
        let settings = MapSettings { expression: Some("select(.a) | .a".into()), ..MapSettings::default() };
        assert_eq!(mapped(&settings, r#"{"a": [1.50]}"#).as_deref(), Some("[1.50]"));
        assert_eq!(mapped(&settings, "{}"), None);
        assert!(Map::build(&MapSettings::default()).is_err());
    }

    #[test]
    fn a_copy_loses_a_document_without_a_result() {
        let settings = MapSettings { expression: Some("select(.a == 1)".into()), ..MapSettings::default() };
        let map = Map::build(&settings).unwrap();
        let one = Some(r#"{"a":1}"#.to_owned());
        assert_eq!(passed(&map), [(0, one.clone()), (3, None)]);
        assert_eq!(passed(&map.with_unmatched(COPY)), [(0, one), (1, None), (3, None)]);
    }

    /// The mapped document, or why it is rejected.
    fn mapped_bson(settings: MapSettings, document: &Document) -> Result<Document, String> {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record { payload: Some(&document.to_vec().unwrap()), ..Record::default() });
        let map = Map::build(&MapSettings { format: Encoding::Bson, ..settings }).unwrap();
        TransformFactory::build(&map, 0).unwrap().apply(&mut batch).unwrap();
        match batch.events().first() {
            Some(event) => Ok(Document::from_reader(batch.payload(event).unwrap()).unwrap()),
            None => Err(batch.rejected()[0].cause.message.clone()),
        }
    }

    fn every_type() -> Document {
        let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] };
        doc! {
            "_id": bson::oid::ObjectId::from_bytes([7; 12]), "double": 2.0, "text": "x", "long": 5_i64, "int": 6,
            "far": i64::MAX, "date": bson::DateTime::from_millis(1_700_000_000_123), "old": bson::DateTime::MIN,
            "decimal": "1.50".parse::<bson::Decimal128>().unwrap(), "binary": Bson::Binary(binary), "null": Bson::Null,
            "time": bson::Timestamp { time: 1, increment: 2 }, "max": Bson::MaxKey, "yes": true,
            "deep": {"list": [1_i64, {"long": 3_i64}, 2.5], "date": bson::DateTime::from_millis(5)},
        }
    }

    fn expression(program: &str) -> MapSettings {
        MapSettings { expression: Some(program.into()), ..MapSettings::default() }
    }

    #[test]
    fn unchanged_fields_keep_their_types() {
        let document = every_type();
        assert_eq!(mapped_bson(expression("."), &document).unwrap(), document);
        let mut expected = document.clone();
        expected.insert("new", "1.50");
        expected.get_document_mut("deep").unwrap().insert("date", 9);
        let program = r#".new = .decimal["$numberDecimal"] | .deep.date = 9"#;
        assert_eq!(mapped_bson(expression(program), &document).unwrap(), expected);
    }

    #[test]
    fn bson_fields_are_selected_renamed_and_set_with_their_types() {
        let settings = MapSettings {
            project: vec!["long".into(), "deep".into(), "date".into()],
            rename: [("long".to_owned(), "count".to_owned())].into(),
            set: [("more".to_owned(), ".count + 1".to_owned()), ("when".to_owned(), ".date".to_owned())]
                .into(),
            ..MapSettings::default()
        };
        let (document, date) = (every_type(), bson::DateTime::from_millis(1_700_000_000_123));
        let expected = doc! {
            "count": 5_i64, "date": date, "deep": document.get_document("deep").unwrap().clone(), "more": 6, "when": date,
        };
        assert_eq!(mapped_bson(settings, &document).unwrap(), expected);
    }

    #[test]
    fn a_result_without_bson_form_rejects_the_event() {
        let refused = |settings, document| mapped_bson(settings, &document).unwrap_err();
        assert!(refused(expression("[1]"), doc! {}).contains("no object"));
        assert!(
            refused(expression(r#"{"$oid": "691f00000000000000000001"}"#), doc! {}).contains("no object")
        );
        assert!(refused(expression(r#".a = {"$oid": "no"}"#), doc! {}).contains("extended JSON"));
        assert!(refused(expression(".a = 9223372036854775807 * 10"), doc! {}).contains("64 bits"));
        assert!(refused(expression(r#".["a\u0000"] = 1"#), doc! {}).contains("without NUL"));
        let literal = doc! {"a": {"$oid": "691f00000000000000000001"}};
        assert!(refused(expression("."), literal).contains("reads like extended JSON"));
        let rename = [("a".to_owned(), "b".to_owned())].into();
        let settings = MapSettings { rename, ..MapSettings::default() };
        assert!(refused(settings, doc! {"a": 1, "b": 2}).contains("`b` twice"));
    }

    #[test]
    fn a_result_without_json_form_rejects_the_event() {
        for program in ["{a: nan}", "{a: [infinite]}", "-infinite", "{a: (1e308 * 10)}", "{(1): 2}"] {
            let mut batch = Batch::new(Partition::new("t", 0));
            batch.push(Record { payload: Some(b"{}"), ..Record::default() });
            let map = Map::build(&expression(program)).unwrap();
            TransformFactory::build(&map, 0).unwrap().apply(&mut batch).unwrap();
            let rejected = batch.rejected().first().map(|one| one.cause.message.clone());
            let message = rejected.unwrap_or_else(|| panic!("{program} was kept"));
            assert!(
                message.contains("without a JSON form") || message.contains("failed"),
                "{program}: {message}"
            );
        }
        assert_eq!(mapped(&expression("{a: 1.5, b: 1e3}"), "{}").as_deref(), Some(r#"{"a":1.5,"b":1e3}"#));
    }

    #[test]
    fn an_oversized_result_rejects_the_event() {
        let check = |rejected: &Batch| {
            let cause = &rejected.rejected()[0].cause;
            assert_eq!(cause.class, CauseClass::Oversize);
            assert!(cause.message.contains("more than 1048576 bytes"), "{cause}");
        };
        // The second result takes little memory because its parts are shared, but its text would be far too
        // long.
        for program in ["{a: [range(300000)]}", "{a: reduce range(60) as $i (1; [., .])}"] {
            for (format, payload) in
                [(Encoding::Json, b"{}".to_vec()), (Encoding::Bson, doc! {}.to_vec().unwrap())]
            {
                let mut batch = Batch::new(Partition::new("t", 0));
                batch.push(Record { payload: Some(&payload), ..Record::default() });
                let map = Map::build(&MapSettings { format, ..expression(program) }).unwrap();
                TransformFactory::build(&map, 0).unwrap().apply(&mut batch).unwrap();
                check(&batch);
            }
        }
    }

    #[test]
    fn a_reference_stays_a_document() {
        let document = doc! {"r": {"$ref": "c", "$id": bson::oid::ObjectId::from_bytes([1; 12]), "n": 1_i64}};
        let mut expected = document.clone();
        expected.insert("moved", doc! {"$ref": "c", "$id": bson::oid::ObjectId::from_bytes([1; 12]), "n": 1});
        assert_eq!(mapped_bson(expression(".moved = .r"), &document).unwrap(), expected);
    }
}
