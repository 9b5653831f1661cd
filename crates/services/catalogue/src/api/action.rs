//! Makes endpoints of actions: identifies the caller, reads the query, and answers in SciCat's shapes.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use bson::DateTime;
use plimsoll_service::openapi::responses;
use plimsoll_service::{
    Answer, BudgetError, Call, Endpoint, Identifies, Reservation, Scope, Takes, blocking, body, reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{identity, problems, tag};
use crate::Refusal;
use crate::access::{Caller, User};

/// Bytes of memory that a document takes as JSON, for each of its stored bytes.
const JSON_FACTOR: usize = 6;
/// The length in bytes above which a body is parsed on another thread.
const INLINE_BYTES_MAX: usize = 256 << 10;
/// The maximum number of parameters in a query.
const PARAMETERS_MAX: usize = 100;

/// A method of a path.
pub(super) trait Action: 'static {
    const METHOD: Method;
    const PATH: &'static str;
    const NAME: &'static str;
    const TAKES: Takes;
    const SUMMARY: &'static str;

    fn run(request: Request) -> impl Future<Output = Result<Reply, Refusal>> + Send;
}

/// Defines an action: its type, method, path, name, body, summary and function.
macro_rules! action {
    ($Name:ident, $method:ident $path:literal, $name:literal, $takes:ident, $summary:literal, $run:expr) => {
        struct $Name;

        impl $crate::api::action::Action for $Name {
            const METHOD: axum::http::Method = axum::http::Method::$method;
            const PATH: &'static str = $path;
            const NAME: &'static str = $name;
            const TAKES: plimsoll_service::Takes = plimsoll_service::Takes::$takes;
            const SUMMARY: &'static str = $summary;

            async fn run(
                request: $crate::api::action::Request,
            ) -> Result<$crate::api::action::Reply, $crate::Refusal> {
                ($run)(request).await
            }
        }
    };
}

pub(super) use action;

/// A request with its caller.
pub(super) struct Request {
    context: Arc<Context>,
    /// The request.
    pub(super) call: Call,
    /// Its sender.
    pub(super) caller: Caller,
    query: Vec<(String, String)>,
    /// The memory of the stored documents of the answer, until the answer is made.
    memory: Reservation,
}

/// An answer.
pub(super) enum Reply {
    /// 200 with a body.
    Found(Value),
    /// 201 with a body.
    Created(Value),
    /// 200 without a body.
    Empty,
    /// A page.
    Page(Response<Body>),
}

impl Request {
    fn new(context: Arc<Context>, call: Call) -> Result<Self, Refusal> {
        let text = call.query.clone().unwrap_or_default();
        let pairs = form_urlencoded::parse(text.as_bytes()).take(PARAMETERS_MAX);
        let query: Vec<(String, String)> = pairs.map(|(name, value)| (name.into(), value.into())).collect();
        let access_token =
            query.iter().find(|(name, _)| name == "access_token").map(|(_, value)| value.as_str());
        let now_ms = context.clock.now_ms();
        let caller = identity::caller(&context.state.sessions, &call.headers, access_token, now_ms)?;
        let memory = context.answers.reservation();
        Ok(Self { context, call, caller, query, memory })
    }

    /// The same request by the user of the browser's cookie, if it names no user itself. Only pages may use it, because they change
    /// nothing: the page of another site can make a browser send its cookie.
    pub(super) fn of_browser(mut self) -> Self {
        if self.caller.user().is_none() {
            let (sessions, now_ms) = (&self.context.state.sessions, self.context.clock.now_ms());
            self.caller = identity::of_cookie(sessions, &self.call.headers, now_ms);
        }
        self
    }

    /// The state.
    pub(super) fn state(&self) -> &State {
        &self.context.state
    }

