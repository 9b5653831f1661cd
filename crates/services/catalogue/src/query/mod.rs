//! Translates the queries of clients into queries of MongoDB: a whitelist of operators, within bounds of depth, length and work.
//!
//! Every result is a part of `{$and: [ACCESS, client]}` ([`under`]), so no query of a client can widen its access.
//!
//! * [`filter`]: `filter` of version 3 and of version 4.
//! * [`full`]: `fields` and `limits` of version 3's `fullquery`.
//! * [`facets`]: `facets` of `fullfacet`.
//! * [`history`]: the filter of the history.
//! * [`page`]: skip, limit, sort and the cursor of a list; [`mod@include`]: the relations that an answer includes.

pub mod facets;
pub mod files;
pub mod filter;
pub mod full;
pub mod history;
pub mod include;
pub mod page;

mod bounds;
mod clause;
mod dialect;
mod field;
mod literal;
mod pattern;
mod scientific;

#[cfg(test)]
mod hostile_tests;

use bson::{Document, doc};
use serde_json::Value;

use crate::Refusal;
use crate::refusal::shortened;

pub use bounds::{LIMIT_MAX, SKIP_MAX};
pub use dialect::Dialect;

/// A translated query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Find {
    /// The client's conditions.
    pub filter: Document,
    /// The fields of the answer; all if absent.
    pub projection: Option<Document>,
    /// The page.
    pub page: page::Page,
    /// The relations that the answer includes.
    pub include: Vec<include::Relation>,
}

impl Find {
    /// The query of a list that a cursor pages: from its start, or after a place. A list without an order begins with the newest dataset.
    /// The query also shows the field of the order, because the cursor contains it. Without an order, a query of version 3 follows every
    /// cursor. A query of version 4 then has its default order, and follows only cursors of that order.
    ///
    /// # Errors
    /// No cursor can page the order of the list, or the cursor is of a list with another order.
    pub fn followed(mut self, after: Option<&page::Cursor>) -> Result<Self, Refusal> {
        if let Some(cursor) = after {
            if !self.page.sort.is_empty() && self.page.sort != cursor.sort() {
                return Err(Refusal::bad(
                    "`after` is the cursor of a list with another order: repeat the query of that list, or begin with an empty `after`",
                ));
            }
            self.page.sort = cursor.sort();
        } else if self.page.sort.is_empty() {
            self.page.sort = doc! {page::KEYSET[0]: -1, "_id": -1};
        }
        let Some(name) = page::Cursor::field(&self.page.sort) else {
            let dates = page::KEYSET.join(", ");
            return Err(Refusal::bad(format!(
                "`after` pages a list by one date, the newest first: order it by one of {dates}, or page with skip"
            )));
        };
        if let Some(projection) = &mut self.projection {
            projection.insert(name, 1);
        }
        Ok(self)
    }
}

/// The filter of a query: both the client's conditions and the caller's access. The client's come first, because they leave fewer datasets:
/// a server may choose its index by the first condition. An access to everything is no condition: the embedded server reads all documents for an
/// empty part of an `$and`.
#[must_use]
pub fn under(access: &Document, client: &Document) -> Document {
    match (access.is_empty(), client.is_empty()) {
        (true, _) => client.clone(),
        (false, true) => doc! {"$and": [access]},
        (false, false) => doc! {"$and": [client, access]},
    }
}

/// Parses a parameter that holds JSON; `{}` if it is absent or empty.
///
/// # Errors
/// It is too long, or no JSON without duplicate keys.
fn parameter(name: &str, text: Option<&str>) -> Result<Value, Refusal> {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("{}");
    if text.len() > bounds::TEXT_BYTES_MAX {
        let most = bounds::TEXT_BYTES_MAX;
        return Err(Refusal::bad(format!("{name} has {} bytes: at most {most} are accepted", text.len())));
    }
    plimsoll_service::strict_json::parse(text.as_bytes())
        .map_err(|error| Refusal::bad(format!("Invalid JSON in {name}: {error}")))
}

/// The refusal of an unknown property, in SciCat's words.
fn unknown(property: &str) -> Refusal {
    Refusal::bad(format!("Property {} should not exist in the filter object", shortened(property)))
}

/// Joins conditions. Two conditions on one field stay two.
pub(crate) fn all(mut conditions: Vec<Document>) -> Document {
    conditions.retain(|condition| !condition.is_empty());
    if conditions.len() == 1 { conditions.remove(0) } else { joined("$and", conditions) }
}

/// Joins any number of conditions by an operator. Without conditions, the result is empty.
fn joined(operator: &str, conditions: Vec<Document>) -> Document {
    if conditions.is_empty() {
        Document::new()
    } else {
        doc! {operator: conditions}
    }
}
