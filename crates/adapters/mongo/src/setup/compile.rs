//! Compiles typed operations into commands, and refuses invalid operations with the place of the error.

use bson::Document;
use plimsoll_document::{EXPONENT_MAX, IdForm, Program, Settings, Template};

use super::command::{Change, Command, FindShape, Pipeline, Selection};
use super::{BATCH_MAX, Context, Error, LIMIT_MAX, LISTS_MAX, START_MS, STEPS_MAX};
use crate::keys::Keys;
use crate::scenario::{
    self, Aggregate, Client, Count, Delete, Find, FindAndModify, Insert, Limit, ListAppend, Operation, Range,
    ReadModifyWrite, Replace, Returns, Section, Stamp, Transaction, Update, Updates, W,
};

/// Stages of a pipeline that write.
const WRITING_STAGES: [&str; 2] = ["$out", "$merge"];

/// Compiles one operation of the plan.
pub(super) fn command(
    name: &str,
    operation: &Operation,
    section: &Section,
    context: Context<'_>,
) -> Result<Command, Error> {
    if section.id == IdForm::Own && operation.needs_receipts() {
        return Err(Error::OwnIds(name.to_owned()));
    }
    if section.stamp == Stamp::Off && operation.replaces() {
        return Err(Error::NoVersions(name.to_owned()));
    }
    let compiler = Compiler { name, section, context };
    compiler.command(operation)
}

/// One operation's place and context.
#[derive(Clone, Copy)]
struct Compiler<'a> {
    name: &'a str,
    section: &'a Section,
    context: Context<'a>,
}

