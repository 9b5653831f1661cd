//! Defines the port of a service that a run can start: its fill and its workloads.

use std::fmt::Debug;
use std::sync::Arc;

use plimsoll_http::setup::{Workload, WorkloadContext};
use plimsoll_run::system::Fill;
use plimsoll_scenario::ServiceSpec;
use serde_json::{Map, Value};

/// A kind of service that a run can start with `plimsoll serve NAME`. The binary's registry lists them.
pub trait ServiceKind: Debug + Sync {
    /// Its name, below `service:` in a scenario and after `plimsoll serve`.
    fn name(&self) -> &'static str;

    /// Whether it stores its data on a database server, which the run finds or starts first.
    fn has_database(&self) -> bool {
        true
    }

    /// The JSON Schema of `fill`, if a scenario can fill the service.
    fn fill_schema(&self) -> Option<Value> {
        None
    }

    /// Checks the `fill` of a scenario, and computes its size. `None` if there is no fill.
    ///
    /// # Errors
    /// When a key of `fill` is invalid. The error names its path.
    fn fill(&self, spec: &ServiceSpec, moment: FillMoment) -> anyhow::Result<Option<Fill>> {
        let _ = moment;
        anyhow::ensure!(spec.fill.is_none(), "service.{}.fill: this service cannot be filled", self.name());
        Ok(None)
    }

    /// The workload with this name and these settings. `None` if this service has no such workload.
    fn workload(&self, name: &str, settings: &Value, context: WorkloadContext) -> Option<WorkloadResult> {
        let _ = (name, settings, context);
        None
    }
}

/// A workload, or the reason why its settings are invalid.
pub type WorkloadResult = Result<Arc<dyn Workload>, String>;

/// The kinds of services of a program.
pub type Services = &'static [&'static dyn ServiceKind];

/// The refusal of a program without services.
pub const NO_SERVICES: &str = "this program was built without the telemetry service, the workflow engine and the catalogue: build it with \
                               `cargo build --release --features full`, or install it with `cargo install --locked --path crates/plimsoll \
                               --features full`";

/// The seed and the time of a fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillMoment {
    /// The seed of all values.
    pub seed: u64,
    /// The end of the data, in milliseconds since 1970.
    pub end_ms: u64,
}

/// Finds the kind of a service.
///
/// # Errors
/// When no service has this name. The error lists the known names.
pub fn find(services: Services, name: &str) -> anyhow::Result<&'static dyn ServiceKind> {
    anyhow::ensure!(!services.is_empty(), "service: {NO_SERVICES}");
    let found = services.iter().find(|service| service.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = services.iter().map(|service| service.name()).collect();
        let hint = plimsoll_scenario::nearest(name, &names)
            .map_or_else(|| format!("known: {}", names.join(", ")), |near| format!("did you mean `{near}`?"));
        anyhow::anyhow!("service: unknown service `{name}`: {hint}")
    })
}

/// Builds the workload that a request names.
///
/// # Errors
/// When no service has this workload, or its settings are invalid.
pub fn workload(services: Services, typed: &Map<String, Value>, context: WorkloadContext) -> WorkloadResult {
    if services.is_empty() {
        return Err(NO_SERVICES.to_owned());
    }
    let mut named = typed.iter();
    let (Some((name, settings)), None) = (named.next(), named.next()) else {
        return Err("name one workload, such as {iot: {trucks: 4000}}".to_owned());
    };
    let found = services.iter().find_map(|service| service.workload(name, settings, context));
    found.unwrap_or_else(|| Err(format!("unknown workload `{name}`; known: {{iot: {{trucks: 4000}}}}")))
}
