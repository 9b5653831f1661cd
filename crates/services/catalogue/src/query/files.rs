//! Reads the queries for the files of a dataset.

use serde_json::{Map, Value};

use super::page::{self, Page};
use super::{Dialect, parameter, unknown};
use crate::Refusal;

/// Reads `fields` and `limits` of version 3: the dataset and the page.
///
/// # Errors
/// One of them is not JSON, or the query asks for more than the files of one dataset.
pub fn fields(fields: Option<&str>, limits: Option<&str>) -> Result<(String, Page), Refusal> {
    let pid = dataset(&parameter("fields", fields)?)?;
    Ok((pid, page(&parameter("limits", limits)?, Dialect::V3)?))
}

/// Reads the filter of version 4.
///
/// # Errors
/// Those of [`fields`].
pub fn filter(filter: Option<&str>) -> Result<(String, Page), Refusal> {
    let filter = parameter("filter", filter)?;
    let filter =
        filter.as_object().ok_or_else(|| Refusal::bad("Invalid JSON in filter: it needs an object"))?;
    if let Some(other) = filter.keys().find(|key| !["where", "limits"].contains(&key.as_str())) {
        return Err(unknown(other));
    }
    let part = |name: &str| filter.get(name).unwrap_or(&Value::Null);
    Ok((dataset(part("where"))?, page(part("limits"), Dialect::V4)?))
}

fn dataset(conditions: &Value) -> Result<String, Refusal> {
    let empty = Map::new();
    let conditions = conditions.as_object().unwrap_or(&empty);
    let pid = conditions.get("datasetId").and_then(Value::as_str).filter(|_| conditions.len() == 1);
    pid.map(str::to_owned).ok_or_else(|| Refusal::bad("files are listed by datasetId alone: give its PID"))
}

/// Reads a page. Files have one order.
fn page(limits: &Value, dialect: Dialect) -> Result<Page, Refusal> {
    if ["order", "sort"].iter().any(|key| limits.get(key).is_some_and(|order| !order.is_null())) {
        return Err(Refusal::bad("files are listed in the order of their blocks: leave out the order"));
    }
    page::page(limits, dialect)
}