impl Compiler<'_> {
    fn command(&self, operation: &Operation) -> Result<Command, Error> {
        match operation {
            Operation::Insert(insert) => self.insert(insert),
            Operation::Find(find) => self.find(find),
            Operation::Range(range) => self.range(range),
            Operation::Count(count) => self.count(count),
            Operation::Aggregate(aggregate) => self.aggregate(aggregate),
            Operation::Update(update) => self.update(update),
            Operation::Replace(Replace { keys, .. }) => {
                Ok(Command::Replace { selection: Selection::Receipt(self.keys(*keys)?) })
            }
            Operation::Delete(Delete { keys, filter, .. }) => {
                Ok(Command::Delete { selection: self.selection(*keys, filter.as_ref())? })
            }
            Operation::FindAndModify(find) => self.find_and_modify(find),
            Operation::ReadModifyWrite(read) => self.read_modify_write(read),
            Operation::Transaction(transaction) => self.transaction(transaction),
            Operation::ListAppend(typed) => self.list_append(typed),
        }
    }

    fn insert(&self, insert: &Insert) -> Result<Command, Error> {
        if insert.batch == 0 || insert.batch > BATCH_MAX {
            return Err(Error::Batch { operation: self.name.to_owned(), batch: insert.batch });
        }
        Ok(Command::Insert { batch: insert.batch, ordered: insert.ordered })
    }

    fn find(&self, find: &Find) -> Result<Command, Error> {
        let shape = FindShape {
            projection: self.constant("projection", find.projection.as_ref())?,
            sort: self.constant("sort", find.sort.as_ref())?,
            limit: find.limit,
        };
        Ok(Command::Find { selection: self.selection(find.keys, find.filter.as_ref())?, shape })
    }

    fn range(&self, range: &Range) -> Result<Command, Error> {
        let (min, max) = match range.limit {
            Limit::Exactly(limit) => (limit, limit),
            Limit::Within { min, max } => (min, max),
        };
        if min == 0 || max < min || max > LIMIT_MAX {
            return Err(Error::Limit { operation: self.name.to_owned(), min, max });
        }
        let shape = FindShape {
            projection: self.constant("projection", range.projection.as_ref())?,
            ..FindShape::default()
        };
        let selection = Selection::Receipt(self.keys(range.keys)?);
        Ok(Command::Range { selection, limit: (min, max), shape })
    }

    /// The pipeline for `countDocuments` from the drivers' CRUD specification.
    fn count(&self, count: &Count) -> Result<Command, Error> {
        let matched = self.program(&wrapped("$match", count.filter.fields().clone().into()))?;
        let sum = serde_json::json!({"_id": 1, "n": {"$sum": 1}});
        let counted = self.program(&wrapped("$group", sum))?;
        Ok(Command::Count(Pipeline { stages: vec![matched, counted], allow_disk_use: None }))
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<Command, Error> {
        for (index, stage) in aggregate.pipeline.iter().enumerate() {
            let place = || format!("{}.pipeline.{index}", self.name);
            let mut names = stage.fields().keys();
            match (names.next(), names.next()) {
                (Some(name), None) if WRITING_STAGES.contains(&name.as_str()) => {
                    return Err(Error::StageWrites { place: place(), stage: name.clone() });
                }
                (Some(name), None) if name.starts_with('$') => {}
                _ => return Err(Error::Stage(place())),
            }
        }
        let stages = aggregate.pipeline.iter().map(|stage| self.program(stage));
        Ok(Command::Aggregate(Pipeline {
            stages: stages.collect::<Result<_, _>>()?,
            allow_disk_use: aggregate.allow_disk_use,
        }))
    }

    fn update(&self, update: &Update) -> Result<Command, Error> {
        if update.multi && update.filter.is_none() {
            return Err(Error::MultiReceipt(self.name.to_owned()));
        }
        Ok(Command::Update {
            selection: self.selection(update.keys, update.filter.as_ref())?,
            update: self.updates(&update.update)?,
            multi: update.multi,
            upsert: update.upsert,
        })
    }

    fn find_and_modify(&self, find: &FindAndModify) -> Result<Command, Error> {
        if self.section.write_concern.w == Some(W::Number(0)) {
            return Err(Error::UnacknowledgedFind(self.name.to_owned()));
        }
        if find.change == scenario::Change::Replace && find.filter.is_some() {
            return Err(Error::ReplaceFiltered(self.name.to_owned()));
        }
        if find.change == scenario::Change::Remove && find.returns == Returns::New {
            return Err(Error::NothingNew(self.name.to_owned()));
        }
        let selection = self.selection(find.keys, find.filter.as_ref())?;
        Ok(Command::FindAndModify { selection, change: self.change(&find.change)?, returns: find.returns })
    }

    fn read_modify_write(&self, read: &ReadModifyWrite) -> Result<Command, Error> {
        if read.change == scenario::Change::Remove {
            return Err(Error::WritesNothing(self.name.to_owned()));
        }
        let selection = Selection::Receipt(self.keys(read.keys)?);
        Ok(Command::ReadModifyWrite { selection, change: self.change(&read.change)? })
    }

    fn transaction(&self, transaction: &Transaction) -> Result<Command, Error> {
        if transaction.operations.is_empty() {
            return Err(Error::EmptyTransaction(self.name.to_owned()));
        }
        if self.section.write_concern.w == Some(W::Number(0)) {
            return Err(Error::UnacknowledgedTransaction(self.name.to_owned()));
        }
        let steps = transaction.operations.iter().enumerate().map(|(index, operation)| {
            let name = format!("{}.operations.{index}", self.name);
            let compiler = Compiler { name: &name, ..*self };
            compiler.step(operation)
        });
        Ok(Command::Transaction { steps: steps.collect::<Result<_, _>>()? })
    }

    fn list_append(&self, typed: &ListAppend) -> Result<Command, Error> {
        let ListAppend { steps, lists, .. } = *typed;
        if !(1..=STEPS_MAX).contains(&steps) || !(2..=LISTS_MAX).contains(&lists) {
            return Err(Error::Lists { operation: self.name.to_owned(), steps, lists });
        }
        if self.section.client == Client::Driver {
            return Err(Error::ListsOfDriver(self.name.to_owned()));
        }
        if self.section.write_concern.w == Some(W::Number(0)) {
            return Err(Error::UnacknowledgedTransaction(self.name.to_owned()));
        }
        Ok(Command::ListAppend { steps, lists })
    }

    /// One operation of a transaction.
    fn step(&self, operation: &Operation) -> Result<Command, Error> {
        self.check_step(operation)?;
        let command = self.command(operation)?;
        match &command {
            Command::Update { upsert: true, .. } => Err(Error::StepUpsert(self.name.to_owned())),
            Command::Insert { .. }
            | Command::Find { .. }
            | Command::Update { .. }
            | Command::Replace { .. }
            | Command::Delete { .. } => Ok(command),
            _ => Err(Error::Step(self.name.to_owned())),
        }
    }

    /// Refuses concerns and a read preference of one operation. The concerns belong to the whole transaction, which reads from
    /// the primary.
    fn check_step(&self, operation: &Operation) -> Result<(), Error> {
        let own = [
            ("read_concern", operation.read_concern().is_some()),
            ("write_concern", operation.write_concern().is_some()),
        ];
        if let Some((key, _)) = own.iter().find(|(_, is_set)| *is_set) {
            return Err(Error::StepConcern(self.name.to_owned(), key));
        }
        match operation.read_preference() {
            Some(_) => Err(Error::StepReadPreference(self.name.to_owned())),
            None => Ok(()),
        }
    }

    fn change(&self, change: &scenario::Change) -> Result<Change, Error> {
        Ok(match change {
            scenario::Change::Update(updates) => Change::Update(self.updates(updates)?),
            scenario::Change::Replace => Change::Replace,
            scenario::Change::Remove => Change::Remove,
        })
    }

    fn updates(&self, updates: &Updates) -> Result<Vec<Program>, Error> {
        let templates = match updates {
            Updates::One(template) => std::slice::from_ref(template),
            Updates::OneOf(several) => several.as_slice(),
        };
        let sound = |template: &Template| {
            let mut names = template.fields().keys().peekable();
            names.peek().is_some() && names.all(|name| name.starts_with('$'))
        };
        if templates.is_empty() || !templates.iter().all(sound) {
            return Err(Error::NoUpdate(self.name.to_owned()));
        }
        templates.iter().map(|template| self.program(template)).collect()
    }

    fn selection(&self, keys: Option<scenario::Keys>, filter: Option<&Template>) -> Result<Selection, Error> {
        match (keys, filter) {
            (Some(_), Some(_)) => Err(Error::KeysAndFilter(self.name.to_owned())),
            (keys, None) => Ok(Selection::Receipt(self.keys(keys.unwrap_or_default())?)),
            (None, Some(filter)) => Ok(Selection::Filter(self.program(filter)?)),
        }
    }

    fn keys(&self, keys: scenario::Keys) -> Result<Keys, Error> {
        Keys::of(keys).ok_or_else(|| {
            let exponent = if let scenario::Keys::Zipf { exponent } = keys { exponent } else { f64::NAN };
            Error::Exponent { operation: self.name.to_owned(), exponent, max: EXPONENT_MAX }
        })
    }

    fn program(&self, template: &Template) -> Result<Program, Error> {
        operator_program(self.name, template, self.context)
    }

    fn constant(&self, field: &str, template: Option<&Template>) -> Result<Option<Document>, Error> {
        constant(self.name, field, template, self.context)
    }
}

