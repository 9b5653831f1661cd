//! The contents of the interface: every endpoint, and the router made of them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{Method, Response};
use axum::routing::{MethodFilter, on};

use super::api;
use super::endpoint::Endpoint;
use super::gate;
use super::metrics::Meter;
use super::problem::{Kind, Problem};
use super::service::Service;

/// Is shown every endpoint in turn.
pub trait Visitor {
    /// One of them.
    fn visit<E: Endpoint>(&mut self);
}

/// Shows every endpoint.
pub fn each(visitor: &mut impl Visitor) {
    visitor.visit::<api::ingest::Ingest>();
    visitor.visit::<api::ingest_batch::IngestBatch>();
    visitor.visit::<api::statistics::Statistics>();
    visitor.visit::<api::statistics_many::StatisticsMany>();
    visitor.visit::<api::latest::Latest>();
    visitor.visit::<api::range::Range>();
    visitor.visit::<api::post::Post>();
    visitor.visit::<api::feed::ReadFeed>();
    visitor.visit::<api::follow::Follow>();
    visitor.visit::<api::follow_many::FollowMany>();
    visitor.visit::<api::unfollow::Unfollow>();
    visitor.visit::<api::healthz::Healthz>();
    visitor.visit::<api::readyz::Readyz>();
    visitor.visit::<api::metrics::Metrics>();
    visitor.visit::<api::openapi::OpenApi>();
}

/// The router of the service.
pub fn router(service: Arc<Service>) -> Router {
    let meters = service.meters.iter().cloned();
    let mut mount = Mount { router: Router::new(), meters };
    each(&mut mount);
    let nowhere = || async {
        Problem::new(Kind::NotFound, "there is no such path: /openapi.json lists them").response()
    };
    let no_method = || async { Problem::new(Kind::Method, "the header Allow lists the methods").response() };
    mount.router.fallback(nowhere).method_not_allowed_fallback(no_method).with_state(service)
}

/// A meter for each endpoint, in their order.
pub(super) fn meters() -> Vec<Arc<Meter>> {
    struct Meters(Vec<Arc<Meter>>);
    impl Visitor for Meters {
        fn visit<E: Endpoint>(&mut self) {
            self.0.push(Arc::new(Meter::new(E::NAME)));
        }
    }
    let mut meters = Meters(Vec::new());
    each(&mut meters);
    meters.0
}

struct Mount<M> {
    router: Router<Arc<Service>>,
    meters: M,
}

impl<M: Iterator<Item = Arc<Meter>>> Visitor for Mount<M> {
    fn visit<E: Endpoint>(&mut self) {
        let meter = self.meters.next().unwrap_or_else(|| Arc::new(Meter::new(E::NAME)));
        let handler = move |state: State<Arc<Service>>, params: Params, request: Request| {
            pass::<E>(state, meter.clone(), params, request)
        };
        let router = std::mem::take(&mut self.router);
        self.router = router.route(E::PATH, on(filter(&E::METHOD), handler));
    }
}

type Params = Result<RawPathParams, RawPathParamsRejection>;

async fn pass<E: Endpoint>(
    State(service): State<Arc<Service>>,
    meter: Arc<Meter>,
    params: Params,
    request: Request,
) -> Response<Body> {
    gate::pass::<E>(service, meter, params.ok(), request).await
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET)
}
