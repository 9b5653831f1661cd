//! Builds a scenario from the options of a command, without a file.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use plimsoll_document::{Program, Settings, Template};
use plimsoll_measure::duration::Span;
use serde_json::{Map, Value, json};

use crate::Text;

mod caret;

use caret::Source;

/// The name of the scenario, and of its run directory.
pub const NAME: &str = "bench";
/// The default collection.
pub const COLLECTION_DEFAULT: &str = "plimsoll.bench";
/// The default number of documents to fill in before an operation by `_id`.
pub const DOCUMENTS_DEFAULT: u64 = 10_000;
/// The writers that fill the collection.
const FILL_WRITERS: u32 = 4;
/// The documents of one insert while the collection is filled.
const FILL_BATCH: u32 = 1_000;
/// The default document of the fill.
const DOCUMENT_DEFAULT: &str = "{n: {$number: {}}, text: {$text: {bytes: 100}}}";

/// One operation under load, as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The operation.
    pub operation: Operation,
    /// The template of the documents to fill in first.
    pub document: Option<String>,
    /// The number of documents to fill in first.
    pub documents: Option<u64>,
    /// The number of documents of one insert.
    pub batch: u32,
    /// Operations per second. `None`: each writer sends its next operation after its last answer.
    pub rate: Option<f64>,
    /// The length of the load.
    pub duration: Span,
    /// `database.collection`. `None`: [`COLLECTION_DEFAULT`].
    pub collection: Option<String>,
    /// The number of connections: the writers of a closed load, or the limit of operations in flight.
    pub connections: u32,
}

/// The operation, with its templates as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Inserts documents of this template.
    Insert(String),
    /// Finds by this filter, or one document by its `_id`.
    Find(Option<String>),
    /// Updates one document.
    Update {
        /// The operators.
        update: String,
        /// The filter. `None` selects by `_id`.
        filter: Option<String>,
    },
}

impl Options {
    /// The scenario as YAML.
    ///
    /// # Errors
    /// When a template is invalid. The error marks the place in the option.
    pub fn scenario(&self) -> anyhow::Result<Text> {
        if let Some(rate) = self.rate.filter(|rate| !rate.is_finite() || *rate <= 0.0) {
            bail!("--rate {rate}: give the operations per second, a number over 0");
        }
        let filled = self.filled()?;
        let operation = self.operation()?;
        let name = self.operation.name();
        let mut tree = Map::new();
        tree.insert("title".into(), format!("{NAME}: {name}").into());
        tree.insert("collection".into(), self.collection.as_deref().unwrap_or(COLLECTION_DEFAULT).into());
        if filled.is_none() && !self.operation.inserts() {
            tree.insert("existing".into(), "append".into());
        }
        let document = filled.as_ref().map(|(_, document)| document.clone());
        let inserted = self.inserted()?;
        tree.extend(document.or(inserted).map(|it| ("document".to_owned(), it)));
        let fill = filled.map(|(count, _)| fill(count));
        let load = json!({
            "name": "load",
            "load": {name: {"operation": operation, "arrivals": self.arrivals()}},
            "stop": {"duration": self.duration.to_string()},
        });
        tree.insert("phases".into(), fill.into_iter().chain([load]).collect());
        let text = serde_saphyr::to_string(&tree).map_err(|error| anyhow!("write the scenario: {error}"))?;
        let base = PathBuf::from(".");
        Ok(Text { name: NAME.to_owned(), origin: "the scenario of the options".to_owned(), text, base })
    }

    /// The number and the template of the documents to fill in first, if any.
    fn filled(&self) -> anyhow::Result<Option<(u64, Value)>> {
        if self.operation.inserts() || (self.documents.is_none() && !self.operation.is_by_id()) {
            return Ok(None);
        }
        let text = self.document.as_deref().unwrap_or(DOCUMENT_DEFAULT);
        let document = document(Source { option: "--document", text })?;
        Ok(Some((self.documents.unwrap_or(DOCUMENTS_DEFAULT), document)))
    }

    fn inserted(&self) -> anyhow::Result<Option<Value>> {
        let Operation::Insert(text) = &self.operation else { return Ok(None) };
        document(Source { option: "--insert", text }).map(Some)
    }

    fn operation(&self) -> anyhow::Result<Value> {
        let filter = |option, text: &Option<String>| {
            text.as_ref().map(|text| fragment(Source { option, text })).transpose()
        };
        Ok(match &self.operation {
            Operation::Insert(_) => json!({"insert": {"batch": self.batch}}),
            Operation::Find(text) => match filter("--find", text)? {
                Some(filter) => json!({"find": {"filter": filter}}),
                None => json!({"find": {}}),
            },
            Operation::Update { update, filter: text } => {
                let update = operators(Source { option: "--update", text: update })?;
                match filter("--filter", text)? {
                    Some(filter) => json!({"update": {"filter": filter, "update": update}}),
                    None => json!({"update": {"update": update}}),
                }
            }
        })
    }

