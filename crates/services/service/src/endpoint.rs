//! Defines an endpoint: one method of one path, the body it accepts, and its answer.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use serde_json::Value;

use crate::body::{self, Media, Takes};
use crate::budget::Reservation;
use crate::context::Context;
use crate::lines::Lines;
use crate::name;
use crate::problem::{Kind, Problem};
use crate::query::Query;
use crate::reply::Answer;
use crate::security::Scope;

/// One method of one path. The middleware has checked caller, scope, rate and size before it calls `answer`.
pub trait Endpoint<S>: 'static {
    /// The method.
    const METHOD: Method;
    /// The path, with `{name}` for a variable part.
    const PATH: &'static str;
    /// The name in metrics and in the OpenAPI description.
    const NAME: &'static str;
    /// The required scope. `None` opens the endpoint to everyone, without limits on requests.
    const SCOPE: Option<Scope>;
    /// The body that it accepts.
    const TAKES: Takes;
    /// The part of the service that identifies the caller.
    const IDENTIFIES: Identifies = Identifies::Middleware;
    /// The refusals of the endpoint itself, besides those of the middleware.
    const REFUSES: &'static [Kind] = &[];

    /// Answers a request.
    fn answer(context: Arc<Context<S>>, call: Call) -> impl Future<Output = Answer> + Send;

    /// The operation object of OpenAPI, without the parts that follow from the constants.
    fn describe() -> Value;
}

/// The part of a service that identifies callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifies {
    /// The middleware, by keys and tokens. It also checks the scope.
    Middleware,
    /// The endpoint, by the headers of the call. The middleware limits the rate of each address, and checks no scope.
    Endpoint,
}

/// A request that has passed the middleware.
pub struct Call {
    /// The variable parts of the path, decoded.
    pub params: Vec<(String, String)>,
    /// The query, not decoded.
    pub query: Option<String>,
    /// The address of the client, or of the proxy in front of the service.
    pub address: IpAddr,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The format of the body.
    pub media: Media,
    /// The body of a stream, until the endpoint takes it.
    pub(crate) lines: Mutex<Option<Lines>>,
    /// Reserves the memory of the body until the request is answered.
    pub(crate) _memory: Option<Reservation>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("params", &self.params)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// The lines of a body of [`Takes::Stream`]; `None` the second time.
    pub fn lines(&self) -> Option<Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A name in the path.
    ///
    /// # Errors
    /// The value is not a valid name.
    pub fn name(&self, param: &str) -> Result<&str, Problem> {
        let value = self.params.iter().find(|(name, _)| name == param).map_or("", |(_, value)| value);
        match name::fault(value, name::BYTES_MAX) {
            Some(reason) => Err(Problem::field(param, reason)),
            None => Ok(value),
        }
    }

    /// The query; `known` lists the accepted keys.
    ///
    /// # Errors
    /// An unknown or duplicate key.
    pub fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::parse(self.query.as_deref(), known)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// The body is not JSON, or has a duplicate key.
    pub fn json(&self) -> Result<Value, Problem> {
        body::json(&self.body)
    }
}
