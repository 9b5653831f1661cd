//! Recognises the counters that a plan increments, and counts the increments that a stored document shows.

use bson::{Bson, Document};
use plimsoll_document::{STAMP_FIELD, Template};
use plimsoll_element::{Element, find, kind, valid};
use plimsoll_ledger::Shown;

use super::{Context, constant};
use crate::scenario::{self, FindAndModify, Operation, ReadModifyWrite, Update, Updates};

/// The most counters of an update, and the most fields that it sets.
const FIELDS_MAX: usize = 16;

/// The update that every change of a plan makes. It increments counters by constant steps, and may set other
/// fields to constants. So each counter of a document shows the number of applied updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The counters and their steps.
    steps: Vec<(String, i64)>,
    /// The other fields as the update sets them, as one document.
    set: Vec<u8>,
}

/// The content of a document besides its counters does not follow from its receipt, or no number of updates explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs;

impl Counters {
    /// The counters of a plan: all operations that change documents make the same update of documents that they name by receipt.
    pub(super) fn of(operations: &[(String, Operation)], context: Context<'_>) -> Option<Self> {
        let changes =
            operations.iter().map(|(_, operation)| operation).filter(|it| it.touches() && !removes(it));
        let mut counters = changes.map(|operation| Self::of_update(update(operation)?, context));
        let first = counters.next()??;
        counters.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// An update `{$inc: {field: step, …}, $set: {field: constant, …}}`, with or without `$set`.
    fn of_update(update: &Template, context: Context<'_>) -> Option<Self> {
        let update = constant("", "", Some(update), context).ok()??;
        let steps = update.get_document("$inc").ok()?.iter().map(step).collect::<Option<Vec<_>>>()?;
        let set = match update.get("$set") {
            Some(set) => set.as_document()?.clone(),
            None => Document::new(),
        };
        let is_known = update.keys().all(|operator| ["$inc", "$set"].contains(&operator.as_str()));
        let is_followed = (1..=FIELDS_MAX).contains(&steps.len()) && set.len() <= FIELDS_MAX;
        let is_plain = steps.iter().map(|(field, _)| field).chain(set.keys()).all(|field| is_plain(field));
        (is_known && is_followed && is_plain).then_some(Self { steps, set: set.to_vec().ok()? })
    }

    /// The updates that a stored document shows, given the inserted document. `None` if the inserted fields are no integers.
    ///
    /// # Errors
    /// [`Differs`] if updates do not explain the stored document.
    pub fn shown(&self, inserted: &[u8], stored: &[u8]) -> Result<Option<Shown>, Differs> {
        self.check_rest(inserted, stored)?;
        let mut all: Option<Shown> = None;
        for (field, step) in &self.steps {
            let counted = counted(*step, find(inserted, field.as_bytes()), find(stored, field.as_bytes()))?;
            let one = counted.map(|count| Shown { least: count, most: count });
            all = all.map_or(one, |all| Some(one.map_or(all, |one| all.and(one))));
        }
        self.check_set(inserted, stored, all)?;
        Ok(all)
    }

    /// Every field that the update does not change must be as inserted. An existing field keeps its position,
    /// and a new field may have any position.
    fn check_rest(&self, inserted: &[u8], stored: &[u8]) -> Result<(), Differs> {
        let mut expected = valid(inserted);
        for now in valid(stored) {
            let is_changed = self.changes(now.key);
            if is_changed && find(inserted, now.key).is_none() {
                continue;
            }
            let before = expected.next().filter(|before| before.key == now.key).ok_or(Differs)?;
            if !is_changed && before != now {
                return Err(Differs);
            }
        }
        expected.next().map_or(Ok(()), |_| Err(Differs))
    }

    /// Checks the fields that the update sets: before the first update they are as inserted, afterwards as
    /// set.
    fn check_set(&self, inserted: &[u8], stored: &[u8], shown: Option<Shown>) -> Result<(), Differs> {
        let is_updated = |shown: Shown| (shown.least == shown.most).then_some(shown.most != 0);
        let is_updated = shown.and_then(is_updated);
        let explains = |set: Element<'_>| {
            let (before, now) = (find(inserted, set.key), find(stored, set.key));
            let (is_set, is_kept) = (now == Some(set), now == before);
            match is_updated {
                Some(true) => is_set,
                Some(false) => is_kept,
                None => is_set || is_kept,
            }
        };
        if valid(&self.set).all(explains) { Ok(()) } else { Err(Differs) }
    }

