//! Defines the HTTP interface, versions 3 and 4.

pub mod attachments;
pub mod auth;
pub mod blocks;
pub mod bulk;
pub mod datasets;
pub mod files;
pub mod health;
pub mod history;
pub mod keys;
pub mod lifecycle;
pub mod lists;
pub mod oidc;
pub mod state;
pub mod stream;

mod action;
mod identity;
mod pages;
mod path;
mod problems;
mod tag;

use plimsoll_service::{About, Clock, Routes, Service};
use serde_json::{Value, json};

use self::state::State;

/// Makes the service of a state.
pub fn service(state: State, clock: Clock) -> Service<State> {
    Service::new(about(), routes(), state, clock)
}

/// The OpenAPI description.
pub fn document() -> Value {
    plimsoll_service::document(&about(), routes())
}

fn about() -> About {
    About {
        name: "catalogue",
        title: "Science catalogue",
        version: env!("CARGO_PKG_VERSION"),
        description: "Datasets, their files and attachments, as clients of SciCat expect. Paths are read in any case. A refused \
                      request is answered with `{message, error, statusCode}`.",
        metrics_prefix: "catalogue",
        scopes: &[],
        schemas: json!({}),
    }
}

fn routes() -> Routes<State> {
    let routes = oidc::add(auth::add(Routes::new()));
    let routes = datasets::add(routes);
    let routes = lifecycle::add(routes);
    let routes = lists::add(routes);
    let routes = keys::add(routes);
    let routes = bulk::add(routes);
    let routes = blocks::add(routes);
    let routes = stream::add(routes);
    let routes = files::add(routes);
    let routes = attachments::add(routes);
    let routes = history::add(routes);
    let routes = pages::add(routes);
    health::add(routes)
}
