//! Keeps copies of the data of stopped servers in the cache, so that a run can start with data that an earlier run loaded.
//!
//! ```text
//! snapshots/
//!   7/          the number grows: the smallest is the oldest
//!     key       the text that describes the data
//!     data/     the copy
//! ```

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plimsoll_install::{AtomicDir, Cache, Lock, remove};
use plimsoll_process::home::{self, Error};

/// The maximum number of snapshots.
const SNAPSHOTS_MAX: usize = 3;
const LOCK: &str = "snapshots.lock";
const KEY: &str = "key";
const DATA: &str = "data";

/// The snapshots in a cache: at most three, the oldest is removed first.
#[derive(Clone, Debug)]
pub struct Snapshots {
    cache: PathBuf,
}

impl Snapshots {
    /// The snapshots of a cache.
    pub fn of(cache: &Cache) -> Self {
        Self { cache: cache.root().to_owned() }
    }

    /// Whether the snapshot exists. Another process can remove it at any time.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Copies the data of a stopped server into the cache. Removes the oldest snapshots first.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn keep(&self, key: &str, data: &Path) -> Result<(), Error> {
        let _lock = self.lock()?;
        if self.has(key) {
            return Ok(());
        }
        let numbers = self.numbers();
        for oldest in &numbers[..(numbers.len() + 1).saturating_sub(SNAPSHOTS_MAX)] {
            self.discard(*oldest)?;
        }
        // The directory of a copy that was cut off has the same number, so this copy replaces it.
        let next = numbers.last().map_or(0, |last| last.saturating_add(1));
        let partial = AtomicDir::new(&self.path(next)).map_err(converted)?;
        let copied = copy(key, data, partial.path());
        if copied.is_err() {
            // A copy that failed, for example on a full disk, would keep its space.
            remove(partial.path()).map_err(converted)?;
        }
        copied?;
        flush(partial.path())?;
        partial.commit().map_err(converted)
    }

    /// Removes a snapshot. The key goes first: without it a removal that is cut off leaves no snapshot.
    fn discard(&self, number: u64) -> Result<(), Error> {
        let path = self.path(number).join(KEY);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Io { path, source }),
            _ => remove(&self.path(number)).map_err(converted),
        }
    }

    /// Replaces the data of a stopped server with a snapshot. `false` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`]. The data stay as they are.
    pub(crate) fn put(&self, key: &str, data: &Path) -> Result<bool, Error> {
        let _lock = self.lock()?;
        let Some(found) = self.find(key) else { return Ok(false) };
        let partial = AtomicDir::new(data).map_err(converted)?;
        home::copy(&found.join(DATA), partial.path())?;
        partial.commit().map_err(converted)?;
        Ok(true)
    }

    /// Only one process at a time copies: none may remove a snapshot that another one reads.
    fn lock(&self) -> Result<Lock, Error> {
        Lock::take(&self.cache, LOCK, || {}).map_err(converted)
    }

    fn find(&self, key: &str) -> Option<PathBuf> {
        let mut paths = self.numbers().into_iter().map(|number| self.path(number));
        paths.find(|path| fs::read_to_string(path.join(KEY)).is_ok_and(|known| known == key))
    }

    /// The numbers of all snapshots, the oldest first.
    fn numbers(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.directory()).into_iter().flatten().flatten();
        let mut numbers: Vec<u64> = entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory().join(number.to_string())
    }

    fn directory(&self) -> PathBuf {
        self.cache.join("snapshots")
    }
}

/// Copies data and writes their key. Only this user may read them: the key repeats the settings of a service.
fn copy(key: &str, data: &Path, to: &Path) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| Error::Io { path, source }
    };
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).map_err(failed(to))?;
    home::copy(data, &to.join(DATA))?;
    let path = to.join(KEY);
    fs::write(&path, key).map_err(failed(&path))
}

/// Writes the copy to the disk: after a power loss a snapshot is whole, or it has no name.
fn flush(path: &Path) -> Result<(), Error> {
    let flushed = fs::File::open(path).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    flushed.map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn converted(plimsoll_install::Error { path, source }: plimsoll_install::Error) -> Error {
    Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(parent: &Path, text: &str) -> PathBuf {
        let data = parent.join("home-data");
        fs::create_dir_all(data.join("journal")).unwrap();
        fs::write(data.join("journal/log"), text).unwrap();
        data
    }

    #[test]
    fn a_snapshot_replaces_all_data() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::of(&Cache::at(cache.path()));
        let data = data(cache.path(), "filled");
        assert!(!snapshots.has("a") && !snapshots.put("a", &data).unwrap());
        snapshots.keep("a", &data).unwrap();
        fs::write(data.join("journal/log"), "changed").unwrap();
        fs::write(data.join("new"), "").unwrap();
        assert!(snapshots.has("a") && !snapshots.put("b", &data).unwrap());
        assert!(data.join("new").exists(), "another key changes nothing");
        assert!(snapshots.put("a", &data).unwrap());
        assert_eq!(fs::read_to_string(data.join("journal/log")).unwrap(), "filled");
        assert!(!data.join("new").exists());
    }

    #[test]
    fn the_oldest_snapshot_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::of(&Cache::at(cache.path()));
        let data = data(cache.path(), "x");
        for key in ["a", "b", "c", "b", "d", "e"] {
            snapshots.keep(key, &data).unwrap();
            assert!(snapshots.numbers().len() <= SNAPSHOTS_MAX, "{key}");
        }
        let kept = ["a", "b", "c", "d", "e"].map(|key| snapshots.has(key));
        assert_eq!(kept, [false, false, true, true, true]);
    }

    #[test]
    fn a_removal_that_was_cut_off_leaves_no_snapshot_and_its_space_is_freed() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::of(&Cache::at(cache.path()));
        let data = data(cache.path(), "x");
        for key in ["a", "b", "c"] {
            snapshots.keep(key, &data).unwrap();
        }
        fs::remove_file(snapshots.path(0).join(KEY)).unwrap();
        assert!(!snapshots.has("a") && !snapshots.put("a", &data).unwrap());
        snapshots.keep("a", &data).unwrap();
        assert_eq!(snapshots.numbers(), [1, 2, 3], "the rest of the removed one is gone");
        assert!(["a", "b", "c"].iter().all(|key| snapshots.has(key)));
    }

    #[test]
    fn a_copy_that_was_cut_off_is_no_snapshot_and_does_not_stay() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::of(&Cache::at(cache.path()));
        let cut = AtomicDir::new(&snapshots.path(0)).unwrap();
        fs::write(cut.path().join(KEY), "a").unwrap();
        assert!(!snapshots.has("a"));
        snapshots.keep("a", &data(cache.path(), "x")).unwrap();
        assert!(snapshots.has("a"));
        assert_eq!(fs::read_dir(snapshots.directory()).unwrap().count(), 1);
    }
}
