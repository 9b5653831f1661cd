//! Describes the workflow service to scenarios.

use plimsoll_systems::ServiceKind;

/// The workflow service.
#[derive(Clone, Copy, Debug)]
pub struct WorkflowLoad;

impl ServiceKind for WorkflowLoad {
    fn name(&self) -> &'static str {
        "workflow"
    }
}
