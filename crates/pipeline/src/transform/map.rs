//! Makes another payload of a payload.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expression::Expression;
use crate::event::{Batch, Cause, CauseClass, Fate};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// What becomes of a payload, as typed: what is given is done in this order.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MapSettings {
    /// The fields that stay; all of them if left out.
    pub project: Vec<String>,
    /// New names of fields: `old: new`.
    pub rename: BTreeMap<String, String>,
    /// Fields and the programs of the jq language that give their values.
    pub set: BTreeMap<String, String>,
    /// A program of the jq language that gives the payload. What it gives nothing for is left out.
    pub expression: Option<String>,
}

/// Makes another payload of a payload; an event that it cannot read is condemned.
pub struct Map {
    program: String,
}

impl Map {
    /// Makes it from its settings.
    ///
    /// # Errors
    ///
    /// If there is nothing to do, or a program is none.
    pub fn build(settings: &MapSettings) -> Result<Self, TransformError> {
        let program = program(settings);
        if program.is_empty() {
            let words = "map: say what to do: `project`, `rename`, `set` or `expression`";
            return Err(TransformError::Refused(words.into()));
        }
        compile(&program)?;
        Ok(Self { program })
    }
}

fn compile(program: &str) -> Result<Expression, TransformError> {
    Expression::compile(program).map_err(|error| TransformError::Refused(format!("map: {error}")))
}

/// The one program that does all of it.
fn program(settings: &MapSettings) -> String {
    let mut steps = Vec::new();
    if !settings.project.is_empty() {
        let names: Vec<_> = settings.project.iter().map(|name| quoted(name)).collect();
        steps.push(format!("with_entries(select(.key as $name | any(({}); . == $name)))", names.join(", ")));
    }
    if !settings.rename.is_empty() {
        let pairs: Vec<_> =
            settings.rename.iter().map(|(old, new)| format!("{}: {}", quoted(old), quoted(new))).collect();
        steps.push(format!("with_entries(.key |= ({{{}}}[.] // .))", pairs.join(", ")));
    }
    steps.extend(settings.set.iter().map(|(field, value)| format!(".[{}] = ({value})", quoted(field))));
    steps.extend(settings.expression.clone());
    steps.join(" | ")
}

/// A text of the jq language, which writes them as JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl TransformFactory for Map {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Running(compile(&self.program)?)))
    }

    fn name(&self) -> &str {
        "map"
    }
}

struct Running(Expression);

impl Transform for Running {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| match self.0.run(batch, &batch.events()[index]) {
            Ok(None) => Fate::Drop,
            Ok(Some(value)) => {
                let payload = batch.keep(value.to_string().as_bytes());
                batch.events_mut()[index].payload = payload;
                Fate::Keep
            }
            Err(error) => Fate::Condemn(Cause::new("map", CauseClass::Invalid, error.to_string())),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::place::Partition;

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
            expression: None,
        };
        let given = mapped(&settings, r#"{"a": 1, "b c": 2, "x": 3}"#);
        assert_eq!(given.as_deref(), Some(r#"{"a":1,"d\"(":2,"e":2}"#));
    }

    #[test]
    fn an_expression_may_leave_an_event_out() {
        let settings = MapSettings { expression: Some("select(.a) | .a".into()), ..MapSettings::default() };
        assert_eq!(mapped(&settings, r#"{"a": [1.50]}"#).as_deref(), Some("[1.50]"));
        assert_eq!(mapped(&settings, "{}"), None);
        assert!(Map::build(&MapSettings::default()).is_err());
    }
}
