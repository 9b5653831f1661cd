//! Reads a line of k6's samples: the description of a metric, or a sample.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::foreign::k6::metric::{Contains, Kind};

/// One line of the file.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// `Metric` or `Point`.
    #[serde(rename = "type", borrow)]
    pub kind: Text<'a>,
    /// The metric's name.
    #[serde(borrow)]
    pub metric: Text<'a>,
    /// Its content.
    #[serde(borrow)]
    pub data: Data<'a>,
}

/// The content of both kinds of lines.
#[derive(Debug, Deserialize)]
pub(super) struct Data<'a> {
    /// The kind of a metric.
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// The kind of a metric's values: times, bytes, or plain numbers.
    #[serde(default)]
    pub contains: Contains,
    /// The thresholds of a metric.
    pub thresholds: Option<Vec<String>>,
    /// The submetrics of a metric.
    pub submetrics: Option<Vec<Submetric>>,
    /// The moment of a sample.
    #[serde(borrow)]
    pub time: Option<Text<'a>>,
    /// The value of a sample; times in milliseconds.
    pub value: Option<f64>,
    /// The tags of a sample.
    #[serde(borrow)]
    pub tags: Option<Tags<'a>>,
}

/// A metric's samples with certain tags.
#[derive(Debug, Deserialize)]
pub(super) struct Submetric {
    /// The metric's name with the tags.
    pub name: String,
    /// The tags that a sample of the submetric has.
    #[serde(default)]
    pub tags: Option<BTreeMap<String, String>>,
}

/// The tags of a sample.
pub(super) type Tags<'a> = BTreeMap<Text<'a>, Text<'a>>;

/// Text, borrowed from the line if possible.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The tag `name`, empty if there is none.
pub(super) fn tag<'t>(tags: &'t Tags<'_>, name: &str) -> &'t str {
    tags.get(name).map_or("", Text::as_str)
}
