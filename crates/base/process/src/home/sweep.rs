//! Removes temporary homes whose owner is dead.

use std::fs;
use std::path::Path;

use super::{LOCK, lock};
use crate::procfs;

/// Removes the temporary homes below `parent` whose names begin with `prefix` and whose owner and program are dead. Returns
/// their number. A later sweep retries failures.
pub fn sweep(parent: &Path, prefix: &str) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    entries
        .flatten()
        .filter(|entry| is_abandoned(&entry.path(), prefix))
        .filter(|entry| fs::remove_dir_all(entry.path()).is_ok())
        .count()
}

/// A home is abandoned if its owner is dead and its lock is free. A dead owner is not enough: the program may
/// briefly outlive it. A free lock is not enough: a new home is not locked yet.
fn is_abandoned(path: &Path, prefix: &str) -> bool {
    let owner = path.file_name().and_then(|name| owner(name.to_str()?, prefix));
    let dead = owner.is_some_and(|pid| !lives(pid, path));
    dead && is_ours(path) && !lock::is_held(path)
}

/// Whether the owner of a home lives. A later process with the same ID is not the owner.
fn lives(pid: u32, home: &Path) -> bool {
    let is_same = |started| procfs::started(pid) == Some(started);
    procfs::is_alive(pid) && lock::owner_started(home).is_none_or(is_same)
}

/// Whether the directory is a home, or an empty directory meant for a home.
fn is_ours(path: &Path) -> bool {
    path.join(LOCK).is_file() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// The process id in the name of a temporary home.
fn owner(name: &str, prefix: &str) -> Option<u32> {
    let (pid, random) = name.strip_prefix(prefix)?.split_once('-')?;
    (random.len() == 6).then(|| pid.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{Home, Storage};
    use std::path::PathBuf;

    const PREFIX: &str = "plimsoll-";

    /// The home of an impossible process: its id is above the kernel's greatest limit of 2^22.
    fn abandoned(parent: &Path) -> PathBuf {
        let path = parent.join("plimsoll-5000000-abcdef");
        fs::create_dir_all(path.join("data")).unwrap();
        fs::write(path.join(LOCK), "").unwrap();
        path
    }

    #[test]
    fn a_sweep_removes_abandoned_and_empty_homes() {
        let parent = tempfile::tempdir().unwrap();
        let (left, begun) = (abandoned(parent.path()), parent.path().join("plimsoll-5000000-ghijkl"));
        fs::create_dir(&begun).unwrap();
        assert_eq!(sweep(parent.path(), PREFIX), 2);
        assert!(!left.exists() && !begun.exists());
    }

    #[test]
    fn a_later_process_with_the_owners_id_does_not_keep_a_home() {
        let parent = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let started = procfs::started(pid).unwrap();
        let home = |random: &str, started: String| {
            let path = parent.path().join(format!("plimsoll-{pid}-{random}"));
            fs::create_dir_all(path.join("data")).unwrap();
            fs::write(path.join(LOCK), started).unwrap();
            path
        };
        let (earlier, own) = (home("abcdef", (started - 1).to_string()), home("ghijkl", started.to_string()));
        let unrecorded = home("mnopqr", String::new());
        assert_eq!(sweep(parent.path(), PREFIX), 1);
        assert!(!earlier.exists() && own.exists() && unrecorded.exists());
    }

    #[test]
    fn a_sweep_spares_live_locked_and_foreign_directories() {
        let parent = tempfile::tempdir().unwrap();
        let living = Home::open(&Storage::Temporary, PREFIX, parent.path()).unwrap();
        let locked = abandoned(parent.path());
        let _lock = lock::take(&locked).unwrap();
        let strange =
            ["plimsoll-runs", "plimsoll-5000000-ab", "other-5000000-abcdef", "plimsoll-kafka-5000000-abcdef"];
        strange.iter().for_each(|name| fs::create_dir(parent.path().join(name)).unwrap());
        fs::create_dir_all(parent.path().join("plimsoll-5000000-strang/notes")).unwrap();
        assert_eq!(sweep(parent.path(), PREFIX), 0);
        assert!(living.path().exists() && locked.exists());
    }
}
