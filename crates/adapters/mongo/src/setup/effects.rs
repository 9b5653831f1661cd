//! Recognises the kinds of updates that a plan makes, and judges a stored document by the number of each kind.
//!
//! Updates commute only in part, so each field has a rule that holds in any order: a sum (`$inc`) lies between the acknowledged
//! and the sent amounts; an extreme (`$max`, `$min`) has reached every acknowledged value; a value (`$set`, `$unset`) is one of
//! those sent; a list (`$push`) and a set (`$addToSet`) show each acknowledged element, and none beyond those sent.

use std::collections::BTreeMap;

use bson::Bson;
use plimsoll_document::{Encoded, Identity, STAMP_FIELD, Source, Template};
use plimsoll_element::{Element, find, valid};
use plimsoll_ledger::{KINDS_MAX, Version};

use super::counter::{Differs, integer};
use super::{Context, Purpose, constant};
use crate::scenario::{
    self, Delete, FindAndModify, Operation, ReadModifyWrite, Transaction, Update, Updates,
};

/// The most fields that are judged.
const FIELDS_MAX: usize = 64;
/// The keys of a `$push` or `$addToSet` that may mean no item or several: the modifiers, and the generators of a value that may
/// be absent.
const NOT_ONE_ITEM: [&str; 6] = ["$each", "$position", "$slice", "$sort", "$optional", "$same"];

/// The updates of a plan: their kinds, and the fields that they change.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// The kind of each update of each operation, by their indexes; `None` for an operation that is not followed, and for an
    /// update of fields that are not judged.
    kinds: Vec<Option<Vec<Option<u8>>>>,
    /// The rules of the changed fields; `None` for a field that is not judged.
    fields: BTreeMap<String, Option<Rule>>,
}

/// The updates that the fields of a document lack, or show beyond those sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// At least this number of acknowledged updates is missing.
    pub lacking: u64,
    /// At least this number of updates was never sent.
    pub exceeding: u64,
}

/// The values of a field that follow from the numbers of updates, by kind.
#[derive(Clone, Debug, PartialEq)]
enum Rule {
    /// Each update adds an amount.
    Sum(Vec<(u8, i64)>),
    /// Each update raises the field to a value.
    Highest(Vec<(u8, i64)>),
    /// Each update lowers the field to a value.
    Lowest(Vec<(u8, i64)>),
    /// Each update sets the field, or removes it.
    Value(Vec<(u8, Option<Constant>)>),
    /// Each update appends a value; `None` is a generated value.
    List(Vec<(u8, Option<Constant>)>),
    /// Each update adds a value that the field does not have.
    Set(Vec<(u8, Constant)>),
}

/// A constant value, as a document of one field.
#[derive(Clone, Debug, PartialEq)]
struct Constant(Vec<u8>);

/// The plan's kinds of updates, and a sentence for everything that the audit cannot judge. `is_counted`: all changes are one
/// update, whose counters show the number of updates.
pub(super) fn of(
    operations: &[(String, Operation)],
    source: Option<&Source>,
    is_counted: bool,
    context: Context<'_>,
) -> (Option<Effects>, Vec<String>) {
    let replaces = operations.iter().any(|(_, operation)| operation.replaces());
    let mut builder = Builder { context, kinds_next: 0, fields: BTreeMap::new(), unjudged: Vec::new() };
    let kinds: Vec<_> = operations
        .iter()
        .map(|(name, operation)| match untracked(operation, replaces) {
            Some(reason) => {
                builder.unjudged.push(format!("The changes by {name} are not judged: {reason}."));
                None
            }
            None if is_counted => None,
            None => builder.kinds(name, updates(operation)?),
        })
        .collect();
    builder.check_inserted(source);
    builder.name_fields();
    let effects = Effects { kinds, fields: builder.rules() };
    let is_followed = effects.kinds.iter().any(Option::is_some);
    (is_followed.then_some(effects), builder.unjudged)
}

/// The reason why the ledger cannot follow the changes of an operation.
fn untracked(operation: &Operation, replaces: bool) -> Option<&'static str> {
    match operation {
        Operation::Update(Update { filter: Some(_), .. })
        | Operation::Delete(Delete { filter: Some(_), .. })
        | Operation::FindAndModify(FindAndModify { filter: Some(_), .. }) => {
            Some("a filter chooses the documents, so that any document may have changed")
        }
        Operation::Update(Update { upsert: true, .. }) => Some("an upsert may insert a document"),
        Operation::Transaction(Transaction { operations, .. }) => {
            let is_update = |part: &Operation| updates(part).is_some();
            let by_filter = || operations.iter().find_map(|part| untracked(part, false));
            if operations.iter().any(is_update) {
                Some("it updates documents inside of transactions")
            } else {
                by_filter()
            }
        }
        _ if replaces && updates(operation).is_some() => Some("other operations replace the same documents"),
        _ => None,
    }
}

/// The updates of an operation that changes a document without a version.
fn updates(operation: &Operation) -> Option<&Updates> {
    match operation {
        Operation::Update(Update { update, .. })
        | Operation::FindAndModify(FindAndModify { change: scenario::Change::Update(update), .. })
        | Operation::ReadModifyWrite(ReadModifyWrite { change: scenario::Change::Update(update), .. }) => {
            Some(update)
        }
        _ => None,
    }
}

/// Collects the changes of each field.
struct Builder<'a> {
    context: Context<'a>,
    kinds_next: u8,
    fields: BTreeMap<String, Changes>,
    unjudged: Vec<String>,
}

