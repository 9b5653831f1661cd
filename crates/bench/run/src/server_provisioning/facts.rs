//! Queries the facts of a server.

use plimsoll_host::probe::Probe;
use plimsoll_measure::environment::ServerFacts;

use super::RunningServer;

impl RunningServer {
    /// The facts that the server reports, and those that its starter has.
    ///
    /// # Errors
    /// When the server cannot be queried.
    pub async fn facts(&self) -> anyhow::Result<ServerFacts> {
        let mut facts = Probe::connect(&self.deployment.options()).await?.facts().await?;
        facts.kind = self.kind;
        facts.open = self.deployment.is_open();
        facts.addresses = self.deployment.addresses().iter().map(ToString::to_string).collect();
        if let Some(server) = &self.server {
            server.server().describe(&mut facts);
        }
        Ok(facts)
    }
}
