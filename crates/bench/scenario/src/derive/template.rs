//! Turns a profile into a document template.

use bson::Bson;
use plimsoll_document::ARRAY_ITEMS_MAX;
use serde_json::{Value, json};

use super::labels::{numbers_over, synthetic, text_of};
use super::numbers::{Numbers, rounded, settings};
use super::values::{Fields, Group, Kind, Values};
use super::yaml::{Entry, Tree};

/// The field in which Plimsoll stores its stamp.
const STAMP: &str = plimsoll_document::STAMP_FIELD;
/// The largest number of different numbers or dates that become a choice; texts have a larger limit.
const NUMBERS_FEW: usize = 12;
/// From this number of fields on, rare names count as data: the documents are dictionaries.
const DICTIONARY_MIN: usize = 12;
/// Names count as data if a field is on average in less than this share of the documents.
const DICTIONARY_SHARE: f64 = 0.1;
/// The number of constants that stand for the numbers or dates of one type in a choice of several types.
const STAND_INS: usize = 8;
/// The longest text or binary value in a choice of several types, in bytes.
const STAND_IN_BYTES_MAX: u64 = 1_000;

/// Whether values of fields with few different values are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyValues {
    /// All values are synthetic.
    No,
    /// These values are copied.
    Yes,
}

/// The sizes of texts and arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// A range with the same mean and deviation.
    Ranges,
    /// Always the mean: the largest documents would be too large.
    Means,
}

/// The level of fields in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Top,
    Inside,
}

/// The rules of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker {
    pub(super) copy: CopyValues,
    pub(super) sizes: Sizes,
}

impl Maker {
    /// The top-level fields, without those that Plimsoll writes itself.
    pub(super) fn document(self, fields: &Fields) -> Vec<Entry> {
        self.entries(fields, Level::Top)
    }

    fn entries(self, fields: &Fields, level: Level) -> Vec<Entry> {
        let is_ours = |name: &str| level == Level::Top && (name == "_id" || name == STAMP);
        let names = names(fields, level);
        let kept = fields.fields.iter().zip(names).filter(|(field, _)| !is_ours(&field.name));
        kept.map(|(field, name)| self.entry(fields.documents, &field.name, name, &field.values)).collect()
    }

    fn entry(self, documents: u64, original: &str, name: String, values: &Values) -> Entry {
        let present = (values.count as f64 / documents.max(1) as f64).min(1.0);
        let is_null = if has_parts(values) { values.share(Kind::Null) } else { 0.0 };
        let mut notes = vec![described(values, self.few(values).map(<[_]>::len))];
        notes.extend((present < 1.0).then(|| format!("in {} of the documents", percent(present))));
        notes.extend((is_null > 0.0).then(|| "missing instead of null here".to_owned()));
        notes.extend((name != original).then(|| renamed(original).to_owned()));
        let share = present * (1.0 - is_null);
        let tree = self.value(values);
        let tree = if share < 1.0 { optional(share, tree) } else { tree };
        Entry { key: name, comment: Some(notes.join("; ")), tree }
    }

    /// The template of the values at one path. If some values have parts, the template describes only
    /// these, because a choice can hold only constants.
    fn value(self, values: &Values) -> Tree {
        let ranked = values.ranked();
        if let Some(group) = ranked.iter().find(|group| group.kind.has_parts()) {
            return self.with_parts(group);
        }
        if let Some(few) = self.few(values) {
            let from = if self.copy == CopyValues::Yes { copies(few) } else { synthetic(few) };
            return Tree::Flow(pick(from, few.iter().map(|(_, count)| *count as f64).collect()));
        }
        match ranked.as_slice() {
            [] => Tree::Flow(Value::Null),
            [group] => Tree::Flow(self.scalar(group)),
            several => Tree::Flow(mixed(several)),
        }
    }

    /// The different values at one path, if they become a choice.
    fn few(self, values: &Values) -> Option<&[(Bson, u64)]> {
        let is_bool = matches!(values.groups.as_slice(), [group] if group.kind == Kind::Bool);
        let has_text = values.groups.iter().any(|group| group.kind == Kind::Text);
        let few = values.distinct.few().filter(|_| !is_bool)?;
        (has_text || few.len() <= NUMBERS_FEW).then_some(few)
    }

    fn with_parts(self, group: &Group) -> Tree {
        if group.kind == Kind::Document {
            let entries = self.entries(&group.fields, Level::Inside);
            return if entries.is_empty() { Tree::Flow(json!({})) } else { Tree::Block(entries) };
        }
        match &group.items {
            Some(items) if items.count > 0 => {
                let length = self.length(&group.numbers, ARRAY_ITEMS_MAX as u64);
                let length = if length.0 == length.1 { json!(length.0) } else { range(length) };
                let of = Entry::plain("of", self.value(items));
                let settings = Tree::of(vec![Entry::plain("length", Tree::Flow(length)), of]);
                Tree::of(vec![Entry::plain("$array", settings)])
            }
            _ => Tree::Flow(json!([])),
        }
    }

