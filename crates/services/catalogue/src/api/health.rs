//! Reports the health of the catalogue to SciCat's clients.

use plimsoll_service::{Routes, State as _};
use serde_json::json;

use super::action::{Of, Reply, Request, action};
use super::state::State;
use crate::Refusal;

action!(Health, GET "/api/v3/health", "health", Nothing, "Whether the database answers", health);

/// Adds the endpoint.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Health>>()
}

async fn health(request: Request) -> Result<Reply, Refusal> {
    let up = json!({"mongodb": {"status": "up"}});
    match request.state().ping().await {
        Ok(()) => Ok(Reply::Found(json!({"status": "ok", "info": up, "error": {}, "details": up}))),
        Err(fault) => {
            tracing::warn!(%fault, "not healthy");
            Err(Refusal::Unavailable)
        }
    }
}
