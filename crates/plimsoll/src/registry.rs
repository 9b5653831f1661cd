//! Lists the systems that scenarios may load. A new system is one line here.

use plimsoll_run::system::{DatabaseKind, Registry, ServiceKind};

/// Asked in this order: the first kind that claims a scenario has it.
pub const SYSTEMS: Registry = &[&DatabaseKind, &ServiceKind];
