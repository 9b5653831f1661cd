//! Makes the calls of steps: named functions of this process, and HTTP services.

mod answer;
mod functions;
mod http;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use plimsoll_net::{Tls, TlsError, Trust};
use plimsoll_service::Clock;
use plimsoll_workflow::port::Services;
use plimsoll_workflow::program::{Kind, Program, Target};
use plimsoll_workflow::step::{Again, Call, CallError};
use serde_json::Value;

use crate::metrics::{CallOutcome, Metrics};

pub use secrets::Secrets;

/// Calls functions and HTTP services.
pub struct Calls {
    tls: Tls,
    hosts: Vec<String>,
    secrets: Secrets,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Calls {
    /// `hosts` lists the hosts that steps may call, each as `host` or `host:port`. `secrets` fill headers.
    ///
    /// # Errors
    ///
    /// If the list of public certificate authorities is unusable.
    pub fn new(
        hosts: Vec<String>,
        secrets: Secrets,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, TlsError> {
        Ok(Self { tls: Tls::new(&Trust::PublicRoots)?, hosts, secrets, clock, metrics })
    }

    async fn made(&self, call: &Call) -> Result<Value, CallError> {
        match &call.target {
            Target::Function(name) => functions::call(name, call),
            Target::Http { method, url, headers } => {
                let fill = |(name, value): &(String, String)| Ok((name.clone(), self.secrets.filled(value)?));
                let headers = headers.iter().map(fill).collect::<Result<Vec<_>, String>>();
                let headers = &headers.map_err(|words| failure(Again::Never, words))?;
                let request = http::Request { method: *method, url, headers, call };
                let limit = Duration::from_millis(call.timeout_ms);
                let made = tokio::time::timeout(limit, http::call(&request, &self.hosts, &self.tls)).await;
                made.unwrap_or_else(|_| {
                    Err(failure(Again::Maybe, format!("no answer within {} ms", call.timeout_ms)))
                })
            }
        }
    }
}

impl Services for Calls {
    async fn call(&self, call: &Call) -> Result<Value, CallError> {
        // A call that does not begin is made by the next owner of the instance.
        let Some(_running) = self.metrics.call_begins() else { return std::future::pending().await };
        let begun_ns = self.clock.now_ns();
        let made = self.made(call).await;
        let outcome = match &made {
            Ok(_) => CallOutcome::Done,
            Err(error) if error.again == Again::Never => CallOutcome::Refused,
            Err(_) => CallOutcome::Failed,
        };
        self.metrics.call_ends(self.clock.now_ns().saturating_sub(begun_ns), outcome);
        made
    }
}

/// The first step whose function this program lacks, as a sentence.
pub fn unknown_function(program: &Program) -> Option<String> {
    let unknown = |node: &plimsoll_workflow::program::Node| {
        let Kind::Call(call) = &node.kind else { return None };
        let Target::Function(name) = &call.target else { return None };
        (!functions::is_known(name)).then(|| format!("`{}`: {}", node.path, functions::unknown(name)))
    };
    program.nodes.iter().find_map(unknown)
}

fn failure(again: Again, message: impl Into<String>) -> CallError {
    CallError { message: message.into(), again }
}
