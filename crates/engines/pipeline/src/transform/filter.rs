//! Keeps the events that a program selects.

use jaq_json::Val;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expression::Expression;
use super::input::Encoding;
use super::unmatched::Unmatched;
use crate::event::{Batch, Cause, Fate};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// The `filter` transform of a pipeline file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterSettings {
    /// A program of the jq language. An event is kept unless it returns `false`, `null` or no value. A tombstone is `null`. Before
    /// the sink `keyed`, tombstones pass, and a change that is not kept deletes its document.
    #[serde(rename = "where")]
    pub condition: String,
    /// The encoding of payloads.
    #[serde(default)]
    pub format: Encoding,
}

/// Keeps the events for which a program returns a value other than `false` and `null`. An event for which it
/// fails is rejected.
pub struct Filter {
    settings: FilterSettings,
    unmatched: Unmatched,
}

impl Filter {
    /// Builds the transform from its settings.
    ///
    /// # Errors
    ///
    /// If the condition is invalid.
    pub fn build(settings: FilterSettings) -> Result<Self, TransformError> {
        compile(&settings.condition)?;
        Ok(Self { settings, unmatched: Unmatched::default() })
    }

    /// The same filter, with another fate of events that it does not keep.
    #[must_use]
    pub fn with_unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched, ..self }
    }
}

fn compile(condition: &str) -> Result<Expression, TransformError> {
    Expression::compile(condition).map_err(|error| TransformError::Refused(format!("filter: {error}")))
}

impl TransformFactory for Filter {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        let (program, format) = (compile(&self.settings.condition)?, self.settings.format);
        Ok(Box::new(Running { program, format, unmatched: self.unmatched }))
    }

    fn name(&self) -> &str {
        "filter"
    }
}

struct Running {
    program: Expression,
    format: Encoding,
    unmatched: Unmatched,
}

impl Transform for Running {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| {
            let event = batch.events()[index];
            if self.unmatched.passes(batch, &event) {
                return Fate::Keep;
            }
            match self.program.run(self.format, batch, &event) {
                Ok(None | Some(Val::Null | Val::Bool(false))) => self.unmatched.fate(batch, index),
                Ok(Some(_)) => Fate::Keep,
                Err(error) => Fate::Reject(Cause::new("filter", error.class(), error.to_string())),
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;
    use crate::transform::unmatched::testing::{COPY, passed};

    #[test]
    fn unmatched_events_are_dropped_and_invalid_ones_rejected() {
        let mut batch = Batch::new(Partition::new("t", 0));
        for (offset, payload) in [r#"{"a":1}"#, r#"{"a":5}"#, "{", r#"{}"#].into_iter().enumerate() {
            let record =
                Record { offset: offset as u64, payload: Some(payload.as_bytes()), ..Record::default() };
            batch.push(record);
        }
        let filter =
            Filter::build(FilterSettings { condition: ".a > 3".into(), ..FilterSettings::default() })
                .unwrap();
        TransformFactory::build(&filter, 0).unwrap().apply(&mut batch).unwrap();
        assert_eq!(batch.events().iter().map(|event| event.offset).collect::<Vec<_>>(), [1]);
        assert_eq!(batch.rejected()[0].event.offset, 2);
        assert!(
            Filter::build(FilterSettings { condition: ")".into(), ..FilterSettings::default() }).is_err()
        );
    }

    #[test]
    fn a_copy_has_exactly_the_documents_that_match() {
        let settings = FilterSettings { condition: ".a == 1".into(), ..FilterSettings::default() };
        let filter = Filter::build(settings.clone()).unwrap().with_unmatched(COPY);
        let one = Some(r#"{"a":1}"#.to_owned());
        assert_eq!(passed(&filter), [(0, one.clone()), (1, None), (3, None)]);
        assert_eq!(passed(&Filter::build(settings).unwrap()), [(0, one)]);
    }

    #[test]
    fn a_program_sees_bson_as_extended_json() {
        let id = bson::oid::ObjectId::parse_str("691f00000000000000000001").unwrap();
        let document = bson::doc! {"_id": id, "at": bson::DateTime::from_millis(1000), "n": 7_i64};
        let mut batch = Batch::new(Partition::new("t", 0));
        let payload = document.to_vec().unwrap();
        [payload.as_slice(), &b"{}"[..]].into_iter().for_each(|payload| {
            batch.push(Record { payload: Some(payload), ..Record::default() });
        });
        let condition = r#".n == 7 and .at["$date"] < "1971" and ._id["$oid"][0:4] == "691f""#.to_owned();
        let filter = Filter::build(FilterSettings { condition, format: Encoding::Bson }).unwrap();
        TransformFactory::build(&filter, 0).unwrap().apply(&mut batch).unwrap();
        assert_eq!(batch.payload(&batch.events()[0]), Some(payload.as_slice()));
        let cause = &batch.rejected()[0].cause;
        assert!(cause.message.contains("not a BSON document"), "{cause}");
    }
}