    /// The smallest and the largest size.
    fn length(self, numbers: &Numbers, limit: u64) -> (u64, u64) {
        let (low, high) = match self.sizes {
            Sizes::Ranges => numbers.even(),
            Sizes::Means => (numbers.middle(), numbers.middle()),
        };
        (low.min(limit), high.min(limit))
    }

    /// The setting for the sizes of texts or binary data. `exact` is its key if all have the same size.
    /// `None` if all are empty.
    fn lengths(self, numbers: &Numbers, exact: &str) -> Option<Value> {
        match self.length(numbers, u64::MAX) {
            (0, 0) => None,
            (low, high) if low == high => Some(json!({exact: low})),
            lengths => Some(range(lengths)),
        }
    }

    fn scalar(self, group: &Group) -> Value {
        let numbers = &group.numbers;
        match group.kind {
            Kind::Int => json!({"$int": whole(numbers, i64::from(i32::MIN), i64::from(i32::MAX))}),
            Kind::Long => json!({"$long": whole(numbers, i64::MIN, i64::MAX)}),
            Kind::Double if numbers.count > 0 => {
                let (low, high) = numbers.range(0.0);
                json!({"$double": settings(json!(low), json!(high), numbers.distribution(low))})
            }
            Kind::Decimal if numbers.count > 0 => decimal(group),
            Kind::Text => self.lengths(numbers, "bytes").map_or_else(|| "".into(), |it| json!({"$text": it})),
            Kind::Bytes => {
                self.lengths(numbers, "size").map_or_else(|| stand_in(group), |it| json!({"$bytes": it}))
            }
            Kind::Bool => json!({"$bool": {"probability": share(group.trues, group.count)}}),
            Kind::Date => date(numbers),
            Kind::ObjectId => json!({"$object_id": {}}),
            Kind::Uuid => json!({"$uuid": {}}),
            _ => stand_in(group),
        }
    }
}

/// The reason to replace a field's name.
fn renamed(original: &str) -> &'static str {
    if original.starts_with('$') {
        "its name begins with `$`, which a template cannot write"
    } else {
        "its name counts as data: each of many fields is in few documents"
    }
}

/// The names of the fields in the template. Names that are data are replaced.
fn names(fields: &Fields, level: Level) -> Vec<String> {
    let known = &fields.fields;
    let values: u64 = known.iter().map(|field| field.values.count).sum();
    let mean_share = values as f64 / (known.len().max(1) as f64 * fields.documents.max(1) as f64);
    if known.len() >= DICTIONARY_MIN && mean_share < DICTIONARY_SHARE {
        return (0..known.len()).map(|index| format!("key{index}")).collect();
    }
    let has = |name: &str| known.iter().any(|field| field.name == name);
    let is_reference = level == Level::Inside && has("$ref") && has("$id");
    let mut names: Vec<String> = Vec::new();
    for field in known {
        let mut name = field.name.clone();
        let is_taken = |name: &str, names: &[String]| {
            name != field.name
                && (names.iter().any(|it| it == name) || known.iter().any(|it| it.name == name))
        };
        if !is_reference && name.starts_with('$') {
            name.insert(0, '_');
        }
        while is_taken(&name, &names) {
            name.insert(0, '_');
        }
        names.push(name);
    }
    names
}

fn has_parts(values: &Values) -> bool {
    values.groups.iter().any(|group| group.kind.has_parts())
}

fn optional(share: f64, value: Tree) -> Tree {
    let probability = Entry::plain("probability", Tree::Flow(json!(rounded(share))));
    Tree::of(vec![Entry::plain("$optional", Tree::of(vec![probability, Entry::plain("value", value)]))])
}

/// A template that picks one of several constants by weight. A single constant stands for itself.
fn pick(from: Vec<Value>, weights: Vec<f64>) -> Value {
    let whole =
        |weight: f64| if weight.fract() == 0.0 { json!(weight as u64) } else { json!(rounded(weight)) };
    match from.as_slice() {
        [only] => only.clone(),
        _ => json!({"$pick": {"from": from, "weights": weights.into_iter().map(whole).collect::<Vec<_>>()}}),
    }
}

/// The values themselves, in a form that keeps their types.
fn copies(values: &[(Bson, u64)]) -> Vec<Value> {
    let copy = |(value, _): &(Bson, u64)| match value {
        Bson::Int32(_) | Bson::String(_) | Bson::Boolean(_) | Bson::Null => {
            value.clone().into_relaxed_extjson()
        }
        other => other.clone().into_canonical_extjson(),
    };
    values.iter().map(copy).collect()
}

