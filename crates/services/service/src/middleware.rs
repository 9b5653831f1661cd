//! Routes requests, and checks each in order: capacity, caller, rate, scope, body size, capacity again; then limits the endpoint's time.

use std::iter;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State as AxumState};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, Method, Response, request};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};

use crate::body::{self, Takes};
use crate::context::{Context, State};
use crate::cors::{self, Cors};
use crate::endpoint::{Call, Identifies};
use crate::metrics::EndpointMetrics;
use crate::problem::{Kind, Problem};
use crate::reply::Answer;
use crate::routes::{AnswerFn, Route, Routes};
use crate::security::{Caller, Scope, Unauthenticated};
use crate::sending::{self, Need};

/// The address of the client. Every connection adds it to its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The parts of a route that a request needs.
struct Handler<S> {
    scope: Option<Scope>,
    identifies: Identifies,
    takes: Takes,
    answer: AnswerFn<S>,
    metrics: Arc<EndpointMetrics>,
}

/// The router of a service. The context has one [`EndpointMetrics`] for each route.
pub(crate) fn router<S: State>(context: Arc<Context<S>>, routes: &Routes<S>, cors: Cors) -> Router {
    let mount = |router: Router<Arc<Context<S>>>, (route, metrics): (&Route<S>, &Arc<EndpointMetrics>)| {
        let handler = Arc::new(Handler {
            scope: route.scope,
            identifies: route.identifies,
            takes: route.takes,
            answer: route.answer,
            metrics: metrics.clone(),
        });
        let handle = move |AxumState(context), params: Params, request: Request| {
            let handler = handler.clone();
            async move { handler.handle(context, params.ok(), request).await }
        };
        router.route(route.path, on(filter(&route.method), handle))
    };
    let router = iter::zip(routes.iter(), &context.metrics).fold(Router::new(), mount);
    let no_path = || async {
        S::refusal(&Problem::new(Kind::NotFound, "the path does not exist: /openapi.json lists all paths"))
    };
    let no_method =
        || async { S::refusal(&Problem::new(Kind::Method, "the header Allow lists the supported methods")) };
    let router = router.fallback(no_path).method_not_allowed_fallback(no_method).with_state(context);
    if cors.is_empty() {
        return router;
    }
    router.layer(from_fn_with_state(Arc::new(cors), cors::layer))
}

type Params = Result<RawPathParams, RawPathParamsRejection>;

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET)
}

impl<S: State> Handler<S> {
    fn is_open(&self) -> bool {
        self.scope.is_none() && self.identifies == Identifies::Middleware
    }

    /// Answers a request and counts it.
    async fn handle(
        &self,
        context: Arc<Context<S>>,
        params: Option<RawPathParams>,
        request: Request,
    ) -> Response<Body> {
        let (begun_ns, is_read) = (context.clock.now_ns(), request.method().is_safe());
        let answer = self.checked(&context, params, request).await;
        let answer = answer.unwrap_or_else(|problem| S::refusal(&problem));
        let need = match self.is_open() {
            true => Need::Urgent,
            false if is_read || !answer.status().is_success() => Need::Refusable,
            false => Need::Settled,
        };
        let response = sending::charged(&context.answers, answer, need);
        self.metrics.record(response.status(), context.clock.now_ns().saturating_sub(begun_ns));
        response
    }

    async fn checked(
        &self,
        context: &Arc<Context<S>>,
        params: Option<RawPathParams>,
        request: Request,
    ) -> Answer {
        let (parts, body) = request.into_parts();
        if self.is_open() {
            // Open endpoints report the state of the service, so they need no capacity. They have no body.
            let call = call(context, Takes::Nothing, params, parts, Body::empty()).await?;
            return (self.answer)(context.clone(), call).await;
        }
        let places = if self.takes == Takes::Stream { &context.open_streams } else { &context.requests };
        if places.available_permits() == 0 {
            return Err(busy());
        }
        if context.answers.is_exhausted() {
            // A write cannot be refused after it has changed data.
            return Err(unread());
        }
        match self.scope {
            Some(scope) if self.identifies == Identifies::Middleware => authorize(context, scope, &parts)?,
            _ => check_rate(context, &Caller::Address(address(&parts)))?,
        }
        let call = call(context, self.takes, params, parts, body).await?;
        // A body may arrive slowly, so it takes no place here.
        let _place = places.try_acquire().map_err(|_| busy())?;
        if self.takes == Takes::Stream {
            // A stream may take as long as its lines arrive in time.
            return (self.answer)(context.clone(), call).await;
        }
        let limit = context.limits.request;
        match tokio::time::timeout(limit.duration(), (self.answer)(context.clone(), call)).await {
            Ok(answer) => answer,
            Err(_) => {
                let detail = format!("no answer within {limit}; the data may be stored: retry");
                Err(Problem::new(Kind::Unavailable, detail).retry_after(1))
            }
        }
    }
}