    /// Takes memory for the bytes of a stored document that the answer shows.
    ///
    /// # Errors
    /// Other answers use the memory, or the answer is too large.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Refusal> {
        self.reserve(bytes, "ask for fewer documents, or for some fields of them")
    }

    /// Takes memory for the bytes of a block of files that the answer shows.
    ///
    /// # Errors
    /// Other answers use the memory, or the answer is too large.
    pub(super) fn take_files(&self, bytes: usize) -> Result<(), Refusal> {
        self.reserve(
            bytes,
            "page the files of its dataset with GET /api/v3/origdatablocks/fullquery/files or /api/v4/origdatablocks/files",
        )
    }

    fn reserve(&self, bytes: usize, remedy: &str) -> Result<(), Refusal> {
        self.memory.grow(bytes.saturating_mul(JSON_FACTOR)).map_err(|error| match error {
            BudgetError::Busy => Refusal::Busy,
            BudgetError::TooLarge { .. } => Refusal::bad(format!("the answer is too large: {remedy}")),
        })
    }

    /// The time.
    pub(super) fn now(&self) -> DateTime {
        DateTime::from_millis(self.context.clock.now_ms())
    }

    /// The time on the monotonic clock.
    pub(super) fn now_ns(&self) -> u64 {
        self.context.clock.now_ns()
    }

    /// The user.
    ///
    /// # Errors
    /// [`Refusal::Unauthorized`] for an anonymous caller.
    pub(super) fn user(&self) -> Result<&User, Refusal> {
        self.caller.user().ok_or(Refusal::Unauthorized)
    }

    /// The name of the user; empty for an anonymous caller.
    pub(super) fn username(&self) -> &str {
        self.caller.user().map_or("", |user| &user.username)
    }

    /// A variable part of the path.
    pub(super) fn part(&self, name: &str) -> &str {
        self.call.params.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A parameter of the query. Its value is empty if the query has only its name.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(super) fn parameters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The filter: a parameter or a header, not both.
    ///
    /// # Errors
    /// Both are given, or the header is not ASCII.
    pub(super) fn filter(&self) -> Result<Option<&str>, Refusal> {
        let header = self.call.headers.get("filter").map(|value| value.to_str());
        match (self.parameter("filter"), header) {
            (Some(_), Some(_)) => {
                Err(Refusal::bad("give the filter as a parameter or as a header, not both"))
            }
            (parameter, None) => Ok(parameter),
            (None, Some(header)) => {
                header.map(Some).map_err(|_| Refusal::bad("the header filter is not ASCII"))
            }
        }
    }

    /// Reads the body as JSON and the value in it; a long body on another thread, so that other requests do not wait.
    ///
    /// # Errors
    /// The body is not JSON, or has a duplicate key, or `read` refuses it.
    pub(super) async fn parsed<T: Send + 'static>(
        &self,
        read: impl FnOnce(Value) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let body = self.call.body.clone();
        self.converted(move || read(body::json(&body).map_err(|problem| Refusal::bad(problem.detail()))?))
            .await
    }

    /// Runs work on the values of the body; of a long body on another thread.
    ///
    /// # Errors
    /// Those of the work.
    pub(super) async fn converted<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        apart(self.call.body.len(), work).await
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is not JSON, or has a duplicate key.
    pub(super) async fn json(&self) -> Result<Value, Refusal> {
        self.parsed(Ok).await
    }
}

/// Runs work on a text of this many bytes; on a long one on another thread, so that other requests do not wait.
///
/// # Errors
/// Those of the work.
pub(super) async fn apart<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    if bytes <= INLINE_BYTES_MAX {
        return work();
    }
    blocking::run(work).await.unwrap_or(Err(Refusal::Unavailable))
}

/// The endpoint of an action.
pub(super) struct Of<A>(PhantomData<A>);

impl<A: Action> Endpoint<State> for Of<A> {
    const METHOD: Method = A::METHOD;
    const PATH: &'static str = A::PATH;
    const NAME: &'static str = A::NAME;
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = A::TAKES;
    const IDENTIFIES: Identifies = Identifies::Endpoint;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        // Only a read may be left out of an answer (RFC 9110, section 13.1.2).
        let headers = if A::METHOD == Method::GET { call.headers.clone() } else { HeaderMap::new() };
        let answered = match Request::new(context, call) {
            Ok(request) => A::run(request).await,
            Err(refusal) => Err(refusal),
        };
        Ok(answered.map_or_else(|refusal| problems::refused(&refusal), |reply| reply.response(&headers)))
    }

    fn describe() -> Value {
        let status = if A::METHOD == Method::POST { 201 } else { 200 };
        json!({"summary": A::SUMMARY, "responses": responses(&[(status, "The answer.", None)])})
    }
}

impl Reply {
    fn response(self, request: &HeaderMap) -> Response<Body> {
        match self {
            Self::Found(body) => tag::json(StatusCode::OK, &body, request),
            Self::Created(body) => tag::json(StatusCode::CREATED, &body, request),
            Self::Empty => reply::empty(StatusCode::OK),
            Self::Page(page) => page,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn work_on_a_long_body_leaves_the_thread_of_the_requests() {
        let here = thread::current().id();
        for (bytes, is_apart) in [(0, false), (INLINE_BYTES_MAX, false), (INLINE_BYTES_MAX + 1, true)] {
            let there = apart(bytes, || Ok(thread::current().id())).await.unwrap();
            assert_eq!(there != here, is_apart, "{bytes}");
        }
        assert_eq!(apart(INLINE_BYTES_MAX + 1, || Err::<(), _>(Refusal::Busy)).await, Err(Refusal::Busy));
    }
}