    fn changes(&self, key: &[u8]) -> bool {
        self.steps.iter().any(|(field, _)| field.as_bytes() == key) || find(&self.set, key).is_some()
    }
}

/// A counter with its constant step.
fn step((field, step): (&String, &Bson)) -> Option<(String, i64)> {
    let step = match step {
        Bson::Int32(step) => i64::from(*step),
        Bson::Int64(step) => *step,
        _ => return None,
    };
    (step != 0).then(|| (field.clone(), step))
}

/// Whether a field is at the top of a document, and neither its `_id` nor its stamp.
fn is_plain(field: &str) -> bool {
    !field.contains('.') && !["_id", STAMP_FIELD].contains(&field)
}

/// The increments that a counter shows; `None` if the inserted field is no integer.
fn counted(step: i64, before: Option<Element<'_>>, now: Option<Element<'_>>) -> Result<Option<i64>, Differs> {
    let base = match before.map(integer) {
        Some(None) => return Ok(None),
        Some(Some(base)) => base,
        None => 0,
    };
    let value = match now {
        Some(element) => integer(element).ok_or(Differs)?,
        None => return Ok(Some(0)),
    };
    let sum = value.checked_sub(base).filter(|sum| sum.checked_rem(step) == Some(0)).ok_or(Differs)?;
    sum.checked_div(step).map(Some).ok_or(Differs)
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

pub(super) fn integer(element: Element<'_>) -> Option<i64> {
    [kind::INT32, kind::INT64].contains(&element.kind).then(|| element.as_i64()).flatten()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::testing::setup;

    fn counters(operations: &[&str]) -> Option<Counters> {
        let operations: Vec<_> = operations.iter().map(|typed| ("op", *typed)).collect();
        setup(r#"{"collection": "d.c", "document": {"n": 1}}"#, &operations).unwrap().counters
    }

    #[test]
    fn a_plan_has_a_counter_if_all_of_its_changes_increment_the_same_field() {
        let of = |steps: &[(&str, i64)], set: Document| {
            let steps = steps.iter().map(|(field, step)| ((*field).to_owned(), *step)).collect();
            Some(Counters { steps, set: set.to_vec().unwrap() })
        };
        let visits = |step| of(&[("visits", step)], Document::new());
        let update = r#"{"update": {"update": {"$inc": {"visits": 1}}}}"#;
        let modify = r#"{"find_and_modify": {"change": {"update": {"$inc": {"visits": 1}}}}}"#;
        let read = r#"{"read_modify_write": {"change": {"update": {"$inc": {"visits": 1}}}}}"#;
        let rest = [r#"{"insert": {}}"#, r#"{"find": {}}"#, r#"{"delete": {}}"#];
        assert_eq!(counters(&[&[update, modify, read], &rest[..]].concat()), visits(1));
        assert_eq!(counters(&[r#"{"update": {"update": {"$inc": {"visits": -2}}}}"#]), visits(-2));
        let several =
            r#"{"update": {"update": {"$inc": {"visits": 1, "hits": -3}, "$set": {"state": "seen"}}}}"#;
        assert_eq!(counters(&[several]), of(&[("visits", 1), ("hits", -3)], doc! {"state": "seen"}));
        let many = |fields: usize| {
            let fields: Vec<_> = (0..fields).map(|field| format!(r#""f{field}": 1"#)).collect();
            counters(&[&format!(r#"{{"update": {{"update": {{"$inc": {{{}}}}}}}}}"#, fields.join(", "))])
        };
        assert_eq!(many(FIELDS_MAX).map(|it| it.steps.len()), Some(FIELDS_MAX));
        assert_eq!(many(FIELDS_MAX + 1), None);
        for other in [
            r#"{"update": {"update": {"$inc": {"visits": 2}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": 1, "hits": 1}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": 1}, "$set": {"state": {"$text": {"bytes": 3}}}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": 1}, "$set": {"a.b": 1}}}}"#,
            r#"{"update": {"update": {"$inc": {"visits": 1}, "$mul": {"a": 2}}}}"#,
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
            assert_eq!(counters(&[update, other]), None, "{other}");
        }
        assert_eq!(counters(&rest), None);
    }

    #[test]
    fn a_plan_without_promises_has_no_counter() {
        let increment = [("op", r#"{"update": {"update": {"$inc": {"n": 1}}}}"#)];
        let unanswered = r#"{"collection": "d.c", "document": {"n": 1}, "write_concern": {"w": 0}}"#;
        assert_eq!(setup(unanswered, &increment).unwrap().counters, None);
    }

    fn shown_by(
        steps: &[(&str, i64)],
        set: Document,
        inserted: Document,
        stored: Document,
    ) -> Result<Option<Shown>, Differs> {
        let steps = steps.iter().map(|(field, step)| ((*field).to_owned(), *step)).collect();
        let counters = Counters { steps, set: set.to_vec().unwrap() };
        counters.shown(&inserted.to_vec().unwrap(), &stored.to_vec().unwrap())
    }

    fn shown(inserted: Document, stored: Document) -> Result<Option<Shown>, Differs> {
        shown_by(&[("n", 3)], Document::new(), inserted, stored)
    }

    #[test]
    fn each_counter_of_a_document_is_judged_and_set_fields_follow_from_the_updates() {
        let check = |stored: Document, expected: Result<(i64, i64), Differs>| {
            let inserted = doc! {"n": 5, "state": "new", "t": "x"};
            let set = doc! {"state": "seen", "late": true};
            let shown = shown_by(&[("n", 3), ("m", -1)], set, inserted, stored);
            assert_eq!(shown, expected.map(|(least, most)| Some(Shown { least, most })));
        };
        check(doc! {"n": 5, "state": "new", "t": "x"}, Ok((0, 0)));
        check(doc! {"n": 11, "state": "seen", "t": "x", "late": true, "m": -2}, Ok((2, 2)));
        check(doc! {"n": 11, "state": "seen", "t": "x", "m": -2, "late": true}, Ok((2, 2)));
        check(doc! {"n": 11, "state": "seen", "t": "x", "late": true, "m": -1}, Ok((1, 2)));
        check(doc! {"n": 11, "state": "new", "t": "x", "m": -2}, Err(Differs));
        check(doc! {"n": 11, "state": "seen", "t": "x", "m": -2}, Err(Differs));
        check(doc! {"n": 5, "state": "seen", "t": "x", "late": true}, Err(Differs));
        check(doc! {"n": 11, "state": "other", "t": "x", "late": true, "m": -2}, Err(Differs));
        check(doc! {"n": 11, "state": "seen", "t": "y", "late": true, "m": -2}, Err(Differs));
        check(doc! {"state": "seen", "n": 11, "t": "x", "late": true, "m": -2}, Err(Differs));
        check(doc! {"n": 11, "state": "seen", "t": "x", "late": true, "m": -2, "z": 1}, Err(Differs));
    }

    #[test]
    fn a_counter_shows_its_increments_wherever_it_is_and_in_either_width() {
        let check = |inserted: Document, stored: Document, expected: Option<i64>| {
            let expected = expected.map(|count| Shown { least: count, most: count });
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
