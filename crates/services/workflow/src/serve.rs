//! Starts the service: listens, opens the store, starts the worker, and serves.

use std::net::SocketAddr;
use std::path::Path;

use plimsoll_service::{Clock, DatabaseClient, Listener, Product, StartError};

use crate::api::state::State;
use crate::engine::Engine;
use crate::routes;
use crate::settings::{self, Settings, Typed};

/// The workflow service as a program.
#[derive(Clone, Copy, Debug)]
pub struct Workflow;

impl Product for Workflow {
    const NAME: &'static str = "workflow";
    const DATABASE_CLIENT: DatabaseClient = DatabaseClient::Lean;
    type Typed = Typed;
    type Settings = Settings;
    type State = State;

    fn listen(typed: &mut Typed) -> &mut SocketAddr {
        &mut typed.listen
    }

    fn database_uri(typed: &mut Typed) -> Option<&mut Option<String>> {
        typed.postgres.is_none().then_some(&mut typed.database.uri)
    }

    fn uris(typed: &mut Typed) -> Vec<&mut String> {
        typed.database.uri.iter_mut().chain(typed.postgres.as_mut().map(|uri| &mut uri.0)).collect()
    }

    fn build(typed: Typed, base: &Path) -> Result<Settings, settings::Error> {
        typed.build(base)
    }

    async fn start(settings: Settings) -> Result<plimsoll_service::Running<State>, StartError> {
        let listener = Listener::bind(settings.http.listen).await?;
        let clock = Clock::start();
        let engine = Engine::open(settings.engine, clock).await;
        let engine = engine.map_err(|error| StartError::Storage(error.to_string()))?;
        let waits = tokio::sync::Semaphore::new(settings.http.limits.requests_max as usize / 4);
        let state = State { engine, limits: settings.limits, waits };
        Ok(listener.serve(routes::service(state, clock), settings.http))
    }
}
