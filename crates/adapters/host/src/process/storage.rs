//! Finds the directory in which a MongoDB server's process stores its documents.

use std::fs;
use std::path::{Path, PathBuf};

/// The extension of WiredTiger's table files.
const TABLE: &str = "wt";

/// Finds the directory of a process's open storage engine files. `None` if the process has none, or this user
/// may not read its open files.
pub fn storage(pid: u32) -> Option<PathBuf> {
    storage_in(&super::directory(pid).join("fd"))
}

fn storage_in(descriptors: &Path) -> Option<PathBuf> {
    let targets = fs::read_dir(descriptors).ok()?.flatten().filter_map(|it| fs::read_link(it.path()).ok());
    let mut tables = targets.filter(|target| target.extension().is_some_and(|extension| extension == TABLE));
    tables.next()?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_storage_is_where_the_open_tables_are() {
        let descriptors = tempfile::tempdir().unwrap();
        assert_eq!(storage_in(descriptors.path()), None);
        symlink("socket:[5550]", descriptors.path().join("3")).unwrap();
        symlink("/data/db/WiredTiger.lock", descriptors.path().join("4")).unwrap();
        symlink("/data/db/_mdb_catalog.wt", descriptors.path().join("5")).unwrap();
        assert_eq!(storage_in(descriptors.path()), Some(PathBuf::from("/data/db")));
        assert_eq!(storage_in(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_process_without_tables_has_no_storage() {
        assert_eq!(storage(std::process::id()), None);
    }
}
