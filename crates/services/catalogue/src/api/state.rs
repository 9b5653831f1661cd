//! Holds the state of the endpoints.

use axum::body::Body;
use axum::http::Response;
use bson::{Uuid, doc};
use mongodb::Database;
use plimsoll_service::metrics::Page;
use plimsoll_service::security::Sessions;
use plimsoll_service::{Problem, Span};
use tokio::task::AbortHandle;

use super::{path, problems};
use crate::access::Rules;
use crate::accounts::Accounts;
use crate::guesses::Guesses;
use crate::oidc::Provider;
use crate::settings::Datasets;
use crate::storage::Store;

/// The context of all requests.
pub type Context = plimsoll_service::Context<State>;

/// The state of the endpoints.
pub struct State {
    /// The database.
    pub database: Database,
    /// The catalogue in it.
    pub store: Store,
    /// The rules of access.
    pub rules: Rules,
    /// The functional accounts.
    pub accounts: Accounts,
    /// The failed logins; `None` without a limit.
    pub guesses: Option<Guesses>,
    /// The issuer at which users log in, if any.
    pub oidc: Option<Provider>,
    /// The tokens.
    pub sessions: Sessions,
    /// The life of a token.
    pub token: Span,
    /// Whether the service itself serves TLS.
    pub is_secure: bool,
    /// New datasets.
    pub datasets: Datasets,
    /// The task that collects the keys of metadata and removes abandoned blocks.
    pub upkeep: AbortHandle,
}

impl State {
    /// The PID of a new dataset.
    pub fn new_pid(&self) -> String {
        format!("{}/{}", self.datasets.pid_prefix.trim_end_matches('/'), Uuid::new())
    }

    /// The key of a new block or attachment.
    pub fn new_id(&self) -> String {
        Uuid::new().to_string()
    }
}

impl plimsoll_service::State for State {
    const DEPENDENCY: &'static str = "the database";

    async fn ping(&self) -> Result<(), String> {
        let answer = self.database.run_command(doc! {"ping": 1}).await;
        answer.map(drop).map_err(|error| error.to_string())
    }

    fn write_metrics(&self, _: &mut Page) {}

    fn refusal(problem: &Problem) -> Response<Body> {
        problems::refusal(problem)
    }

    fn canonical_path(path: &str) -> Option<String> {
        path::canonical(path)
    }

    async fn close(&self) {
        self.upkeep.abort();
    }
}