/// A choice among constants that stand for the values of each type.
fn mixed(groups: &[&Group]) -> Value {
    let (mut from, mut weights) = (Vec::new(), Vec::new());
    for group in groups {
        let values = match group.kind {
            Kind::Bool => {
                weights.extend([group.trues as f64, (group.count - group.trues) as f64]);
                from.extend([json!(true), json!(false)]);
                continue;
            }
            Kind::Int | Kind::Long | Kind::Double | Kind::Decimal | Kind::Date if group.numbers.count > 0 => {
                numbers_over(&group.numbers, group.kind, STAND_INS)
            }
            Kind::Text => texts(&group.numbers),
            _ => vec![stand_in(group)],
        };
        weights.extend(std::iter::repeat_n(group.count as f64 / values.len() as f64, values.len()));
        from.extend(values);
    }
    pick(from, weights)
}

/// Texts of the smallest, the mean and the largest size.
fn texts(numbers: &Numbers) -> Vec<Value> {
    let (low, high) = numbers.even();
    let mut sizes = vec![low, numbers.middle(), high];
    sizes.dedup();
    sizes.into_iter().map(|bytes| text_of(bytes.min(STAND_IN_BYTES_MAX) as usize).into()).collect()
}

/// One constant for a type without a generator.
fn stand_in(group: &Group) -> Value {
    match group.kind {
        Kind::Double => json!({"$numberDouble": "NaN"}),
        Kind::Decimal => json!({"$numberDecimal": "NaN"}),
        Kind::ObjectId => json!({"$oid": "000000000000000000000001"}),
        Kind::Uuid => json!({"$uuid": "00000000-0000-4000-8000-000000000001"}),
        Kind::Bytes => binary(group.numbers.middle().min(STAND_IN_BYTES_MAX) as usize),
        Kind::Other("regex") => json!({"$regularExpression": {"pattern": "a", "options": ""}}),
        Kind::Other("javascript") => json!({"$code": "1"}),
        Kind::Other("javascriptWithScope") => json!({"$code": "1", "$scope": {}}),
        Kind::Other("timestamp") => json!({"$timestamp": {"t": 1, "i": 1}}),
        Kind::Other("symbol") => json!({"$symbol": "a"}),
        Kind::Other("undefined") => json!({"$undefined": true}),
        Kind::Other("maxKey") => json!({"$maxKey": 1}),
        Kind::Other("minKey") => json!({"$minKey": 1}),
        _ => Value::Null,
    }
}

fn binary(bytes: usize) -> Value {
    let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0; bytes] };
    Bson::Binary(binary).into_canonical_extjson()
}

fn whole(numbers: &Numbers, least: i64, greatest: i64) -> Value {
    let (low, high) = numbers.range(1.0);
    let (min, max) = ((low as i64).max(least), (high as i64).min(greatest));
    settings(json!(min), json!(max), numbers.distribution(low)).into()
}

fn decimal(group: &Group) -> Value {
    let limit = 9e15 / 10_f64.powi(group.places as i32);
    let (low, high) = group.numbers.range(0.0);
    let (low, high) = (low.clamp(-limit, limit), high.clamp(-limit, limit));
    let mut settings = settings(json!(low), json!(high), group.numbers.distribution(low));
    settings.insert("places".into(), group.places.into());
    json!({"$decimal": settings})
}

fn date(numbers: &Numbers) -> Value {
    let (first, last) = numbers.range(1_000.0);
    let start = bson::DateTime::from_millis(first as i64).try_to_rfc3339_string();
    let start = start.unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned());
    let seconds = ((last - first) / 1_000.0).clamp(0.0, 9e12) as u64;
    json!({"$date": {"start": start, "within": format!("{seconds}s")}})
}

fn range((low, high): (u64, u64)) -> Value {
    json!({"min": low, "max": high})
}

fn share(part: u64, of: u64) -> f64 {
    rounded(part as f64 / of.max(1) as f64)
}

/// The types of the values, with their shares and their sizes.
fn described(values: &Values, few: Option<usize>) -> String {
    let ranked = values.ranked();
    let kinds: Vec<_> = match ranked.as_slice() {
        [group] => vec![format!("{}{}", group.kind.name(), sizes(group))],
        several => several
            .iter()
            .map(|group| {
                let share = percent(group.count as f64 / values.count.max(1) as f64);
                format!("{} {share}{}", group.kind.name(), sizes(group))
            })
            .collect(),
    };
    let few = few.map(|count| format!(", {count} different")).unwrap_or_default();
    let odd = if has_parts(values) && ranked.iter().filter(|group| group.kind != Kind::Null).count() > 1 {
        "; the other types are left out"
    } else {
        ""
    };
    format!("{}{few}{odd}", kinds.join(", "))
}

fn sizes(group: &Group) -> String {
    let unit = match group.kind {
        Kind::Text | Kind::Bytes => "bytes",
        Kind::Array => "items",
        _ => return String::new(),
    };
    let numbers = &group.numbers;
    if numbers.min == numbers.max {
        return format!(" of {} {unit}", numbers.min);
    }
    format!(" of {} to {} {unit}, mean {:.1}", numbers.min, numbers.max, numbers.mean)
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 1.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}
