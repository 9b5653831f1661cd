//! Names the groups that have a role.

use serde::{Deserialize, Serialize};

use super::caller::Caller;

/// The name that stands for every user who has logged in.
const ALL: &str = "#all";

/// The groups of each role, under the names of SciCat's configuration. `#all` means every user who has logged in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roles {
    /// May do everything, except to delete blocks of files.
    pub admin_groups: Vec<String>,
    /// May delete datasets and blocks of files of everyone.
    pub delete_groups: Vec<String>,
    /// May create datasets of their groups. The catalogue chooses the PID.
    pub create_dataset_groups: Vec<String>,
    /// May create datasets of their groups, and choose the PID.
    pub create_dataset_with_pid_groups: Vec<String>,
    /// May create datasets of any group, and choose the PID.
    pub create_dataset_privileged_groups: Vec<String>,
    /// May change the life cycle of every dataset that they may read.
    pub update_dataset_lifecycle_groups: Vec<String>,
}

/// Whether a caller has the role of these groups.
pub(super) fn has(caller: &Caller, role: &[String]) -> bool {
    let Some(user) = caller.user() else { return false };
    role.iter().any(|group| group == ALL || user.groups.contains(group))
}