    fn arrivals(&self) -> Value {
        match self.rate {
            Some(rate) => json!({"constant": {"rate": rate, "connections": self.connections}}),
            None => json!({"closed": {"writers": self.connections}}),
        }
    }
}

impl Operation {
    /// The name of the operation in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Insert(_) => "insert",
            Self::Find(_) => "find",
            Self::Update { .. } => "update",
        }
    }

    const fn inserts(&self) -> bool {
        matches!(self, Self::Insert(_))
    }

    /// Whether it selects documents of this run by `_id`.
    const fn is_by_id(&self) -> bool {
        matches!(self, Self::Find(None) | Self::Update { filter: None, .. })
    }
}

/// The phase that fills the collection.
fn fill(documents: u64) -> Value {
    json!({
        "name": "fill",
        "load": {"fill": {
            "operation": {"insert": {"batch": FILL_BATCH}},
            "arrivals": {"closed": {"writers": FILL_WRITERS}},
        }},
        "stop": {"documents": documents},
    })
}

/// A document template that compiles.
fn document(source: Source<'_>) -> anyhow::Result<Value> {
    let template = source.template()?;
    Program::compile(&template, &Settings::default()).map_err(|error| source.marked(&error))?;
    Ok(template.fields().clone().into())
}

/// A filter or an update that compiles.
fn fragment(source: Source<'_>) -> anyhow::Result<Value> {
    let template = source.template()?;
    Program::fragment(&template, &Settings::default()).map_err(|error| source.marked(&error))?;
    Ok(template.fields().clone().into())
}

/// An update whose keys are operators.
fn operators(source: Source<'_>) -> anyhow::Result<Value> {
    let template: Template = source.template()?;
    let is_list = template.fields().contains_key("one_of");
    match template.fields().keys().find(|key| !key.starts_with('$') && !is_list) {
        Some(key) => bail!(
            source.at_key(key, &format!("`{key}` is no operator: write for example {{$set: {{{key}: 1}}}}"))
        ),
        None if template.fields().is_empty() => {
            bail!(source.at_start("write for example {$set: {seen: true}}"))
        }
        None if is_list => one_of(source, &template),
        None => fragment(source),
    }
}

