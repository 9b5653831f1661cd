//! Shows the command of an operation with types in place of values.

use std::fmt;

use plimsoll_element::{Element, kind, valid};
use plimsoll_wire::{W, WriteConcern};

use super::{OperationBuilder, OperationTarget};
use crate::setup::{Command, Pipeline, Purpose};

/// Every operation of the plan sends the same shape, so the first document stands for all.
const FIRST: u64 = 0;

/// Displays a command, such as `{insert: "c", documents: [{_id: objectId, n: int} × 100], ordered: false}`.
pub(super) struct SampleCommand<'a> {
    pub builder: &'a OperationBuilder,
    pub command: &'a Command,
    pub write_concern: Option<&'a WriteConcern>,
}

/// A BSON document with types in place of values.
struct Shape<'a>(&'a [u8]);

impl fmt::Display for SampleCommand<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collection = &self.builder.setup.namespace.collection;
        match self.command {
            Command::Insert { batch, ordered } => {
                let document = self.bytes(|out| self.builder.write_document(out, FIRST));
                let documents = Repeated { document: &document, count: *batch };
                write!(out, "{{insert: {collection:?}, documents: {documents}, ordered: {ordered}")?;
            }
            Command::Find { .. } => write!(out, "{{find: {collection:?}, filter: {}", Shape(&self.filter()))?,
            Command::Range { .. } => {
                let target = OperationTarget::default();
                let filter = self.bytes(|out| self.builder.write_lower_bound(out, target));
                write!(out, "{{find: {collection:?}, filter: {}, sort: {{_id: 1}}", Shape(&filter))?;
            }
            Command::Count(pipeline) | Command::Aggregate(pipeline) => {
                write!(out, "{{aggregate: {collection:?}, pipeline: ")?;
                self.stages(out, pipeline)?;
            }
            Command::Transaction { steps, .. } => {
                out.write_str("transaction: [")?;
                for (index, command) in steps.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(out, "{comma}{}", SampleCommand { command, ..*self })?;
                }
                return out.write_str("]");
            }
            Command::ListAppend { .. } => write!(
                out,
                "{{update: {collection:?}, updates: [{{q: {{_id: string}}, u: {{$push: {{a: long}}}}, upsert: true}}]"
            )?,
            Command::FindAndModify { .. } => {
                write!(out, "{{findAndModify: {collection:?}, query: {}", Shape(&self.filter()))?;
                self.change(out, "update")?;
            }
            Command::ReadModifyWrite { .. } => {
                write!(out, "{{find: {collection:?}, filter: {}}}, then ", Shape(&self.filter()))?;
                self.statement(out, collection)?;
            }
            Command::Update { .. } | Command::Replace { .. } | Command::Delete { .. } => {
                self.statement(out, collection)?;
            }
        }
        if let Some(concern) = self.write_concern.filter(|_| self.command.writes()) {
            write_concern(out, concern)?;
        }
        out.write_str("}")
    }
}

impl SampleCommand<'_> {
    fn bytes(&self, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }

    fn filter(&self) -> Vec<u8> {
        let target = OperationTarget { number: FIRST, document: None };
        self.bytes(|out| self.builder.write_filter(out, self.command, target))
    }

    /// An update, a replacement or a deletion.
    fn statement(&self, out: &mut fmt::Formatter<'_>, collection: &str) -> fmt::Result {
        let filter = self.filter();
        if self.command.purpose() == Purpose::Remove {
            return write!(out, "{{delete: {collection:?}, deletes: [{{q: {}, limit: 1}}]", Shape(&filter));
        }
        write!(out, "{{update: {collection:?}, updates: [{{q: {}", Shape(&filter))?;
        self.change(out, "u")?;
        out.write_str("}]")
    }

    fn change(&self, out: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
        if self.command.purpose() == Purpose::Remove {
            return out.write_str(", remove: true");
        }
        // A command without updates is a replacement by receipt. Such a command always has a source of documents.
        let change = self.bytes(|out| match self.command.updates() {
            Some(_) => self.builder.write_update(out, self.command, OperationTarget::default()),
            None => self.builder.write_document(out, FIRST),
        });
        write!(out, ", {key}: {}", Shape(&change))
    }

    fn stages(&self, out: &mut fmt::Formatter<'_>, pipeline: &Pipeline) -> fmt::Result {
        let identity = self.builder.identity(FIRST);
        out.write_str("[")?;
        for (index, stage) in pipeline.stages.iter().enumerate() {
            let stage = self.bytes(|out| stage.encode(FIRST, &identity, out));
            write!(out, "{}{}", if index > 0 { ", " } else { "" }, Shape(&stage))?;
        }
        out.write_str("]")
    }
}

