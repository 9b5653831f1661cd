//! Describes the telemetry service to scenarios: the data of its fill, and trucks that send readings.
//!
//! This crate shares no code with the service, only its HTTP API and the fill request that `plimsoll serve
//! telemetry --fill` reads.

mod fill;
mod iot;
mod trucks;

use plimsoll_http::setup::WorkloadContext;
use plimsoll_run::system::Fill;
use plimsoll_scenario::ServiceSpec;
use plimsoll_systems::{FillMoment, ServiceKind, WorkloadResult};
use serde_json::Value;

pub use iot::{Iot, Point};

/// The telemetry service.
#[derive(Clone, Copy, Debug)]
pub struct TelemetryLoad;

impl ServiceKind for TelemetryLoad {
    fn name(&self) -> &'static str {
        "telemetry"
    }

    fn fill_schema(&self) -> Option<Value> {
        Some(fill::schema())
    }

    fn fill(&self, spec: &ServiceSpec, moment: FillMoment) -> anyhow::Result<Option<Fill>> {
        fill::fill(spec, moment)
    }

    fn workload(&self, name: &str, settings: &Value, context: WorkloadContext) -> Option<WorkloadResult> {
        (name == "iot").then(|| trucks::make(settings, context))
    }
}