/// The problem of a client that does not take its answers.
fn unread() -> Problem {
    Problem::new(Kind::Busy, "this connection has too many answers in memory: read them, then retry")
        .retry_after(1)
}

fn busy() -> Problem {
    Problem::new(Kind::Busy, "too many requests are in flight: retry later").retry_after(1)
}

/// The address of the client.
fn address(parts: &request::Parts) -> IpAddr {
    parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0)
}

fn authorize<S>(context: &Context<S>, scope: Scope, parts: &request::Parts) -> Result<(), Problem> {
    let address = address(parts);
    let Some(authenticator) = &context.authenticator else {
        check_rate(context, &Caller::Address(address))?;
        return refuse_browser(&parts.headers);
    };
    let principal = match authenticator.authenticate(&parts.headers, context.clock.now_ms()) {
        Ok(principal) => principal,
        Err(error) => {
            // The rate limit of the address bounds the guessing of keys.
            check_rate(context, &Caller::Address(address))?;
            return Err(unauthenticated(error));
        }
    };
    check_rate(context, &principal.caller)?;
    if principal.scopes.has(scope) {
        return Ok(());
    }
    Err(Problem::new(Kind::Forbidden, format!("this needs the scope {}", scope.name())))
}

/// Refuses requests of web pages to a service without security: any page that the user opens could write. Browsers always
/// send `Origin` with such requests, other clients do not.
fn refuse_browser(headers: &HeaderMap) -> Result<(), Problem> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let detail = "a page in a browser may not use a service without security: configure `security` with keys and send one, \
                  or leave out the header Origin";
    Err(Problem::new(Kind::Forbidden, detail))
}

fn check_rate<S>(context: &Context<S>, caller: &Caller) -> Result<(), Problem> {
    let Some(rates) = &context.rates else { return Ok(()) };
    rates.check(caller, context.clock.now_ns()).map_err(|seconds| {
        let detail = format!("the rate limit is exceeded: retry in {seconds} s");
        Problem::new(Kind::RateLimited, detail).retry_after(seconds)
    })
}

fn unauthenticated(error: Unauthenticated) -> Problem {
    let detail = match error {
        Unauthenticated::Missing => "send `Authorization: Bearer` with a key or token, or `X-Api-Key`".into(),
        Unauthenticated::Invalid(reason) => reason,
    };
    Problem::new(Kind::Unauthenticated, detail)
}

async fn call<S>(
    context: &Context<S>,
    takes: Takes,
    params: Option<RawPathParams>,
    parts: request::Parts,
    body: Body,
) -> Result<Call, Problem> {
    let params = params.ok_or_else(|| Problem::new(Kind::Malformed, "the path is not UTF-8"))?;
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (limits, bodies) = (&context.limits, &context.bodies);
    let (lines, body) = match takes {
        Takes::Stream => (Some(body::lines(&parts.headers, body, limits, &context.streams)?), Body::empty()),
        _ => (None, body),
    };
    let received = body::read(takes, &parts.headers, body, limits, bodies);
    let (media, body, memory) = match takes {
        Takes::Nothing | Takes::Stream => received.await?,
        Takes::Json | Takes::Form | Takes::Batch => {
            let received = context.arrivals.receive(context.clock.now_ns(), received).await;
            received.unwrap_or_else(|refused| Err(body::refused(refused)))?
        }
    };
    let query = parts.uri.query().map(str::to_owned);
    let (lines, address) = (Mutex::new(lines), address(&parts));
    Ok(Call { params, query, address, headers: parts.headers, body, media, lines, _memory: memory })
}
