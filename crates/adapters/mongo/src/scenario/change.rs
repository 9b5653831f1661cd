//! Reads the change that an operation makes to a document, as typed.

use plimsoll_document::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An update such as `{$set: {seen: {$sequence: {}}}}`, or `{one_of: [...]}` with several, one of which is drawn at random for
/// each operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Template", into = "Template")]
#[schemars(with = "Template")]
pub enum Updates {
    /// The only update.
    One(Template),
    /// Several updates, each equally likely.
    OneOf(Vec<Template>),
}

/// The field that lists several updates.
const ONE_OF: &str = "one_of";

impl TryFrom<Template> for Updates {
    type Error = String;

    fn try_from(typed: Template) -> Result<Self, String> {
        let Some(several) = typed.fields().get(ONE_OF) else { return Ok(Self::One(typed)) };
        if typed.fields().len() > 1 {
            return Err("one_of: must be the only key, with a list of updates".to_owned());
        }
        let several = serde_json::from_value(several.clone());
        several.map(Self::OneOf).map_err(|error| format!("one_of: give a list of updates ({error})"))
    }
}

impl From<Updates> for Template {
    fn from(updates: Updates) -> Self {
        match updates {
            Updates::One(update) => update,
            Updates::OneOf(several) => {
                let list = several.into_iter().map(|update| update.fields().clone().into()).collect();
                serde_json::Map::from_iter([(ONE_OF.to_owned(), serde_json::Value::Array(list))]).into()
            }
        }
    }
}

/// The change of a found document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// Updates the document.
    Update(Updates),
    /// Replaces the document by its next version.
    Replace,
    /// Removes the document.
    Remove,
}

/// The document's state in the answer of an operation that changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// The state before the change.
    #[default]
    Old,
    /// The state after the change.
    New,
}