/// A list of updates that are sent in turns. Each update compiles.
fn one_of(source: Source<'_>, template: &Template) -> anyhow::Result<Value> {
    const WRITE: &str =
        "`one_of` takes a list of updates: write for example {one_of: [{$inc: {a: 1}}, {$inc: {b: 1}}]}";
    let listed = template.fields().get("one_of").and_then(Value::as_array);
    let Some(updates) = listed.filter(|updates| !updates.is_empty()) else {
        bail!(source.at_key("one_of", WRITE))
    };
    for (index, update) in updates.iter().enumerate() {
        let Some(fields) = update.as_object() else { bail!(source.at_key("one_of", WRITE)) };
        Program::fragment(&Template::from(fields.clone()), &Settings::default())
            .map_err(|error| source.marked_in(&format!(".one_of[{index}]"), &error))?;
    }
    Ok(template.fields().clone().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, load_text};

    fn options(operation: Operation) -> Options {
        Options {
            operation,
            document: None,
            documents: None,
            batch: 100,
            rate: Some(500.0),
            duration: Span::from_secs(10),
            collection: Some("d.c".into()),
            connections: 16,
        }
    }

    #[track_caller]
    fn plan(options: &Options) -> Plan {
        let text = options.scenario().unwrap();
        Plan::build(&load_text(text.clone(), &[], None).unwrap())
            .unwrap_or_else(|error| panic!("{error:#}: {}", text.text))
    }

    #[test]
    fn a_rate_that_is_no_number_over_0_is_refused_by_its_option() {
        for rate in [f64::NAN, f64::INFINITY, 0.0, -5.0] {
            let options = Options { rate: Some(rate), ..options(Operation::Find(None)) };
            let refused = options.scenario().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--rate {rate}: give the operations")), "{refused}");
        }
    }

    #[test]
    fn an_insert_is_one_phase_of_its_rate_its_batch_and_its_time() {
        let insert = Operation::Insert("{name: {$text: {bytes: 20}}}".into());
        let open = plan(&options(insert.clone()));
        assert_eq!((open.names(), open.phases.len()), (vec!["insert".to_owned()], 1));
        assert_eq!(open.phases[0].loads[0].arrivals.peak(), Some(500.0));
        assert_eq!(open.phases[0].stop.duration, Some(Span::from_secs(10)));
        assert_eq!(open.documents_per_operation(), 100.0);
        let closed = plan(&Options { rate: None, connections: 3, ..options(insert) });
        assert!(!closed.phases[0].loads[0].arrivals.is_open());
        assert_eq!(closed.connections(), 3);
    }

    #[test]
    fn an_operation_by_id_gets_documents_first_and_one_by_filter_only_on_request() {
        let update = |filter: Option<&str>| Operation::Update {
            update: "{$set: {seen: {$number: {}}}}".into(),
            filter: filter.map(str::to_owned),
        };
        for (operation, documents, filled) in [
            (Operation::Find(None), None, Some(DOCUMENTS_DEFAULT)),
            (Operation::Find(None), Some(7), Some(7)),
            (Operation::Find(Some("{n: {$int: {max: 9}}}".into())), None, None),
            (Operation::Find(Some("{n: 1}".into())), Some(5), Some(5)),
            (update(None), None, Some(DOCUMENTS_DEFAULT)),
            (update(Some("{n: 1}")), None, None),
        ] {
            let options = Options { documents, ..options(operation) };
            let plan = plan(&options);
            let first = (plan.phases.len() == 2).then(|| plan.phases[0].stop.documents).flatten();
            assert_eq!(first, filled, "{options:?}");
            let text = options.scenario().unwrap().text;
            assert_eq!(text.contains("existing: append"), filled.is_none(), "{text}");
        }
    }

    #[test]
    fn an_invalid_template_is_marked_in_its_option() {
        let update = |update: &str| Operation::Update { update: update.into(), filter: None };
        for (operation, said, line) in [
            (
                Operation::Insert("{name: {$txt: {bytes: 20}}}".into()),
                "--insert: document.name: unknown generator \"$txt\"; did you mean \"$text\"?",
                "  {name: {$txt: {bytes: 20}}}\n          ^",
            ),
            (
                Operation::Insert("{a: {b: 1}, b: {$int: {mni: 2}}}".into()),
                "document.b.$int: unknown setting \"mni\"",
                "  {a: {b: 1}, b: {$int: {mni: 2}}}\n                         ^",
            ),
            (
                Operation::Insert("{a: [1, {$text: {bytes: many}}]}".into()),
                "expected a positive whole number",
                "  {a: [1, {$text: {bytes: many}}]}\n                          ^",
            ),
            (
                Operation::Insert("{a.b: {_id: 1}, _id: 5}".into()),
                "Plimsoll writes its receipt to _id",
                "  {a.b: {_id: 1}, _id: 5}\n                       ^",
            ),
            (Operation::Find(Some("{n: {$gt: {$it: {}}".into())), "--find: ", "  {n: {$gt: {$it: {}}\n"),
            (
                update("{$set: {a: {$int: {min: x}}}}"),
                "--update: $set.a.$int.min: expected",
                "  {$set: {a: {$int: {min: x}}}}\n                          ^",
            ),
            (
                update("{$set: {a: 99223372036854775808}}"),
                "--update: a whole number has at most 64 bits",
                "  {$set: {a: 99223372036854775808}}\n             ^",
            ),
            (update("{seen: 1}"), "`seen` is no operator", "  {seen: 1}\n   ^"),
            (update("[1]"), "--update: ", "  [1]\n  ^"),
            (update("{one_of: 5}"), "`one_of` takes a list of updates", "  {one_of: 5}\n   ^"),
            (
                update("{one_of: [{$set: {a: 1}}, {$inc: {a: {$int: {mn: 1}}}}]}"),
                "--update: one_of[1].$inc.a.$int: unknown setting \"mn\"",
                "  {one_of: [{$set: {a: 1}}, {$inc: {a: {$int: {mn: 1}}}}]}\n                                               ^",
            ),
            (
                Operation::Insert("{a: 1, a: 2}".into()),
                "--insert: the key `a` appears twice",
                "  {a: 1, a: 2}\n         ^",
            ),
            (Operation::Insert(" ".into()), "--insert: the text is empty", ""),
        ] {
            let error = options(operation).scenario().unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(line), "{said}\n{error}");
        }
    }

    #[test]
    fn no_message_has_words_of_a_library() {
        for text in
            ["{a: [}", "{a: 1", "[1]", "x", "{a: 1, a: 2}", "{a: *b}", "{a: !!int x}", "{a: 'x}", "{a: .nan}"]
        {
            let error = options(Operation::Insert(text.into())).scenario().unwrap_err().to_string();
            for word in ["mapping", "Policy", "u64", "bracket '", "scalar", "at line", "configured", "Option"]
            {
                assert!(!error.contains(word), "{text}: {error}");
            }
            assert!(error.starts_with("--insert: ") && error.ends_with('^'), "{text}: {error}");
        }
    }

    #[test]
    fn a_secret_in_an_option_is_not_repeated() {
        let text = "{url: 'mongodb://ann:swordfish@h', a: {$txt: 1}}";
        let error = options(Operation::Insert(text.into())).scenario().unwrap_err().to_string();
        assert!(error.contains("$txt") && !error.contains("swordfish"), "{error}");
        let text = "{url: {$text: 'mongodb://ann:swordfish@h'}}";
        let error = options(Operation::Insert(text.into())).scenario().unwrap_err().to_string();
        assert!(error.contains("--insert: invalid") && !error.contains("swordfish"), "{error}");
    }
}