/// The changes of one field: the operators that make them, and the rule that they give together.
struct Changes {
    operators: Vec<String>,
    rule: Option<Rule>,
}

impl Builder<'_> {
    /// Gives each update of an operation a kind; `None` beyond the limit, and for unknown fields.
    fn kinds(&mut self, name: &str, updates: &Updates) -> Option<Vec<Option<u8>>> {
        let all = match updates {
            Updates::One(update) => std::slice::from_ref(update),
            Updates::OneOf(several) => several,
        };
        if all.iter().any(has_generated_fields) {
            self.unjudged
                .push(format!("The changes by {name} are not judged: a generator chooses the fields."));
            return None;
        }
        let count = all.iter().filter(|update| self.has_rule(update)).count();
        if count > usize::from(KINDS_MAX - self.kinds_next) {
            self.unjudged.push(format!(
                "The changes by {name} are not judged: the ledger follows {KINDS_MAX} kinds of updates."
            ));
            return None;
        }
        Some(all.iter().map(|update| self.kind(update)).collect())
    }

    /// Adds the changes of an update, and gives it a kind if one of its fields has a rule. The number of other updates would tell
    /// nothing.
    fn kind(&mut self, update: &Template) -> Option<u8> {
        let kind = self.kinds_next;
        self.add(kind, update);
        let is_judged = self.has_rule(update);
        self.kinds_next += u8::from(is_judged);
        is_judged.then_some(kind)
    }

    /// Whether one change of an update can be judged.
    fn has_rule(&self, update: &Template) -> bool {
        changes(update).any(|(operator, field, value)| self.rule(0, operator, field, value).is_some())
    }

    fn add(&mut self, kind: u8, update: &Template) {
        for (operator, field, value) in changes(update) {
            self.change(kind, operator, field, value);
        }
    }

    fn change(&mut self, kind: u8, operator: &str, field: &str, value: &serde_json::Value) {
        let rule = self.rule(kind, operator, field, value);
        self.join(root_of(field), operator, rule);
        if let (true, Some(to)) = (operator == "$rename", value.as_str()) {
            self.join(root_of(to), operator, None);
        }
    }

    /// Adds a change of a field. Changes of different rules have no rule together.
    fn join(&mut self, field: &str, operator: &str, rule: Option<Rule>) {
        match self.fields.get_mut(field) {
            None => {
                let changes = Changes { operators: vec![operator.to_owned()], rule };
                self.fields.insert(field.to_owned(), changes);
            }
            Some(changes) => {
                changes.rule = changes.rule.take().zip(rule).and_then(|(mine, other)| mine.and(other));
                if !changes.operators.iter().any(|it| it == operator) {
                    changes.operators.push(operator.to_owned());
                }
            }
        }
    }

    /// The rule of one change; `None` if its result cannot be judged.
    fn rule(&self, kind: u8, operator: &str, field: &str, value: &serde_json::Value) -> Option<Rule> {
        if root_of(field) != field || ["_id", STAMP_FIELD].contains(&field) {
            return None;
        }
        let constant = self.constant(field, value);
        let integer = || match constant.as_ref()?.bson(field)? {
            Bson::Int32(number) => Some(i64::from(number)),
            Bson::Int64(number) => Some(number),
            _ => None,
        };
        match operator {
            "$inc" => Some(Rule::Sum(vec![(kind, integer()?)])),
            "$max" => Some(Rule::Highest(vec![(kind, integer()?)])),
            "$min" => Some(Rule::Lowest(vec![(kind, integer()?)])),
            "$set" => Some(Rule::Value(vec![(kind, Some(constant?))])),
            "$unset" => constant.map(|_| Rule::Value(vec![(kind, None)])),
            "$push" if is_one_item(value) => Some(Rule::List(vec![(kind, constant)])),
            // The server takes numbers of different types for equal, so a number may already be in the list.
            "$addToSet" if is_one_item(value) => {
                Some(Rule::Set(vec![(kind, constant.filter(|it| !it.has_number(field))?)]))
            }
            _ => None,
        }
    }

    fn constant(&self, field: &str, value: &serde_json::Value) -> Option<Constant> {
        let template: Template = serde_json::Map::from_iter([(field.to_owned(), value.clone())]).into();
        let constant = constant("", "", Some(&template), self.context).ok()??;
        constant.to_vec().ok().map(Constant)
    }

    /// Drops the rules of fields whose inserted value has another type.
    fn check_inserted(&mut self, source: Option<&Source>) {
        let mut inserted = Vec::new();
        let receipt = self.context.run.receipt(0);
        let identity = Identity { id: receipt.to_object_id(), stamp: receipt.stamp() };
        let encoded = source.map(|source| source.encode_version(0, 0, &identity, &mut inserted));
        for (field, changes) in &mut self.fields {
            let found =
                if encoded == Some(Encoded::Document) { find(&inserted, field.as_bytes()) } else { None };
            let fits = changes.rule.as_ref().is_none_or(|rule| rule.fits(found));
            if !fits {
                changes.rule = None;
            }
        }
    }

    fn name_fields(&mut self) {
        let judged = self.fields.iter_mut().filter(|(_, changes)| changes.rule.is_some());
        judged.skip(FIELDS_MAX).for_each(|(_, changes)| changes.rule = None);
        for (field, changes) in &self.fields {
            if changes.rule.is_none() {
                let operators = changes.operators.join(" and ");
                self.unjudged.push(format!(
                    "The field {field} is not judged: its values do not follow from the number of updates ({operators})."
                ));
            }
        }
    }

    fn rules(&mut self) -> BTreeMap<String, Option<Rule>> {
        std::mem::take(&mut self.fields).into_iter().map(|(field, changes)| (field, changes.rule)).collect()
    }
}

