//! What an endpoint is: one method of one path, what it takes, and what it does.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::Method;
use serde_json::Value;

use super::body::Media;
use super::problem::{Kind, Problem};
use super::query::Query;
use super::reply::Answer;
use super::security::scope::Scope;
use super::service::Service;
use crate::budget::Share;
use crate::feeds::NAME_BYTES_MAX;
use crate::reading::name_fault;

/// One method of one path. The gate has looked at the caller, the scope, the rate and the size before it is asked.
pub trait Endpoint: Send + Sync + 'static {
    /// The method.
    const METHOD: Method;
    /// The path, with `{name}` for what varies.
    const PATH: &'static str;
    /// The name in metrics and in the description of the interface.
    const NAME: &'static str;
    /// What a caller needs; nothing for an endpoint that is open to everyone, and then no limit on requests holds.
    const SCOPE: Option<Scope>;
    /// What body it takes.
    const TAKES: Takes;
    /// What it refuses by itself, besides what the gate refuses for it.
    const REFUSES: &'static [Kind] = &[];

    /// Does it.
    fn answer(service: Arc<Service>, call: Call) -> impl Future<Output = Answer> + Send;

    /// The operation object of OpenAPI, without what follows from the constants.
    fn describe() -> Value;
}

/// What body an endpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// JSON of an ordinary size.
    Json,
    /// A JSON array or lines of JSON, as large as a batch may be.
    Batch,
}

/// A request that has passed the gate.
#[derive(Debug)]
pub struct Call {
    /// The values of what varies in the path, decoded.
    pub params: Vec<(String, String)>,
    /// The query as it came.
    pub query: Option<String>,
    /// The body.
    pub body: Bytes,
    /// The body's type.
    pub media: Media,
    /// What the body takes of the budget, until the request is answered.
    pub(super) _share: Option<Share>,
}

impl Call {
    /// A name in the path: a sensor or a user.
    ///
    /// # Errors
    /// When it could be no name.
    pub fn name(&self, param: &str) -> Result<&str, Problem> {
        let value = self.params.iter().find(|(name, _)| name == param).map_or("", |(_, value)| value);
        match name_fault(value, NAME_BYTES_MAX) {
            Some(reason) => Err(Problem::field(param, reason)),
            None => Ok(value),
        }
    }

    /// The query, in which only these keys may stand.
    ///
    /// # Errors
    /// A key that may not.
    pub fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::parse(self.query.as_deref(), known)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> Result<Value, Problem> {
        super::body::json(&self.body)
    }
}
