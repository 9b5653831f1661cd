//! What every request passes, in order: room, who it is, what it may do, how often, how large; then the endpoint, for as
//! long as it may take.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::header::ORIGIN;
use axum::http::request;
use axum::http::{HeaderMap, Response};
use tokio::sync::SemaphorePermit;

use super::body;
use super::endpoint::{Call, Endpoint, Takes};
use super::metrics::Meter;
use super::problem::{Kind, Problem};
use super::reply::Answer;
use super::security::scope::Scope;
use super::security::{Caller, Unknown};
use super::service::Service;

/// The address that a request comes from. Every connection puts it into its requests.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Lets a request through to an endpoint, and counts it.
pub(super) async fn pass<E: Endpoint>(
    service: Arc<Service>,
    meter: Arc<Meter>,
    params: Option<RawPathParams>,
    request: Request,
) -> Response<Body> {
    let begun_ns = service.clock.now_ns();
    let answer = guarded::<E>(&service, params, request).await;
    let response = answer.unwrap_or_else(|problem| problem.response());
    meter.record(response.status(), service.clock.now_ns().saturating_sub(begun_ns));
    response
}

/// What a request to an endpoint may be refused with whatever the endpoint does: here, or because the database fails.
pub(super) fn refusals<E: Endpoint>() -> impl Iterator<Item = Kind> {
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
    let guarded = GUARDED.into_iter().filter(|_| E::SCOPE.is_some());
    guarded.chain(SIZED.into_iter().filter(|_| E::TAKES != Takes::Nothing))
}

async fn guarded<E: Endpoint>(
    service: &Arc<Service>,
    params: Option<RawPathParams>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let Some(scope) = E::SCOPE else { return open::<E>(service, params, &parts).await };
    let _room = room(service)?;
    admit(service, scope, &parts)?;
    let call = call(service, E::TAKES, params, &parts, body).await?;
    let limit = service.limits.request;
    match tokio::time::timeout(limit.duration(), E::answer(service.clone(), call)).await {
        Ok(answer) => answer,
        Err(_) => {
            let detail =
                format!("it was not done within {limit}; what was sent may have been stored: send it again");
            Err(Problem::new(Kind::Unavailable, detail).retry_after(1))
        }
    }
}

/// What is open to everyone takes no body and waits for no room: it tells how the service is.
async fn open<E: Endpoint>(
    service: &Arc<Service>,
    params: Option<RawPathParams>,
    parts: &request::Parts,
) -> Answer {
    let call = call(service, Takes::Nothing, params, parts, Body::empty()).await?;
    E::answer(service.clone(), call).await
}

fn room(service: &Service) -> Result<SemaphorePermit<'_>, Problem> {
    service.requests.try_acquire().map_err(|_| {
        Problem::new(Kind::Busy, "too many requests are worked on: come back later").retry_after(1)
    })
}

fn admit(service: &Service, scope: Scope, parts: &request::Parts) -> Result<(), Problem> {
    let address = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let Some(guard) = &service.guard else {
        count(service, &Caller::Anyone(address))?;
        return from_no_page(&parts.headers);
    };
    let allowed = match guard.admit(&parts.headers, service.clock.now_ms()) {
        Ok(allowed) => allowed,
        Err(unknown) => {
            // Whoever guesses keys is slowed down by address.
            count(service, &Caller::Anyone(address))?;
            return Err(unauthenticated(unknown));
        }
    };
    count(service, &allowed.caller)?;
    if allowed.may(scope) {
        return Ok(());
    }
    Err(Problem::new(Kind::Forbidden, format!("this needs the scope {}", scope.name())))
}

/// Without security whatever reaches the address may write, and a browser reaches it for every page that its user opens. It
/// says so in `Origin`, whatever the page does; other clients send no such header.
fn from_no_page(headers: &HeaderMap) -> Result<(), Problem> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let detail = "a page in a browser may not use a service without security: configure `security` with keys and send one, \
                  or leave out the header Origin";
    Err(Problem::new(Kind::Forbidden, detail))
}

fn count(service: &Service, caller: &Caller) -> Result<(), Problem> {
    let Some(rates) = &service.rates else { return Ok(()) };
    rates.count(caller, service.clock.now_ns()).map_err(|seconds| {
        let detail = format!("the rate limit is used up: come back in {seconds} s");
        Problem::new(Kind::RateLimited, detail).retry_after(seconds)
    })
}

fn unauthenticated(unknown: Unknown) -> Problem {
    let detail = match unknown {
        Unknown::Missing => "send `Authorization: Bearer` with a key or token, or `X-Api-Key`".into(),
        Unknown::Wrong(why) => why,
    };
    Problem::new(Kind::Unauthenticated, detail)
}

async fn call(
    service: &Service,
    takes: Takes,
    params: Option<RawPathParams>,
    parts: &request::Parts,
    body: Body,
) -> Result<Call, Problem> {
    let params = params.ok_or_else(|| Problem::new(Kind::Malformed, "the path is not UTF-8"))?;
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (media, body, share) =
        body::read(takes, &parts.headers, body, &service.limits, &service.budget).await?;
    Ok(Call { params, query: parts.uri.query().map(str::to_owned), body, media, _share: share })
}
