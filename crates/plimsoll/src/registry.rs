//! Lists the systems that scenarios load and the services that `serve` starts. A new service is one line and one name here.

use std::fmt::Debug;

use plimsoll_run::system;
use plimsoll_systems::Services;
use serde_json::Value;

use crate::cli::ServeArgs;
use plimsoll_run::exit::Outcome;

/// The names of [`SHIPPED`], for a program without services.
const NAMES: [&str; 3] = ["telemetry", "workflow", "catalogue"];

/// The systems and services of a program.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// The kinds of systems, asked in this order: the first kind that claims a scenario gets it.
    pub systems: system::Registry,
    /// The services as scenarios see them.
    pub services: Services,
    /// The services as programs.
    pub products: &'static [&'static dyn Serve],
}

impl Registry {
    /// The names of the services that `serve` starts. A program without services knows the names of the shipped ones.
    pub fn names(&self) -> Vec<&'static str> {
        if self.products.is_empty() {
            return NAMES.to_vec();
        }
        self.products.iter().map(|product| product.name()).collect()
    }
}

/// A service as a program. Every [`Product`](plimsoll_service::Product) is one.
pub trait Serve: Debug + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The default settings.
    fn default_settings(&self) -> Value;

    /// Runs it until it is asked to end.
    ///
    /// # Errors
    /// The reason why it did not start.
    fn serve(&self, args: &ServeArgs) -> Outcome;
}

/// Makes a registry: each service as scenarios see it, and as a program.
#[cfg(feature = "services")]
#[macro_export]
macro_rules! registry {
    ($($load:expr => $product:expr),* $(,)?) => {
        $crate::Registry {
            systems: &[
                &$crate::systems::DatabaseKind,
                &$crate::WorkflowKind,
                &$crate::systems::HttpKind(&[$(&$load),*]),
            ],
            services: &[$(&$load),*],
            products: &[$(&$product),*],
        }
    };
}

/// The systems and services of Plimsoll.
#[cfg(feature = "services")]
pub const SHIPPED: Registry = registry![
    plimsoll_telemetry_load::TelemetryLoad => plimsoll_telemetry::serve::Telemetry,
    plimsoll_workflow_load::WorkflowLoad => plimsoll_workflow_service::serve::Workflow,
    plimsoll_catalogue_load::CatalogueLoad => plimsoll_catalogue::serve::Catalogue,
];

/// The systems of a program without services.
#[cfg(not(feature = "services"))]
pub const SHIPPED: Registry = WITHOUT_SERVICES;

/// Refuses what needs a service, and says how to build it.
#[cfg(any(test, not(feature = "services")))]
const WITHOUT_SERVICES: Registry = Registry {
    systems: &[&NoWorkflows, &plimsoll_systems::DatabaseKind, &plimsoll_systems::HttpKind(&[])],
    services: &[],
    products: &[],
};

/// Refuses scenarios that load the workflow engine.
#[cfg(any(test, not(feature = "services")))]
#[derive(Clone, Copy, Debug)]
struct NoWorkflows;

#[cfg(any(test, not(feature = "services")))]
impl system::Kind for NoWorkflows {
    fn resolve(
        &self,
        loaded: &plimsoll_scenario::Loaded,
        _: plimsoll_run::server_provisioning::ServerAddress<'_>,
    ) -> anyhow::Result<Option<std::sync::Arc<dyn system::Subject>>> {
        let refusal = plimsoll_systems::service_kind::NO_SERVICES;
        anyhow::ensure!(loaded.scenario.workflow.is_none(), "workflow: {refusal}");
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::server_provisioning::ServerAddress;

    use super::*;

    #[test]
    fn a_program_without_services_runs_databases_and_says_how_to_build_the_services() {
        let address = ServerAddress { server: None, hosts: &[], count: 1 };
        let resolved = |name: &str| {
            let loaded = plimsoll_scenario::load(name, &[], None).unwrap();
            let mut kinds = WITHOUT_SERVICES.systems.iter();
            kinds.find_map(|kind| kind.resolve(&loaded, address).transpose()).unwrap()
        };
        for name in ["workflow-roundtrip", "baseline", "catalogue-full-query"] {
            let error = resolved(name).unwrap_err().to_string();
            assert!(error.contains("--features full"), "{name}: {error}");
        }
        assert!(resolved("bulk-baseline").is_ok());
    }

    #[cfg(feature = "services")]
    #[test]
    fn a_program_without_services_names_all_shipped_services() {
        assert_eq!(WITHOUT_SERVICES.names(), SHIPPED.names());
    }
}