/// The changes of an update: operator, field and value. Without an upsert, `$setOnInsert` changes nothing.
fn changes(update: &Template) -> impl Iterator<Item = (&str, &str, &serde_json::Value)> {
    let operators = update.fields().iter().filter(|(operator, _)| *operator != "$setOnInsert");
    operators.flat_map(|(operator, fields)| {
        let fields = fields.as_object().into_iter().flatten();
        fields.map(move |(field, value)| (operator.as_str(), field.as_str(), value))
    })
}

/// Whether a generator chooses the fields that an update changes.
fn has_generated_fields(update: &Template) -> bool {
    update.fields().iter().any(|(operator, fields)| {
        let Some(fields) = fields.as_object() else { return true };
        let is_target_generated = operator == "$rename" && fields.values().any(|to| !to.is_string());
        is_target_generated || fields.keys().any(|name| name.starts_with('$'))
    })
}

/// The top-level field of a path.
fn root_of(field: &str) -> &str {
    field.split('.').next().unwrap_or(field)
}

/// Whether a `$push` or `$addToSet` of a value always means one item. A generator may also make the modifiers.
fn is_one_item(value: &serde_json::Value) -> bool {
    let is_plain = value.as_object().is_none_or(|map| !map.keys().any(|key| key.starts_with('$')));
    is_plain || !mentions(value, &NOT_ONE_ITEM)
}

/// Whether one of the keys occurs anywhere in a value.
fn mentions(value: &serde_json::Value, keys: &[&str]) -> bool {
    match value {
        serde_json::Value::Array(items) => items.iter().any(|item| mentions(item, keys)),
        serde_json::Value::Object(map) => {
            map.iter().any(|(key, inner)| keys.contains(&key.as_str()) || mentions(inner, keys))
        }
        _ => false,
    }
}

impl Effects {
    /// The purpose of one update of an operation, by their indexes.
    pub fn purpose(&self, operation: usize, update: usize) -> Purpose {
        match self.kinds.get(operation).and_then(|kinds| kinds.as_ref()?.get(update)) {
            Some(Some(kind)) => Purpose::Update(*kind),
            Some(None) => Purpose::Unjudged,
            None => Purpose::Touch,
        }
    }

    /// The updates that a stored document lacks or shows in excess, given the inserted document and the number of updates of
    /// each kind.
    ///
    /// # Errors
    /// [`Differs`] if no number of updates explains the stored document.
    pub fn judge(
        &self,
        inserted: &[u8],
        stored: &[u8],
        counts: impl Fn(u8) -> Version,
    ) -> Result<Judged, Differs> {
        self.check_rest(inserted, stored)?;
        let mut all = Judged::default();
        for (field, rule) in &self.fields {
            let Some(rule) = rule else { continue };
            let (before, now) = (find(inserted, field.as_bytes()), find(stored, field.as_bytes()));
            all = all.and(rule.judge(before, now, &counts)?);
        }
        Ok(all)
    }

    /// Every field that no update changes must be as inserted, in the same order.
    fn check_rest(&self, inserted: &[u8], stored: &[u8]) -> Result<(), Differs> {
        let is_kept = |element: &Element<'_>| {
            !std::str::from_utf8(element.key).is_ok_and(|key| self.fields.contains_key(key))
        };
        let is_equal = valid(inserted).filter(is_kept).eq(valid(stored).filter(is_kept));
        if is_equal { Ok(()) } else { Err(Differs) }
    }
}

impl Judged {
    /// One update may change several fields, so the larger number counts.
    fn and(self, other: Self) -> Self {
        Self { lacking: self.lacking.max(other.lacking), exceeding: self.exceeding.max(other.exceeding) }
    }

    const fn lacking(lacking: u64) -> Self {
        Self { lacking, exceeding: 0 }
    }

    const fn exceeding(exceeding: u64) -> Self {
        Self { lacking: 0, exceeding }
    }
}

impl Constant {
    fn bson(&self, field: &str) -> Option<Bson> {
        bson::Document::from_reader(self.0.as_slice()).ok()?.get(field).cloned()
    }

    /// Whether the value is a number, or contains one.
    fn has_number(&self, field: &str) -> bool {
        self.bson(field).is_none_or(|value| has_number(&value))
    }

    fn is(&self, found: Element<'_>) -> bool {
        valid(&self.0).next().is_some_and(|constant| is_same(constant, found))
    }
}

impl Rule {
    /// The rule of both changes, if both follow the same one.
    fn and(self, other: Self) -> Option<Self> {
        fn joined<T>(mut mine: Vec<T>, theirs: Vec<T>) -> Vec<T> {
            mine.extend(theirs);
            mine
        }
        match (self, other) {
            (Self::Sum(mine), Self::Sum(theirs)) => Some(Self::Sum(joined(mine, theirs))),
            (Self::Highest(mine), Self::Highest(theirs)) => Some(Self::Highest(joined(mine, theirs))),
            (Self::Lowest(mine), Self::Lowest(theirs)) => Some(Self::Lowest(joined(mine, theirs))),
            (Self::Value(mine), Self::Value(theirs)) => Some(Self::Value(joined(mine, theirs))),
            (Self::List(mine), Self::List(theirs)) => Some(Self::List(joined(mine, theirs))),
            (Self::Set(mine), Self::Set(theirs)) => Some(Self::Set(joined(mine, theirs))),
            _ => None,
        }
    }

