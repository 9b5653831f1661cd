//! Lists the permissions of callers.

use plimsoll_service::Scope;

/// Deploy definitions.
pub const DEPLOY: Scope = Scope("workflow:deploy");
/// Start instances.
pub const START: Scope = Scope("workflow:start");
/// Send signals.
pub const SIGNAL: Scope = Scope("workflow:signal");
/// Act on tasks on behalf of the person that the request names.
pub const TASK: Scope = Scope("workflow:task");
/// Cancel and retry instances.
pub const OPERATE: Scope = Scope("workflow:operate");
/// Read definitions, instances, tasks and pages.
pub const READ: Scope = Scope("workflow:read");

/// All of them.
pub const ALL: &[Scope] = &[DEPLOY, START, SIGNAL, TASK, OPERATE, READ];
