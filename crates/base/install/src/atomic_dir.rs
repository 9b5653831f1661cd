//! Builds a directory beside its target, then renames it, so that the target is always complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// A directory that is renamed to its target when it is complete: `TARGET.partial`, on the same file system.
/// An incomplete directory is never taken for an installation; the next attempt starts with an empty one.
#[derive(Debug)]
pub struct AtomicDir {
    path: PathBuf,
    target: PathBuf,
}

impl AtomicDir {
    /// Creates an empty directory that will become `target`. The caller holds the lock.
    ///
    /// # Errors
    /// The directory cannot be emptied or created.
    pub fn new(target: &Path) -> Result<Self, Error> {
        let path = sibling(target, "partial");
        remove(&path)?;
        fs::create_dir_all(&path).map_err(Error::at(&path))?;
        Ok(Self { path, target: target.to_owned() })
    }

    /// The directory to build in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the directory to its target, replacing it.
    ///
    /// # Errors
    /// The directory cannot be renamed.
    pub fn commit(self) -> Result<(), Error> {
        replace(&self.path, &self.target)
    }

    /// Renames one subdirectory to the target, replacing it, and removes the rest.
    ///
    /// # Errors
    /// The subdirectory is missing, or cannot be renamed.
    pub fn commit_part(self, name: &str) -> Result<(), Error> {
        replace(&self.path.join(name), &self.target)?;
        remove(&self.path)
    }
}

/// The path beside `target` with a suffix: `TARGET.SUFFIX`. Dots in the target's name stay.
pub fn sibling(target: &Path, suffix: &str) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(".");
    path.push(suffix);
    path.into()
}

/// Removes a directory; a missing directory is not an error.
///
/// # Errors
/// The directory exists and cannot be removed.
pub fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at(directory)(error)),
        _ => Ok(()),
    }
}

fn replace(from: &Path, target: &Path) -> Result<(), Error> {
    // Checked first, so that the old directory is not removed in vain.
    fs::metadata(from).map_err(Error::at(from))?;
    remove(target)?;
    fs::rename(from, target).map_err(Error::at(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_exists_only_after_the_commit() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("tool-1.0");
        let partial = AtomicDir::new(&target).unwrap();
        fs::write(partial.path().join("tool"), "new").unwrap();
        assert!(!target.exists());
        partial.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("tool")).unwrap(), "new");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_leftover_of_an_interrupted_attempt_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("tool");
        fs::write(AtomicDir::new(&target).unwrap().path().join("half"), "").unwrap();
        let partial = AtomicDir::new(&target).unwrap();
        assert_eq!(fs::read_dir(partial.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_old_target_stays_until_a_new_one_is_committed() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("tool");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "").unwrap();
        let partial = AtomicDir::new(&target).unwrap();
        assert!(partial.commit_part("missing").is_err());
        assert!(target.join("old").is_file());
        AtomicDir::new(&target).unwrap().commit().unwrap();
        assert!(target.is_dir() && !target.join("old").exists());
    }

    #[test]
    fn a_part_is_committed_and_the_rest_removed() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("tool");
        let partial = AtomicDir::new(&target).unwrap();
        fs::create_dir(partial.path().join("jars")).unwrap();
        fs::write(partial.path().join("jars/a.jar"), "").unwrap();
        fs::write(partial.path().join("pom.xml"), "").unwrap();
        partial.commit_part("jars").unwrap();
        assert!(target.join("a.jar").is_file());
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_version_with_dots_keeps_all_of_them() {
        assert_eq!(
            sibling(Path::new("/c/tool-0.5.3-beta.196"), "log"),
            Path::new("/c/tool-0.5.3-beta.196.log")
        );
    }
}