    /// Whether the inserted value has a type that the operator accepts.
    fn fits(&self, inserted: Option<Element<'_>>) -> bool {
        let Some(inserted) = inserted else { return true };
        match self {
            Self::Sum(_) | Self::Highest(_) | Self::Lowest(_) => integer(inserted).is_some(),
            Self::List(_) | Self::Set(_) => inserted.as_array().is_some(),
            Self::Value(_) => true,
        }
    }

    fn judge(
        &self,
        before: Option<Element<'_>>,
        now: Option<Element<'_>>,
        counts: &impl Fn(u8) -> Version,
    ) -> Result<Judged, Differs> {
        if !self.fits(before) {
            return Ok(Judged::default());
        }
        match self {
            Self::Sum(steps) => sum(steps, before, now, counts),
            Self::Highest(values) => extreme(values, number(before)?, number(now)?, counts),
            Self::Lowest(values) => {
                let negated: Vec<_> =
                    values.iter().map(|(kind, value)| (*kind, value.saturating_neg())).collect();
                let [before, now] = [number(before)?, number(now)?].map(|it| it.map(i64::saturating_neg));
                extreme(&negated, before, now, counts)
            }
            Self::Value(values) => value(values, before, now, counts),
            Self::List(values) => list(values, before, now, counts),
            Self::Set(values) => set(values, before, now, counts),
        }
    }
}

fn has_number(value: &Bson) -> bool {
    match value {
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => true,
        Bson::Array(items) => items.iter().any(has_number),
        Bson::Document(fields) => fields.values().any(has_number),
        _ => false,
    }
}

/// Judges a sum: the amounts in doubt may be in it or not.
fn sum(
    steps: &[(u8, i64)],
    before: Option<Element<'_>>,
    now: Option<Element<'_>>,
    counts: &impl Fn(u8) -> Version,
) -> Result<Judged, Differs> {
    let (base, value) = (number(before)?, number(now)?);
    if value.is_none() && base.is_some() {
        return Err(Differs);
    }
    let shown = i128::from(value.unwrap_or(0)) - i128::from(base.unwrap_or(0));
    let (mut least, mut most, mut divisor, mut largest, mut acknowledged) = (0, 0, 0, 1, 0);
    for (kind, step) in steps {
        let (known, step) = (counts(*kind), i128::from(*step));
        let bounds = [known.acknowledged(), known.sent()].map(|count| i128::from(count) * step);
        least += bounds[0].min(bounds[1]);
        most += bounds[0].max(bounds[1]);
        largest = largest.max(step.abs());
        acknowledged += u64::from(known.acknowledged());
        if known.is_doubtful() {
            divisor = greatest_divisor(divisor, step.abs());
        }
    }
    let (below, above) = (updates_in(least - shown, largest), updates_in(shown - most, largest));
    if below == 0 && above == 0 && divisor > 0 && (shown - least) % divisor != 0 {
        return Err(Differs);
    }
    let falls = steps.iter().all(|(_, step)| *step <= 0);
    let (lacking, exceeding) = if falls { (above, below) } else { (below, above) };
    let is_absent = value.is_none() && acknowledged > 0;
    Ok(Judged { lacking: lacking.max(u64::from(is_absent)), exceeding })
}

/// The fewest updates that make this amount.
fn updates_in(amount: i128, largest: i128) -> u64 {
    if amount <= 0 { 0 } else { u64::try_from((amount + largest - 1) / largest).unwrap_or(u64::MAX) }
}

fn greatest_divisor(mut one: i128, mut other: i128) -> i128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Judges the highest of several values; an absent field is lower than every value.
fn extreme(
    values: &[(u8, i64)],
    before: Option<i64>,
    now: Option<i64>,
    counts: &impl Fn(u8) -> Version,
) -> Result<Judged, Differs> {
    let acknowledged = values.iter().filter(|(kind, _)| counts(*kind).acknowledged() > 0);
    let floor = acknowledged.map(|(_, value)| Some(*value)).fold(before, Option::max);
    let is_sent = |(kind, value): &(u8, i64)| Some(*value) == now && counts(*kind).sent() > 0;
    if now < before {
        // No update lowers the field.
        Err(Differs)
    } else if now < floor {
        Ok(Judged::lacking(1))
    } else if now == before || values.iter().any(is_sent) {
        Ok(Judged::default())
    } else if values.iter().any(|(_, value)| Some(*value) == now) {
        Ok(Judged::exceeding(1))
    } else {
        Err(Differs)
    }
}

/// Judges a value that several updates set: their order on the server is unknown.
fn value(
    values: &[(u8, Option<Constant>)],
    before: Option<Element<'_>>,
    now: Option<Element<'_>>,
    counts: &impl Fn(u8) -> Version,
) -> Result<Judged, Differs> {
    let shows = |set: &Option<Constant>| match (set, now) {
        (Some(constant), Some(now)) => constant.is(now),
        (set, now) => set.is_none() && now.is_none(),
    };
    if values.iter().any(|(kind, set)| counts(*kind).sent() > 0 && shows(set)) {
        Ok(Judged::default())
    } else if now == before {
        let is_set = values.iter().any(|(kind, _)| counts(*kind).acknowledged() > 0);
        Ok(Judged::lacking(u64::from(is_set)))
    } else if values.iter().any(|(_, set)| shows(set)) {
        Ok(Judged::exceeding(1))
    } else {
        Err(Differs)
    }
}