/// A document with MongoDB's operators and with generators, without `_id` or stamp.
fn operator_program(name: &str, template: &Template, context: Context<'_>) -> Result<Program, Error> {
    let settings = Settings { seed: context.seed, start_ms: START_MS, ..Settings::default() };
    let refuse = |fault| Error::Part { operation: name.to_owned(), fault };
    Program::fragment(template, &settings).map_err(refuse)
}

/// The key of an index: constants, at least one field.
///
/// # Errors
/// When it contains a generator, or is empty.
pub fn index_key(name: &str, typed: &Template, context: Context<'_>) -> Result<Document, Error> {
    let key = constant(name, "indexes", Some(typed), context)?.unwrap_or_default();
    if key.is_empty() {
        Err(Error::NotConstant(format!("{name}.indexes: an index needs a field")))
    } else {
        Ok(key)
    }
}

/// A document without generators, the same for every number.
pub(crate) fn constant(
    name: &str,
    field: &str,
    template: Option<&Template>,
    context: Context<'_>,
) -> Result<Option<Document>, Error> {
    let Some(template) = template else { return Ok(None) };
    let program = operator_program(name, template, context)?;
    let fail = || Error::NotConstant(format!("{name}.{field}"));
    if !program.is_constant() {
        return Err(fail());
    }
    let mut bytes = Vec::new();
    program.encode(0, &Default::default(), &mut bytes);
    Document::from_reader(bytes.as_slice()).map(Some).map_err(|_| fail())
}

/// A template of one field.
fn wrapped(name: &str, value: serde_json::Value) -> Template {
    serde_json::Map::from_iter([(name.to_owned(), value)]).into()
}

#[cfg(test)]
mod tests {
    use crate::testing::setup;

    const SECTION: &str = r#"{"collection": "d.c", "document": {"a": 1}}"#;

    fn check(section: &str, operation: &str, part: &str) {
        let message = setup(section, &[("op", operation)]).unwrap_err().to_string();
        assert!(message.contains(part), "{operation}: {message}");
    }

