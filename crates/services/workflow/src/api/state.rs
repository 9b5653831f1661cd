//! Holds the state of the endpoints.

use plimsoll_service::metrics::Page;
use plimsoll_workflow::port::Store as _;
use tokio::sync::Semaphore;

use crate::engine::Engine;
use crate::settings::RequestLimits;

/// The context of a request to this service.
pub type Context = plimsoll_service::Context<State>;

/// The state of the endpoints.
pub struct State {
    /// The engine.
    pub engine: Engine,
    /// The limits of a single request.
    pub limits: RequestLimits,
    /// Places for requests that wait for a change: a part of those for all requests.
    pub waits: Semaphore,
}

impl plimsoll_service::State for State {
    const DEPENDENCY: &'static str = "the store";

    async fn ping(&self) -> Result<(), String> {
        if self.engine.has_died() {
            return Err("the worker has ended by a defect: restart the service".into());
        }
        self.engine.client.store.holders().await.map(drop).map_err(|error| error.to_string())
    }

    fn write_metrics(&self, page: &mut Page) {
        let is_listening = self.engine.client.store.is_listening();
        self.engine.metrics.write(page, self.engine.backlog(), is_listening);
    }

    async fn failure(&self) -> String {
        self.engine.death().await;
        "the worker has died by a defect, so the service ends: report the log, and restart the service".into()
    }

    async fn close(&self) {
        self.engine.close().await;
    }
}