/// Judges a list: constants one by one, and generated values by their number.
fn list(
    values: &[(u8, Option<Constant>)],
    before: Option<Element<'_>>,
    now: Option<Element<'_>>,
    counts: &impl Fn(u8) -> Version,
) -> Result<Judged, Differs> {
    let added = added(before, now)?;
    let constants: Option<Vec<_>> =
        values.iter().map(|(kind, value)| Some((*kind, value.as_ref()?))).collect();
    let Some(constants) = constants else {
        let sent =
            |count: fn(Version) -> u32| values.iter().map(|(kind, _)| u64::from(count(counts(*kind)))).sum();
        return Ok(bounded(added.len() as u64, sent(Version::acknowledged), sent(Version::sent)));
    };
    if !added.iter().all(|item| constants.iter().any(|(_, constant)| constant.is(*item))) {
        return Err(Differs);
    }
    let mut all = Judged::default();
    for (at, (_, constant)) in constants.iter().enumerate() {
        if constants[..at].iter().any(|(_, earlier)| earlier == constant) {
            continue;
        }
        let same = || constants.iter().filter(|(_, other)| other == constant);
        let sent = |count: fn(Version) -> u32| same().map(|(kind, _)| u64::from(count(counts(*kind)))).sum();
        let shown = added.iter().filter(|item| constant.is(**item)).count() as u64;
        let one = bounded(shown, sent(Version::acknowledged), sent(Version::sent));
        all = Judged { lacking: all.lacking + one.lacking, exceeding: all.exceeding + one.exceeding };
    }
    Ok(all)
}

/// Judges a set: each value is in it at most once.
fn set(
    values: &[(u8, Constant)],
    before: Option<Element<'_>>,
    now: Option<Element<'_>>,
    counts: &impl Fn(u8) -> Version,
) -> Result<Judged, Differs> {
    let (inserted, added) = (items(before)?, added(before, now)?);
    if !added.iter().all(|item| values.iter().any(|(_, constant)| constant.is(*item))) {
        return Err(Differs);
    }
    let mut all = Judged::default();
    for (at, (_, constant)) in values.iter().enumerate() {
        if values[..at].iter().any(|(_, earlier)| earlier == constant) {
            continue;
        }
        let some = |count: fn(Version) -> u32| {
            let same = values.iter().filter(|(_, other)| other == constant);
            u64::from(same.into_iter().any(|(kind, _)| count(counts(*kind)) > 0))
        };
        let shown = added.iter().filter(|item| constant.is(**item)).count() as u64;
        let is_inserted = inserted.iter().any(|item| constant.is(*item));
        let one = if is_inserted {
            bounded(shown, 0, 0)
        } else {
            bounded(shown, some(Version::acknowledged), some(Version::sent))
        };
        all = Judged { lacking: all.lacking + one.lacking, exceeding: all.exceeding + one.exceeding };
    }
    Ok(all)
}

const fn bounded(shown: u64, least: u64, most: u64) -> Judged {
    Judged { lacking: least.saturating_sub(shown), exceeding: shown.saturating_sub(most) }
}

/// The items that were appended to the inserted array.
fn added<'a>(before: Option<Element<'_>>, now: Option<Element<'a>>) -> Result<Vec<Element<'a>>, Differs> {
    let (inserted, mut stored) = (items(before)?, items(now)?);
    let is_kept = stored.len() >= inserted.len()
        && inserted.iter().zip(&stored).all(|(one, other)| is_same(*one, *other));
    if is_kept { Ok(stored.split_off(inserted.len())) } else { Err(Differs) }
}

