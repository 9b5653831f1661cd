//! Recognises the counter that a plan increments, and counts the increments that a stored document shows.

use bson::{Bson, Document};
use plimsoll_document::{STAMP_FIELD, Template};
use plimsoll_element::{Element, find, kind};

use super::{Context, constant};
use crate::scenario::{self, FindAndModify, Operation, ReadModifyWrite, Update, Updates};

/// A field that every change of a plan increments by the same step, so that the field of each document shows how many increments the
/// server applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    field: String,
    step: i64,
}

/// The content of a document besides its counter does not follow from its receipt, or no number of increments explains the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs;

impl Counter {
    /// The counter of a plan: all operations that change documents increment the same field of documents that they name by receipt.
    pub(super) fn of(operations: &[(String, Operation)], context: Context<'_>) -> Option<Self> {
        let changes =
            operations.iter().map(|(_, operation)| operation).filter(|it| it.touches() && !removes(it));
        let mut counters = changes.map(|operation| Self::of_update(update(operation)?, context));
        let first = counters.next()??;
        counters.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// An update `{$inc: {field: step}}` with a constant step.
    fn of_update(update: &Template, context: Context<'_>) -> Option<Self> {
        let update = constant("", "", Some(update), context).ok()??;
        let (operator, fields) = only(&update)?;
        let (field, step) = only(fields.as_document()?)?;
        let step = match step {
            Bson::Int32(step) => i64::from(*step),
            Bson::Int64(step) => *step,
            _ => return None,
        };
        let is_plain = !field.contains('.') && !["_id", STAMP_FIELD].contains(&field.as_str());
        (operator == "$inc" && is_plain && step != 0).then(|| Self { field: field.clone(), step })
    }

    /// The number of increments that a stored document shows, given the inserted document. `None` if the inserted field is no integer.
    ///
    /// # Errors
    /// [`Differs`] if increments do not explain the stored document.
    pub fn shown(&self, inserted: &[u8], stored: &[u8]) -> Result<Option<i64>, Differs> {
        let (before, now) = (find(inserted, self.field.as_bytes()), find(stored, self.field.as_bytes()));
        if !same_besides((inserted, before), (stored, now)) {
            return Err(Differs);
        }
        let base = match before.map(integer) {
            Some(None) => return Ok(None),
            Some(Some(base)) => base,
            None => 0,
        };
        let value = match now {
            Some(element) => integer(element).ok_or(Differs)?,
            None => return Ok(Some(0)),
        };
        let sum = value.checked_sub(base).filter(|sum| sum % self.step == 0).ok_or(Differs)?;
        sum.checked_div(self.step).map(Some).ok_or(Differs)
    }
}

fn removes(operation: &Operation) -> bool {
    match operation {
        Operation::Delete(_) => true,
        Operation::FindAndModify(typed) => typed.change == scenario::Change::Remove,
        _ => false,
    }
}

/// The only update of a document that an operation names by receipt.
fn update(operation: &Operation) -> Option<&Template> {
    match operation {
        Operation::Update(Update { filter: None, upsert: false, update: Updates::One(update), .. })
        | Operation::FindAndModify(FindAndModify {
            filter: None,
            change: scenario::Change::Update(Updates::One(update)),
            ..
        })
        | Operation::ReadModifyWrite(ReadModifyWrite {
            change: scenario::Change::Update(Updates::One(update)),
            ..
        }) => Some(update),
        _ => None,
    }
}

/// The only element of a document.
fn only(document: &Document) -> Option<(&String, &Bson)> {
    document.iter().next().filter(|_| document.len() == 1)
}

fn integer(element: Element<'_>) -> Option<i64> {
    [kind::INT32, kind::INT64].contains(&element.kind).then(|| element.as_i64()).flatten()
}

/// Whether two documents are equal besides one element. The server keeps an existing field in its place, and a missing one may be
/// anywhere.
fn same_besides(inserted: (&[u8], Option<Element<'_>>), stored: (&[u8], Option<Element<'_>>)) -> bool {
    let ((inserted, before), (stored, now)) = (inserted, stored);
    let Some(now) = now.map(|element| element.range_in(stored)) else {
        return before.is_none() && inserted == stored;
    };
    let before = before.map_or(now.start..now.start, |element| element.range_in(inserted));
    before.start == now.start
        && inserted.get(4..before.start) == stored.get(4..now.start)
        && inserted.get(before.end..) == stored.get(now.end..)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::testing::setup;

    fn counter(operations: &[&str]) -> Option<Counter> {
        let operations: Vec<_> = operations.iter().map(|typed| ("op", *typed)).collect();
        setup(r#"{"collection": "d.c", "document": {"n": 1}}"#, &operations).unwrap().counter
    }

    #[test]
    fn a_plan_has_a_counter_if_all_of_its_changes_increment_the_same_field() {
        let visits = |step| Some(Counter { field: "visits".into(), step });
        let update = r#"{"update": {"update": {"$inc": {"visits": 1}}}}"#;
        let modify = r#"{"find_and_modify": {"change": {"update": {"$inc": {"visits": 1}}}}}"#;
        let read = r#"{"read_modify_write": {"change": {"update": {"$inc": {"visits": 1}}}}}"#;
        let rest = [r#"{"insert": {}}"#, r#"{"find": {}}"#, r#"{"delete": {}}"#];
        assert_eq!(counter(&[&[update, modify, read], &rest[..]].concat()), visits(1));
        assert_eq!(counter(&[r#"{"update": {"update": {"$inc": {"visits": -2}}}}"#]), visits(-2));
        for other in [
            r#"{"update": {"update": {"$inc": {"visits": 2}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": 1, "hits": 1}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": {"$number": {}}}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": 0.5}}}}"#,
            r#"{"update": {"update": {"$inc": {"a.visits": 1}}}}"#,
            r#"{"update": {"update": {"$set": {"visits": 1}}}}"#,
            r#"{"update": {"update": {"one_of": [{"$inc": {"visits": 1}}]}}}"#,
            r#"{"update": {"filter": {}, "update": {"$inc": {"visits": 1}}}}"#,
            r#"{"update": {"upsert": true, "update": {"$inc": {"visits": 1}}}}"#,
            r#"{"transaction": {"operations": [{"update": {"update": {"$inc": {"visits": 1}}}}]}}"#,
            r#"{"replace": {}}"#,
        ] {
            assert_eq!(counter(&[update, other]), None, "{other}");
        }
        assert_eq!(counter(&rest), None);
    }

    #[test]
    fn a_plan_without_promises_has_no_counter() {
        let increment = [("op", r#"{"update": {"update": {"$inc": {"n": 1}}}}"#)];
        let unanswered = r#"{"collection": "d.c", "document": {"n": 1}, "write_concern": {"w": 0}}"#;
        assert_eq!(setup(unanswered, &increment).unwrap().counter, None);
    }

    fn shown(inserted: Document, stored: Document) -> Result<Option<i64>, Differs> {
        let counter = Counter { field: "n".into(), step: 3 };
        counter.shown(&inserted.to_vec().unwrap(), &stored.to_vec().unwrap())
    }

    #[test]
    fn a_counter_shows_its_increments_wherever_it_is_and_in_either_width() {
        let check = |inserted: Document, stored: Document, expected| {
            assert_eq!(shown(inserted, stored), Ok(expected))
        };
        check(doc! {"n": 5, "t": "x"}, doc! {"n": 5, "t": "x"}, Some(0));
        check(doc! {"n": 5, "t": "x"}, doc! {"n": 11, "t": "x"}, Some(2));
        check(doc! {"n": 5, "t": "x"}, doc! {"n": 11_i64, "t": "x"}, Some(2));
        check(doc! {"n": 5, "t": "x"}, doc! {"n": 2, "t": "x"}, Some(-1));
        check(doc! {"t": "x"}, doc! {"t": "x"}, Some(0));
        check(doc! {"t": "x"}, doc! {"t": "x", "n": 6}, Some(2));
        check(doc! {"n": 0.5, "t": "x"}, doc! {"n": 6.5, "t": "x"}, None);
    }

    #[test]
    fn a_document_that_increments_do_not_explain_differs() {
        let check = |inserted: Document, stored: Document| assert_eq!(shown(inserted, stored), Err(Differs));
        check(doc! {"n": 5, "t": "x"}, doc! {"n": 6, "t": "x"});
        check(doc! {"n": 5, "t": "x"}, doc! {"n": 8, "t": "y"});
        check(doc! {"n": 5, "t": "x"}, doc! {"t": "x", "n": 8});
        check(doc! {"n": 5, "t": "x"}, doc! {"t": "x"});
        check(doc! {"n": 5, "t": "x"}, doc! {"n": "8", "t": "x"});
        check(doc! {"n": i64::MIN, "t": "x"}, doc! {"n": i64::MAX, "t": "x"});
    }
}
