//! Lists the systems that scenarios load and the services that `serve` starts. A new service is one line here.

use std::fmt::Debug;

use plimsoll_catalogue::serve::Catalogue;
use plimsoll_catalogue_load::CatalogueLoad;
use plimsoll_run::system;
use plimsoll_systems::Services;
use plimsoll_telemetry::serve::Telemetry;
use plimsoll_telemetry_load::TelemetryLoad;
use plimsoll_workflow_load::service_kind::WorkflowLoad;
use plimsoll_workflow_service::serve::Workflow;
use serde_json::Value;

use crate::cli::ServeArgs;
use plimsoll_run::exit::Outcome;

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
    /// The names of the services that `serve` starts.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.products.iter().map(|product| product.name())
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
pub const SHIPPED: Registry = registry![
    TelemetryLoad => Telemetry,
    WorkflowLoad => Workflow,
    CatalogueLoad => Catalogue,
];