/// The items of an array; an absent field has none.
fn items(array: Option<Element<'_>>) -> Result<Vec<Element<'_>>, Differs> {
    let Some(array) = array else { return Ok(Vec::new()) };
    array.as_array().map(|items| valid(items).collect()).ok_or(Differs)
}

/// The integer in a field; `None` for an absent field.
fn number(field: Option<Element<'_>>) -> Result<Option<i64>, Differs> {
    field.map(|field| integer(field).ok_or(Differs)).transpose()
}

/// Whether two elements have the same value, with any keys.
fn is_same(one: Element<'_>, other: Element<'_>) -> bool {
    one.kind == other.kind && one.value == other.value
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bson::{Document, doc};
    use plimsoll_ledger::{Kinds, Run, Slot};

    use super::*;
    use crate::scenario::Section;
    use crate::setup::Setup;
    use crate::testing::setup;

    const SLOT: Slot = Slot { worker: 0, local: 0 };

    fn plan(operations: &[&str]) -> Setup {
        let named: Vec<_> = operations.iter().map(|typed| ("op", *typed)).collect();
        let section = r#"{"collection": "d.c", "document": {"n": 5, "t": "x", "l": [1]}}"#;
        setup(section, &named).unwrap()
    }

    fn updates_of(updates: &str) -> Setup {
        plan(&[&format!(r#"{{"update": {{"update": {{"one_of": [{updates}]}}}}}}"#)])
    }

    /// Checks the judgement of a stored document after the acknowledged and the sent updates of each kind. The expectation
    /// are the lacking and the exceeding updates.
    fn check(updates: &str, counts: &[(u32, u32)], stored: &Document, expected: Result<(u64, u64), Differs>) {
        let setup = updates_of(updates);
        let mut kinds = Kinds::default();
        for (kind, (acknowledged, sent)) in (0..).zip(counts) {
            (0..*sent).for_each(|_| assert!(kinds.send(kind, SLOT)));
            (0..*acknowledged).for_each(|_| kinds.acknowledge(kind, SLOT));
        }
        let inserted = doc! {"n": 5, "t": "x", "l": [1]}.to_vec().unwrap();
        let counts = |kind| kinds.at(kind, SLOT);
        let judged = setup.effects.unwrap().judge(&inserted, &stored.to_vec().unwrap(), counts);
        assert_eq!(judged.map(|it| (it.lacking, it.exceeding)), expected, "{updates}: {stored}");
        assert_eq!(setup.not_judged, Vec::<String>::new(), "{updates}");
    }

    fn check_number(
        updates: &str,
        counts: &[(u32, u32)],
        stored: i64,
        expected: Result<(u64, u64), Differs>,
    ) {
        check(updates, counts, &doc! {"n": stored, "t": "x", "l": [1]}, expected);
    }

    #[test]
    fn a_sum_lies_between_the_acknowledged_and_the_sent_amounts() {
        let both = r#"{"$inc": {"n": 2}}, {"$inc": {"n": 5}}"#;
        check_number(both, &[(3, 3), (1, 1)], 16, Ok((0, 0)));
        check_number(both, &[(3, 3), (1, 1)], 11, Ok((1, 0)));
        check_number(both, &[(3, 3), (1, 1)], 5, Ok((3, 0)));
        check_number(both, &[(3, 3), (1, 1)], 18, Ok((0, 1)));
        for (shown, expected) in
            [(7, Ok((0, 0))), (12, Ok((0, 0))), (6, Ok((1, 0))), (13, Ok((0, 1))), (9, Err(Differs))]
        {
            check_number(both, &[(1, 1), (0, 1)], shown, expected);
        }
        let signs = r#"{"$inc": {"n": 3}}, {"$inc": {"n": -2}}"#;
        for (shown, expected) in [(4, Ok((0, 0))), (8, Ok((0, 0))), (3, Ok((1, 0))), (9, Ok((0, 1)))] {
            check_number(signs, &[(1, 1), (0, 2)], shown, expected);
        }
        let falling = r#"{"$inc": {"n": -3}}, {"$inc": {"n": -1}}"#;
        check_number(falling, &[(1, 1), (1, 1)], 4, Ok((1, 0)));
        check_number(falling, &[(1, 1), (1, 1)], -2, Ok((0, 1)));
    }

    #[test]
    fn a_new_counter_exists_after_its_first_acknowledged_update() {
        let updates = r#"{"$inc": {"m": 1}}, {"$inc": {"m": -1}}"#;
        let stored = || doc! {"n": 5, "t": "x", "l": [1]};
        check(updates, &[(0, 1), (0, 0)], &stored(), Ok((0, 0)));
        check(updates, &[(1, 1), (1, 1)], &stored(), Ok((1, 0)));
        let mut zero = stored();
        zero.insert("m", 0);
        check(updates, &[(1, 1), (1, 1)], &zero, Ok((0, 0)));
    }

    #[test]
    fn an_extreme_has_reached_every_acknowledged_value() {
        let raised = r#"{"$max": {"n": 7}}, {"$max": {"n": 9}}"#;
        check_number(raised, &[(1, 1), (0, 0)], 7, Ok((0, 0)));
        check_number(raised, &[(1, 1), (0, 0)], 5, Ok((1, 0)));
        check_number(raised, &[(1, 1), (0, 0)], 9, Ok((0, 1)));
        check_number(raised, &[(1, 1), (0, 1)], 9, Ok((0, 0)));
        check_number(raised, &[(1, 1), (0, 1)], 8, Err(Differs));
        check_number(raised, &[(0, 0), (0, 0)], 4, Err(Differs));
        check_number(raised, &[(1, 1), (0, 0)], 4, Err(Differs));
        let lowered = r#"{"$min": {"n": 3}}, {"$min": {"n": 1}}"#;
        check_number(lowered, &[(1, 1), (0, 0)], 3, Ok((0, 0)));
        check_number(lowered, &[(1, 1), (0, 0)], 4, Ok((1, 0)));
        check_number(lowered, &[(1, 1), (0, 0)], 1, Ok((0, 1)));
        check_number(lowered, &[(0, 0), (0, 0)], 6, Err(Differs));
    }

    #[test]
    fn a_value_is_one_of_those_sent() {
        let updates =
            r#"{"$inc": {"n": 1}, "$set": {"t": "y"}}, {"$set": {"t": "z"}}, {"$unset": {"t": ""}}"#;
        let with = |n: i32, t: &str| doc! {"n": n, "t": t, "l": [1]};
        check(updates, &[(1, 1), (0, 0), (0, 0)], &with(6, "y"), Ok((0, 0)));
        check(updates, &[(1, 1), (1, 1), (0, 0)], &with(6, "z"), Ok((0, 0)));
        check(updates, &[(1, 1), (0, 0), (0, 0)], &with(6, "x"), Ok((1, 0)));
        check(updates, &[(1, 1), (0, 0), (0, 0)], &with(6, "z"), Ok((0, 1)));
        check(updates, &[(1, 1), (0, 0), (0, 0)], &with(6, "w"), Err(Differs));
        check(updates, &[(0, 1), (0, 0), (0, 0)], &with(5, "x"), Ok((0, 0)));
        let without = doc! {"n": 5, "l": [1]};
        check(updates, &[(0, 0), (0, 0), (0, 1)], &without, Ok((0, 0)));
        check(updates, &[(0, 0), (0, 0), (0, 0)], &without, Ok((0, 1)));
    }

    #[test]
    fn a_list_has_every_acknowledged_element_and_none_beyond_those_sent() {
        let with = |l: &[i32]| doc! {"n": 5, "t": "x", "l": l};
        let pushed = r#"{"$push": {"l": 7}}, {"$push": {"l": 8}}"#;
        check(pushed, &[(2, 2), (1, 1)], &with(&[1, 7, 8, 7]), Ok((0, 0)));
        check(pushed, &[(2, 2), (1, 1)], &with(&[1, 7, 8]), Ok((1, 0)));
        check(pushed, &[(2, 2), (0, 1)], &with(&[1, 7, 7, 8]), Ok((0, 0)));
        check(pushed, &[(2, 2), (0, 0)], &with(&[1, 7, 7, 8]), Ok((0, 1)));
        check(pushed, &[(2, 2), (1, 1)], &with(&[1, 7, 8, 6]), Err(Differs));
        check(pushed, &[(0, 0), (0, 0)], &with(&[]), Err(Differs));
        let generated = r#"{"$push": {"l": {"$number": {}}}}, {"$push": {"l": 8}}"#;
        check(generated, &[(1, 2), (1, 1)], &with(&[1, 700, 8]), Ok((0, 0)));
        check(generated, &[(1, 2), (1, 1)], &with(&[1, 8]), Ok((1, 0)));
        check(generated, &[(1, 1), (1, 1)], &with(&[1, 8, 700, 700]), Ok((0, 1)));
    }

    #[test]
    fn a_set_has_every_acknowledged_value_once() {
        let with = |s: &[&str]| doc! {"n": 5, "t": "x", "l": [1], "s": s};
        let added = r#"{"$addToSet": {"s": "a"}}, {"$addToSet": {"s": "b"}}"#;
        check(added, &[(3, 3), (2, 2)], &with(&["a", "b"]), Ok((0, 0)));
        check(added, &[(3, 3), (2, 2)], &with(&["a"]), Ok((1, 0)));
        check(added, &[(3, 3), (2, 2)], &with(&["a", "b", "b"]), Ok((0, 1)));
        check(added, &[(1, 1), (0, 0)], &with(&["a", "b"]), Ok((0, 1)));
        let inserted = r#"{"$addToSet": {"l": "a"}}"#;
        check(inserted, &[(1, 1)], &doc! {"n": 5, "t": "x", "l": [1, "a"]}, Ok((0, 0)));
    }

    fn not_judged(field: &str, operator: &str) -> String {
        format!(
            "The field {field} is not judged: its values do not follow from the number of updates ({operator})."
        )
    }

    #[test]
    fn a_generated_value_is_no_constant_whatever_the_seed() {
        let section: Section =
            serde_json::from_str(r#"{"collection": "d.c", "document": {"n": 5}}"#).unwrap();
        for (update, expected) in [
            (r#"{"$set": {"b": {"$bool": {}}}}"#, not_judged("b", "$set")),
            (r#"{"$set": {"b": {"$pick": ["x", "y"]}}}"#, not_judged("b", "$set")),
            (
                r#"{"$set": {"b": {"$pick": {"from": ["x", "y"], "weights": [97, 3]}}}}"#,
                not_judged("b", "$set"),
            ),
            (r#"{"$inc": {"n": {"$optional": {"probability": 0.9, "value": 1}}}}"#, not_judged("n", "$inc")),
            (
                r#"{"$unset": {"b": {"$optional": {"probability": 0.9, "value": 1}}}}"#,
                not_judged("b", "$unset"),
            ),
            (r#"{"$inc": {"n": 1}, "$set": {"b": {"$bool": {}}}}"#, not_judged("b", "$set")),
        ] {
            let operation = format!(r#"{{"update": {{"update": {update}}}}}"#);
            let operations = [("op".to_owned(), serde_json::from_str::<Operation>(&operation).unwrap())];
            for seed in 0..40 {
                let context = Context { seed, run: Run { time_s: 1, tag: [1, 2, 3] }, base: Path::new(".") };
                let setup = Setup::build(&section, &operations, context).unwrap();
                assert_eq!(setup.not_judged, [expected.as_str()], "{update}, seed {seed}");
            }
        }
    }

    #[test]
    fn updates_whose_fields_a_generator_chooses_are_not_judged() {
        let reason = "The changes by op are not judged: a generator chooses the fields.";
        for update in [
            r#"{"$set": {"$pick": [{"a": 1}, {"b": 1}]}}"#,
            r#"{"$inc": {"$pick": [{"n": 1}, {"m": 1}]}}"#,
            r#"{"$rename": {"t": {"$pick": ["u", "v"]}}}"#,
            r#"{"$set": {"t": "y"}, "$unset": {"$optional": {"value": {"l": ""}}}}"#,
        ] {
            let setup = updates_of(update);
            assert_eq!((setup.not_judged, setup.effects), (vec![reason.to_owned()], None), "{update}");
        }
    }

    #[test]
    fn an_update_that_may_append_no_element_or_several_is_not_judged() {
        for (update, operator) in [
            (r#"{"$push": {"l": {"$optional": {"value": {"$number": {}}}}}}"#, "$push"),
            (r#"{"$push": {"k": {"$optional": {"value": 1}}, "l": {"$same": "k"}}}"#, "$push"),
            (r#"{"$push": {"l": {"$pick": [{"$each": [1, 2]}, 3]}}}"#, "$push"),
            (r#"{"$addToSet": {"l": {"$optional": {"value": "a"}}}}"#, "$addToSet"),
        ] {
            let named = updates_of(update).not_judged;
            assert!(named.contains(&not_judged("l", operator)), "{update}: {named:?}");
        }
        let optional_inside = r#"{"$push": {"l": {"a": {"$optional": {"value": 1}}}}}"#;
        assert_eq!(updates_of(optional_inside).not_judged, Vec::<String>::new());
    }

    #[test]
    fn numbers_in_a_set_are_not_judged_because_the_server_takes_those_of_other_types_for_equal() {
        for value in ["1", "1.5", r#"{"$numberDecimal": "1"}"#, r#"[{"a": 1}]"#] {
            let named = updates_of(&format!(r#"{{"$addToSet": {{"l": {value}}}}}"#)).not_judged;
            assert_eq!(named, [not_judged("l", "$addToSet")], "{value}");
        }
    }

    #[test]
    fn fields_that_no_update_changes_are_as_inserted() {
        let updates = r#"{"$inc": {"n": 1}}, {"$push": {"l": 2}}"#;
        check(updates, &[(0, 0), (0, 0)], &doc! {"n": 5, "t": "y", "l": [1]}, Err(Differs));
        check(updates, &[(0, 0), (0, 0)], &doc! {"n": 5, "t": "x", "l": [1], "z": 1}, Err(Differs));
        check(updates, &[(0, 0), (0, 0)], &doc! {"l": [1], "t": "x", "n": 5}, Ok((0, 0)));
    }

    #[test]
    fn a_change_that_cannot_be_judged_is_named_and_the_rest_is_judged() {
        for (operation, expected) in [
            (
                r#"{"update": {"update": {"$mul": {"n": 2}}}}"#,
                "The field n is not judged: its values do not follow from the number of updates ($mul).",
            ),
            (
                r#"{"update": {"update": {"$set": {"s": {"$number": {}}}}}}"#,
                "The field s is not judged: its values do not follow from the number of updates ($set).",
            ),
            (
                r#"{"update": {"update": {"one_of": [{"$inc": {"n": 1}}, {"$max": {"n": 9}}]}}}"#,
                "The field n is not judged: its values do not follow from the number of updates ($inc and $max).",
            ),
            (
                r#"{"update": {"update": {"$inc": {"a.b": 1}}}}"#,
                "The field a is not judged: its values do not follow from the number of updates ($inc).",
            ),
            (
                r#"{"update": {"update": {"$inc": {"t": 1, "n": 1}}}}"#,
                "The field t is not judged: its values do not follow from the number of updates ($inc).",
            ),
            (
                r#"{"update": {"update": {"$push": {"l": {"$each": [1], "$slice": 2}}}}}"#,
                "The field l is not judged: its values do not follow from the number of updates ($push).",
            ),
        ] {
            let setup = plan(&[r#"{"update": {"update": {"$inc": {"other": 1}}}}"#, operation]);
            assert_eq!(setup.not_judged, [expected], "{operation}");
            assert!(setup.effects.is_some() && setup.counters.is_none());
        }
        for (operation, reason) in [
            (
                r#"{"update": {"filter": {}, "update": {"$inc": {"n": 1}}}}"#,
                "a filter chooses the documents, so that any document may have changed",
            ),
            (
                r#"{"delete": {"filter": {}}}"#,
                "a filter chooses the documents, so that any document may have changed",
            ),
            (
                r#"{"update": {"upsert": true, "update": {"$inc": {"n": 1}}}}"#,
                "an upsert may insert a document",
            ),
            (
                r#"{"transaction": {"operations": [{"update": {"update": {"$inc": {"n": 1}}}}]}}"#,
                "it updates documents inside of transactions",
            ),
        ] {
            let setup = plan(&[r#"{"update": {"update": {"$inc": {"n": 1}}}}"#, operation]);
            assert_eq!(
                setup.not_judged,
                [format!("The changes by op are not judged: {reason}.")],
                "{operation}"
            );
        }
        let replaced = plan(&[r#"{"replace": {}}"#, r#"{"update": {"update": {"$inc": {"n": 1}}}}"#]);
        let reason = "The changes by op are not judged: other operations replace the same documents.";
        assert_eq!((replaced.not_judged, replaced.effects), (vec![reason.to_owned()], None));
        let set = r#"{"$set": {"s": {"$number": {}}}}"#;
        let many = updates_of(&[vec![set; 20].join(", ").as_str(), r#"{"$inc": {"n": 1}}"#].join(", "));
        let effects = many.effects.unwrap();
        assert_eq!([0, 19].map(|update| effects.purpose(0, update)), [Purpose::Unjudged; 2]);
        assert_eq!([20, 21].map(|update| effects.purpose(0, update)), [Purpose::Update(0), Purpose::Touch]);
        let nine = vec![r#"{"$inc": {"n": 1}}"#; usize::from(KINDS_MAX) + 1].join(", ");
        let reason = "The changes by op are not judged: the ledger follows 8 kinds of updates.";
        assert_eq!(updates_of(&nine).not_judged, [reason]);
    }
}
