//! Sums up the values at one path of the documents, by their types.

use bson::raw::RawBsonRef;
use bson::spec::BinarySubtype;

use super::distinct::Distinct;
use super::numbers::Numbers;

/// The largest number of profiled items of one array.
const ITEMS_MAX: usize = 100;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Long,
    Double,
    Decimal,
    Text,
    Bool,
    Date,
    ObjectId,
    Uuid,
    Bytes,
    Document,
    Array,
    Null,
    /// Another type, with its name.
    Other(&'static str),
}

impl Kind {
    /// The name of the type as MongoDB's `$type` writes it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Long => "long",
            Self::Double => "double",
            Self::Decimal => "decimal",
            Self::Text => "string",
            Self::Bool => "bool",
            Self::Date => "date",
            Self::ObjectId => "objectId",
            Self::Uuid => "UUID",
            Self::Bytes => "binData",
            Self::Document => "object",
            Self::Array => "array",
            Self::Null => "null",
            Self::Other(name) => name,
        }
    }

    /// Whether its values have parts.
    pub(super) const fn has_parts(self) -> bool {
        matches!(self, Self::Document | Self::Array)
    }

    fn of(value: RawBsonRef<'_>) -> Self {
        match value {
            RawBsonRef::Int32(_) => Self::Int,
            RawBsonRef::Int64(_) => Self::Long,
            RawBsonRef::Double(_) => Self::Double,
            RawBsonRef::Decimal128(_) => Self::Decimal,
            RawBsonRef::String(_) => Self::Text,
            RawBsonRef::Boolean(_) => Self::Bool,
            RawBsonRef::DateTime(_) => Self::Date,
            RawBsonRef::ObjectId(_) => Self::ObjectId,
            RawBsonRef::Binary(binary) if binary.subtype == BinarySubtype::Uuid => Self::Uuid,
            RawBsonRef::Binary(_) => Self::Bytes,
            RawBsonRef::Document(_) => Self::Document,
            RawBsonRef::Array(_) => Self::Array,
            RawBsonRef::Null => Self::Null,
            RawBsonRef::RegularExpression(_) => Self::Other("regex"),
            RawBsonRef::JavaScriptCode(_) => Self::Other("javascript"),
            RawBsonRef::JavaScriptCodeWithScope(_) => Self::Other("javascriptWithScope"),
            RawBsonRef::Timestamp(_) => Self::Other("timestamp"),
            RawBsonRef::Symbol(_) => Self::Other("symbol"),
            RawBsonRef::Undefined => Self::Other("undefined"),
            RawBsonRef::MaxKey => Self::Other("maxKey"),
            RawBsonRef::MinKey => Self::Other("minKey"),
            RawBsonRef::DbPointer(_) => Self::Other("dbPointer"),
        }
    }
}

/// The values at one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) count: u64,
    pub(super) groups: Vec<Group>,
    pub(super) distinct: Distinct,
}

/// The values of one type.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) count: u64,
    /// The summary of the numbers, of the milliseconds of dates, or of the sizes of texts, binary data and
    /// arrays.
    pub(super) numbers: Numbers,
    /// The number of values that are `true`.
    pub(super) trues: u64,
    /// The largest number of decimal places.
    pub(super) places: usize,
    /// The fields of documents.
    pub(super) fields: Fields,
    /// The items of arrays.
    pub(super) items: Option<Box<Values>>,
}

/// The fields at one path of the documents, in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// The number of documents.
    pub(super) documents: u64,
    pub(super) fields: Vec<Field>,
    /// The number of values that were left out, because the profile is full or nested too deep.
    pub(super) left_out: u64,
}

/// One field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) values: Values,
}

impl Values {
    /// Adds a value, and returns the group of its type. The caller adds the parts of a document or an array.
    pub(super) fn add(&mut self, value: RawBsonRef<'_>) -> &mut Group {
        self.count += 1;
        self.distinct.add(value);
        let kind = Kind::of(value);
        let index = self.groups.iter().position(|group| group.kind == kind).unwrap_or_else(|| {
            self.groups.push(Group::new(kind));
            self.groups.len() - 1
        });
        let group = &mut self.groups[index];
        group.add(value);
        group
    }

    /// The groups from the most to the least frequent.
    pub(super) fn ranked(&self) -> Vec<&Group> {
        let mut ranked: Vec<_> = self.groups.iter().collect();
        ranked.sort_by_key(|group| std::cmp::Reverse(group.count));
        ranked
    }

    /// The share of the values that have this type, from 0 to 1.
    pub(super) fn share(&self, kind: Kind) -> f64 {
        let count = self.groups.iter().find(|group| group.kind == kind).map_or(0, |group| group.count);
        count as f64 / self.count.max(1) as f64
    }
}

impl Group {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            numbers: Numbers::default(),
            trues: 0,
            places: 0,
            fields: Fields::default(),
            items: None,
        }
    }

    fn add(&mut self, value: RawBsonRef<'_>) {
        self.count += 1;
        match value {
            RawBsonRef::Int32(number) => self.numbers.add(number.into()),
            RawBsonRef::Int64(number) => self.numbers.add(number as f64),
            RawBsonRef::Double(number) => self.numbers.add(number),
            RawBsonRef::Decimal128(decimal) => self.add_decimal(&decimal.to_string()),
            RawBsonRef::String(text) => self.numbers.add(text.len() as f64),
            RawBsonRef::Boolean(is_true) => self.trues += u64::from(is_true),
            RawBsonRef::DateTime(date) => self.numbers.add(date.timestamp_millis() as f64),
            RawBsonRef::Binary(binary) => self.numbers.add(binary.bytes.len() as f64),
            RawBsonRef::Array(items) => self.numbers.add(items.into_iter().count() as f64),
            _ => {}
        }
    }

    fn add_decimal(&mut self, text: &str) {
        if let Ok(number) = text.parse() {
            self.numbers.add(number);
        }
        let places = text.split_once('.').map_or(0, |(_, places)| places.len());
        self.places = self.places.max(places.min(15));
    }
}

/// The items of an array that are profiled.
pub(super) fn items(value: RawBsonRef<'_>) -> impl Iterator<Item = RawBsonRef<'_>> {
    let array = value.as_array().into_iter();
    array.flat_map(|items| items.into_iter().map_while(Result::ok)).take(ITEMS_MAX)
}
