//! Builds filters for the `_id`s before and after a given `_id`, in the order of the `_id` index.
//!
//! A comparison in a filter (`$gt`) matches only values of its own type, while the index continues with the next type. So the
//! filter also lists the types that follow.

use bson::spec::ElementType;
use bson::{Bson, Document, doc};

/// The types of an `_id`, in the order of the index. All numeric types count as one.
const TYPES: &[&str] = &[
    "minKey",
    "null",
    "number",
    "string",
    "object",
    "binData",
    "objectId",
    "bool",
    "date",
    "timestamp",
    "maxKey",
];

/// The rank of a value's type in the order of the index.
fn rank(value: &Bson) -> Option<usize> {
    let name = match value.element_type() {
        ElementType::MinKey => "minKey",
        ElementType::Null => "null",
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => "number",
        ElementType::String | ElementType::Symbol => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Binary => "binData",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Timestamp => "timestamp",
        ElementType::MaxKey => "maxKey",
        _ => return None,
    };
    TYPES.iter().position(|known| *known == name)
}

/// Whether a value can be an `_id`.
pub fn is_id(value: &Bson) -> bool {
    rank(value).is_some()
}

/// The filter for all documents after an `_id`.
pub fn behind(id: &Bson) -> Document {
    let types = rank(id).map_or(&[][..], |rank| &TYPES[rank + 1..]);
    doc! {"$or": [{"_id": {"$gt": id}}, {"_id": {"$type": types.to_vec()}}]}
}

/// The filter for an `_id` and all documents before it.
pub fn until(id: &Bson) -> Document {
    let types = rank(id).map_or(&[][..], |rank| &TYPES[..rank]);
    doc! {"$or": [{"_id": {"$lte": id}}, {"_id": {"$type": types.to_vec()}}]}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_include_the_types_before_or_after() {
        let filter = behind(&Bson::Int64(5));
        let types = vec!["string", "object", "binData", "objectId", "bool", "date", "timestamp", "maxKey"];
        assert_eq!(filter, doc! {"$or": [{"_id": {"$gt": 5_i64}}, {"_id": {"$type": types}}]});
        let filter = until(&Bson::String("m".into()));
        assert_eq!(
            filter,
            doc! {"$or": [{"_id": {"$lte": "m"}}, {"_id": {"$type": ["minKey", "null", "number"]}}]}
        );
        assert!(!is_id(&Bson::Array(vec![])) && is_id(&Bson::Int32(1)));
    }
}
