//! Chooses run directories to remove, and removes them.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, bail};

use super::{
    EVENTS, INTERVALS, LABEL, LEDGER, Listed, REPORT, RUN, SCENARIO, SERVICE_FILL_LOG, SERVICE_LOG,
    SERVICE_SETTINGS, STORAGE, State,
};
use crate::shard_log::SHARD;

/// The entries that Plimsoll writes into a run directory, apart from storages.
const OURS: [&str; 11] = [
    EVENTS,
    INTERVALS,
    LABEL,
    LEDGER,
    REPORT,
    RUN,
    SCENARIO,
    SERVICE_FILL_LOG,
    SERVICE_LOG,
    SERVICE_SETTINGS,
    SHARD,
];

/// The runs to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The number of latest runs to keep.
    pub keep: usize,
    /// The age below which a run is kept, in milliseconds since its start.
    pub younger_than_ms: u64,
}

/// The runs that a rule does not keep, the latest first. A labelled or running run is always kept, and does not count.
pub fn surplus<'a>(listed: &'a [Listed], rule: &Rule, now_ms: u64) -> Vec<&'a Listed> {
    let may_go = |it: &&Listed| it.label.is_none() && !matches!(it.state, State::Running);
    let is_old = |it: &&Listed| now_ms.saturating_sub(it.started_ms) >= rule.younger_than_ms;
    listed.iter().filter(may_go).skip(rule.keep).filter(is_old).collect()
}

/// Refuses a directory with anything that Plimsoll did not write, or whose storage a server uses.
///
/// # Errors
/// The reason to keep the directory.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let metadata = path.symlink_metadata().with_context(|| format!("read {}", path.display()))?;
    if !metadata.is_dir() {
        bail!("it is a link: remove it by hand");
    }
    for entry in fs::read_dir(path).with_context(|| format!("read {}", path.display()))? {
        let name = entry.with_context(|| format!("read {}", path.display()))?.file_name();
        if !is_ours(&name) {
            bail!("it holds {}, which Plimsoll did not write: move that away first", name.display());
        }
        if is_storage(&name) && is_used(&path.join(&name)) {
            bail!("a server uses its {}: stop it first", name.display());
        }
    }
    Ok(())
}

/// Removes a run directory that [`check`] accepts.
///
/// # Errors
/// The reason to keep it, or a failure of the file system.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    check(path)?;
    fs::remove_dir_all(path).with_context(|| format!("remove {}", path.display()))
}

fn is_ours(name: &OsStr) -> bool {
    OURS.iter().any(|ours| name == *ours) || is_storage(name)
}

/// `storage`, `storage-2` and so on.
fn is_storage(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(STORAGE));
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|it| it.parse::<u32>().is_ok())
    })
}

/// Whether a server holds the lock of a storage.
fn is_used(storage: &Path) -> bool {
    let lock = File::open(storage.join("lock"));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::super::listing::tests::{begun, ended};
    use super::super::{list, set_label};
    use super::*;

    fn names(listed: &[&Listed]) -> Vec<String> {
        listed.iter().map(|it| it.name.clone()).collect()
    }

    #[test]
    fn a_rule_keeps_the_latest_the_young_and_the_labelled_runs() {
        let dir = tempfile::tempdir().unwrap();
        for (name, started_ms) in [("a", 1_000), ("b", 2_000), ("c", 3_000), ("d", 4_000)] {
            ended(dir.path(), name, started_ms);
        }
        set_label(&dir.path().join("b"), "baseline").unwrap();
        begun(dir.path(), "cut", 1_500);
        let listed = list(dir.path());
        let check = |keep, younger_than_ms, expected: &[&str]| {
            let rule = Rule { keep, younger_than_ms };
            assert_eq!(names(&surplus(&listed, &rule, 5_000)), expected, "{rule:?}");
        };
        check(0, 0, &["d", "c", "cut", "a"]);
        check(2, 0, &["cut", "a"]);
        check(0, 3_500, &["cut", "a"]);
        check(3, 3_500, &["a"]);
        check(4, 0, &[]);
    }

    #[test]
    fn a_running_run_is_never_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let writer = File::options().append(true).open(begun(dir.path(), "now", 1).join(EVENTS)).unwrap();
        writer.try_lock().unwrap();
        assert!(surplus(&list(dir.path()), &Rule::default(), 5_000).is_empty());
    }

    #[test]
    fn a_directory_with_foreign_files_a_link_and_a_used_storage_stay() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = ended(dir.path(), "foreign", 1);
        fs::write(foreign.join("thesis.txt"), "years of work").unwrap();
        let used = ended(dir.path(), "used", 1);
        fs::create_dir(used.join("storage-2")).unwrap();
        let lock = File::create(used.join("storage-2/lock")).unwrap();
        lock.try_lock().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(ended(dir.path(), "linked", 1), &link).unwrap();
        for (path, part) in [
            (&foreign, "it holds thesis.txt, which Plimsoll did not write"),
            (&used, "a server uses its storage-2"),
            (&link, "it is a link"),
        ] {
            assert!(remove(path).unwrap_err().to_string().contains(part), "{part}");
            assert!(path.join(RUN).exists(), "{part}");
        }
        drop(lock);
        remove(&used).unwrap();
        assert!(!used.exists());
    }
}
