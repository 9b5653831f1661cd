//! Describes the science catalogue to scenarios: the data of its fill, new datasets, and blocks of files.
//!
//! This crate shares no code with the catalogue, only its HTTP API and the fill request that `plimsoll serve catalogue --fill` reads.

mod datasets;
mod files;
mod fill;

use plimsoll_http::setup::WorkloadContext;
use plimsoll_run::system::Fill;
use plimsoll_scenario::ServiceSpec;
use plimsoll_systems::{FillMoment, ServiceKind, WorkloadResult};
use serde_json::Value;

/// The science catalogue.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueLoad;

impl ServiceKind for CatalogueLoad {
    fn name(&self) -> &'static str {
        "catalogue"
    }

    fn fill_schema(&self) -> Option<Value> {
        Some(fill::schema())
    }

    fn fill(&self, spec: &ServiceSpec, moment: FillMoment) -> anyhow::Result<Option<Fill>> {
        fill::fill(spec, moment)
    }

    fn workload(&self, name: &str, settings: &Value, context: WorkloadContext) -> Option<WorkloadResult> {
        match name {
            "dataset" => Some(datasets::make(settings, context)),
            "files" => Some(files::make(settings, context)),
            _ => None,
        }
    }
}