    #[test]
    fn an_invalid_operation_is_refused_with_its_place_and_a_remedy() {
        for (operation, part) in [
            (r#"{"find": {"keys": "latest", "filter": {"n": 1}}}"#, "op.keys: the filter says which"),
            (
                r#"{"replace": {"keys": {"zipf": {"exponent": 0}}}}"#,
                "op.keys.zipf.exponent: 0; give a number over 0",
            ),
            (r#"{"range": {"limit": 0}}"#, "op.limit: from 0 to 0 documents; give numbers from 1"),
            (r#"{"range": {"limit": {"min": 5, "max": 4}}}"#, "op.limit: from 5 to 4"),
            (r#"{"aggregate": {"pipeline": [{"$match": {}}, {"$out": "x"}]}}"#, "op.pipeline.1: $out writes"),
            (r#"{"aggregate": {"pipeline": [{"$merge": {"into": "x"}}]}}"#, "op.pipeline.0: $merge writes"),
            (r#"{"aggregate": {"pipeline": [{"n": 1}]}}"#, "op.pipeline.0: a stage is one operator"),
            (r#"{"update": {"update": {"n": 1}}}"#, "op.update: give operators such as $set"),
            (r#"{"update": {"update": {"one_of": []}}}"#, "op.update: give operators such as $set"),
            (
                r#"{"find_and_modify": {"filter": {}, "change": "replace"}}"#,
                "op.change: a replacement needs a receipt",
            ),
            (
                r#"{"find_and_modify": {"change": "remove", "returns": "new"}}"#,
                "op.returns: remove leaves no",
            ),
            (r#"{"read_modify_write": {"change": "remove"}}"#, "op.change: remove is unsupported"),
            (r#"{"transaction": {"operations": []}}"#, "op.operations: empty; list insert"),
            (r#"{"list_append": {"steps": 0}}"#, "op: 0 steps on 8 lists; give from 1 to 16 steps"),
            (
                r#"{"list_append": {"lists": 1}}"#,
                "op: 4 steps on 1 lists; give from 1 to 16 steps, and from 2",
            ),
            (
                r#"{"transaction": {"operations": [{"find": {}}, {"count": {}}]}}"#,
                "op.operations.1: only insert, find, update, replace and delete",
            ),
            (
                r#"{"transaction": {"operations": [{"update": {"update": {"$set": {"a": 1}}, "upsert": true}}]}}"#,
                "op.operations.0.upsert: an upsert cannot be part of a transaction",
            ),
            (
                r#"{"transaction": {"operations": [{"find": {"read_concern": "local"}}]}}"#,
                "op.operations.0.read_concern: a transaction has one",
            ),
            (
                r#"{"transaction": {"operations": [{"find": {}}, {"insert": {"write_concern": {"w": 1}}}]}}"#,
                "op.operations.1.write_concern: a transaction has one",
            ),
            (
                r#"{"transaction": {"operations": [{"find": {"read_preference": "secondary"}}]}}"#,
                "op.operations.0.read_preference: a transaction reads from the primary",
            ),
        ] {
            check(SECTION, operation, part);
        }
    }

    #[test]
    fn an_operation_that_the_section_does_not_allow_is_refused() {
        let unstamped = r#"{"collection": "d.c", "document": {"a": 1}, "stamp": false}"#;
        check(
            unstamped,
            r#"{"read_modify_write": {"change": "replace"}}"#,
            "op: `replace` stores the version",
        );
        let own = r#"{"collection": "d.c", "document": {"_id": 1}, "id": "own"}"#;
        check(own, r#"{"range": {"limit": 5}}"#, "op: documents with their own ids");
        let unanswered = r#"{"collection": "d.c", "document": {"a": 1}, "write_concern": {"w": 0}}"#;
        check(unanswered, r#"{"find_and_modify": {"change": "remove"}}"#, "op: the server answers even");
        let transaction = r#"{"transaction": {"operations": [{"insert": {}}]}}"#;
        check(unanswered, transaction, "op: a transaction cannot be committed with w: 0");
        let user = r#"{"collection": "d.c", "document": {"_id": "mine"}, "id": "user"}"#;
        check(user, r#"{"find": {}}"#, "document._id: Plimsoll writes its receipt to _id");
    }

    #[test]
    fn only_a_removal_without_a_receipt_removes_any_document() {
        let removes = |operation| setup(SECTION, &[("op", operation)]).unwrap().removes_any;
        assert!(!removes(r#"{"delete": {}}"#) && !removes(r#"{"find_and_modify": {"change": "remove"}}"#));
        assert!(removes(r#"{"delete": {"filter": {"a": 1}}}"#));
        assert!(removes(r#"{"transaction": {"operations": [{"delete": {"filter": {}}}]}}"#));
    }
}