/// The documents of an insert: one shape and their number.
struct Repeated<'a> {
    document: &'a [u8],
    count: u32,
}

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "[{}", Shape(self.document))?;
        if self.count > 1 {
            write!(out, " × {}", self.count)?;
        }
        out.write_str("]")
    }
}

impl fmt::Display for Shape<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("{")?;
        for (index, element) in valid(self.0).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(out, "{comma}{}: ", String::from_utf8_lossy(element.key))?;
            value(out, &element)?;
        }
        out.write_str("}")
    }
}

/// Writes a document's fields, an array's length and first item, and the type of any other value.
fn value(out: &mut fmt::Formatter<'_>, element: &Element<'_>) -> fmt::Result {
    if let Some(document) = element.as_document() {
        return write!(out, "{}", Shape(document));
    }
    let Some(array) = element.as_array() else { return out.write_str(type_name(element.kind)) };
    let Some(first) = valid(array).next() else { return out.write_str("[]") };
    out.write_str("[")?;
    value(out, &first)?;
    match valid(array).count() {
        1 => out.write_str("]"),
        count => write!(out, " × {count}]"),
    }
}

/// The type's name as in the server's `$type`.
const fn type_name(kind: u8) -> &'static str {
    match kind {
        kind::DOUBLE => "double",
        kind::STRING => "string",
        kind::BINARY => "binData",
        kind::OBJECT_ID => "objectId",
        kind::BOOLEAN => "bool",
        kind::DATE => "date",
        kind::NULL => "null",
        kind::INT32 => "int",
        kind::INT64 => "long",
        kind::DECIMAL => "decimal",
        _ => "value",
    }
}

/// A write concern is a setting, so its values are shown.
fn write_concern(out: &mut fmt::Formatter<'_>, concern: &WriteConcern) -> fmt::Result {
    match &concern.w {
        W::Number(number) => write!(out, ", writeConcern: {{w: {number}")?,
        W::Majority => out.write_str(", writeConcern: {w: \"majority\"")?,
        W::Tag(tag) => write!(out, ", writeConcern: {{w: {tag:?}")?,
    }
    if let Some(journal) = concern.j {
        write!(out, ", j: {journal}")?;
    }
    if let Some(timeout_ms) = concern.timeout_ms {
        write!(out, ", wtimeout: {timeout_ms}")?;
    }
    out.write_str("}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_ledger::Allocation;

    use super::*;
    use crate::testing::setup;
    use crate::worker_ledger::WorkerLedger;

    #[test]
    fn commands_show_types_in_place_of_values() {
        let scenario = r#"{"collection": "d.c", "write_concern": {"w": "most"},
            "document": {"n": {"$number": {}}, "t": ["a", "b"], "sub": {"secret": "word"}}}"#;
        let operations = [
            ("insert", r#"{"insert": {"batch": 3, "ordered": false}}"#),
            ("find", r#"{"find": {}}"#),
            ("update", r#"{"update": {"filter": {"n": 4711}, "update": {"$set": {"t": "hidden"}}}}"#),
            ("delete", r#"{"delete": {}}"#),
        ];
        let setup = Arc::new(setup(scenario, &operations).unwrap());
        let ledger = WorkerLedger::new(Allocation::new(10, 1, None).unwrap(), 0, None);
        let builder = OperationBuilder::new(setup.clone(), ledger);
        let write_concern = setup.concerns[0].write.as_ref();
        let shown = |command| SampleCommand { builder: &builder, command, write_concern }.to_string();
        let shown: Vec<_> = setup.commands.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "{insert: \"c\", documents: [{_id: objectId, n: long, t: [string × 2], sub: {secret: string}, \
                 _p: long} × 3], ordered: false, writeConcern: {w: \"most\"}}",
                "{find: \"c\", filter: {_id: objectId}}",
                "{update: \"c\", updates: [{q: {n: int}, u: {$set: {t: string}}}], writeConcern: {w: \"most\"}}",
                "{delete: \"c\", deletes: [{q: {_id: objectId}, limit: 1}], writeConcern: {w: \"most\"}}",
            ]
        );
    }
}
