//! Lists the endpoints of a service as values.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::Method;
use serde_json::Value;

use crate::body::Takes;
use crate::context::Context;
use crate::endpoint::{Call, Endpoint, Identifies};
use crate::problem::Kind;
use crate::reply::Answer;
use crate::security::Scope;

/// The endpoints of a service, in the order of its description.
pub struct Routes<S>(Vec<Route<S>>);

/// An endpoint as a value.
pub struct Route<S> {
    /// The method.
    pub method: Method,
    /// The path, with `{name}` for a variable part.
    pub path: &'static str,
    /// The name in metrics and in the OpenAPI description.
    pub name: &'static str,
    /// The required scope.
    pub scope: Option<Scope>,
    pub(crate) identifies: Identifies,
    pub(crate) takes: Takes,
    pub(crate) describe: fn() -> Value,
    pub(crate) answer: AnswerFn<S>,
    refuses: &'static [Kind],
}

pub(crate) type AnswerFn<S> = fn(Arc<Context<S>>, Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

impl<S: Send + Sync + 'static> Routes<S> {
    /// No endpoints.
    #[expect(clippy::new_without_default, reason = "an empty list is only the start of a chain")]
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an endpoint.
    #[must_use]
    pub fn with<E: Endpoint<S>>(mut self) -> Self {
        self.0.push(Route {
            method: E::METHOD,
            path: E::PATH,
            name: E::NAME,
            scope: E::SCOPE,
            identifies: E::IDENTIFIES,
            takes: E::TAKES,
            describe: E::describe,
            answer: |context, call| Box::pin(E::answer(context, call)),
            refuses: E::REFUSES,
        });
        self
    }

    /// The endpoints.
    pub fn iter(&self) -> impl Iterator<Item = &Route<S>> {
        self.0.iter()
    }
}

impl<S> Route<S> {
    /// Whether everyone may send any number of requests.
    pub(crate) fn is_open(&self) -> bool {
        self.scope.is_none() && self.identifies == Identifies::Middleware
    }

    /// The kinds of refusal: those of the middleware, those of a failing dependency, and the endpoint's own.
    pub fn refusals(&self) -> impl Iterator<Item = Kind> {
        const GUARDED: [Kind; 8] = [
            Kind::Malformed,
            Kind::Unauthenticated,
            Kind::Forbidden,
            Kind::Invalid,
            Kind::RateLimited,
            Kind::Busy,
            Kind::Internal,
            Kind::Unavailable,
        ];
        const SIZED: [Kind; 3] = [Kind::Slow, Kind::TooLarge, Kind::MediaType];
        let guarded = GUARDED.into_iter().filter(|_| !self.is_open());
        let sized = SIZED.into_iter().filter(|_| self.takes != Takes::Nothing);
        guarded.chain(sized).chain(self.refuses.iter().copied())
    }
}
