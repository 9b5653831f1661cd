//! How a thing gets to its place: made beside it and renamed into it, so that what is there is whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// A directory in which something is made: `PLACE.partial`, on the file system of its place, so that renaming works. One that
/// is left half-finished is never taken for an installation; the next try begins anew.
#[derive(Debug)]
pub struct AtomicDir {
    path: PathBuf,
    place: PathBuf,
}

impl AtomicDir {
    /// An empty site for what goes to `place`. The caller holds the lock.
    ///
    /// # Errors
    /// It cannot be emptied or made.
    pub fn new(place: &Path) -> Result<Self, Error> {
        let path = sibling(place, "partial");
        remove(&path)?;
        fs::create_dir_all(&path).map_err(Error::at(&path))?;
        Ok(Self { path, place: place.to_owned() })
    }

    /// Where it is made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the whole site in its place, instead of what was there.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn commit(self) -> Result<(), Error> {
        replace(&self.path, &self.place)
    }

    /// Puts one directory of the site in its place, instead of what was there, and removes the rest.
    ///
    /// # Errors
    /// It is not there, or cannot be renamed.
    pub fn commit_part(self, name: &str) -> Result<(), Error> {
        replace(&self.path.join(name), &self.place)?;
        remove(&self.path)
    }
}

/// The path beside `place` with a suffix: `PLACE.SUFFIX`. Dots in the name of the place stay.
pub fn sibling(place: &Path, suffix: &str) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push(".");
    path.push(suffix);
    path.into()
}

/// Removes a directory. One that is not there needs no removing.
///
/// # Errors
/// It is there and cannot be removed.
pub fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at(directory)(error)),
        _ => Ok(()),
    }
}

fn replace(from: &Path, place: &Path) -> Result<(), Error> {
    // What is new is looked for first: what is old must not go for nothing.
    fs::metadata(from).map_err(Error::at(from))?;
    remove(place)?;
    fs::rename(from, place).map_err(Error::at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_in_its_place_only_when_it_is_put_there() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("tool-1.0");
        let site = AtomicDir::new(&place).unwrap();
        fs::write(site.path().join("tool"), "new").unwrap();
        assert!(!place.exists());
        site.commit().unwrap();
        assert_eq!(fs::read_to_string(place.join("tool")).unwrap(), "new");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_an_interrupted_try_left_is_not_in_the_next() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("tool");
        fs::write(AtomicDir::new(&place).unwrap().path().join("half"), "").unwrap();
        let site = AtomicDir::new(&place).unwrap();
        assert_eq!(fs::read_dir(site.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_there_is_replaced_and_stays_when_there_is_nothing_new() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("tool");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("old"), "").unwrap();
        let site = AtomicDir::new(&place).unwrap();
        assert!(site.commit_part("missing").is_err());
        assert!(place.join("old").is_file());
        AtomicDir::new(&place).unwrap().commit().unwrap();
        assert!(place.is_dir() && !place.join("old").exists());
    }

    #[test]
    fn a_part_is_put_in_its_place_and_the_rest_goes() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("tool");
        let site = AtomicDir::new(&place).unwrap();
        fs::create_dir(site.path().join("jars")).unwrap();
        fs::write(site.path().join("jars/a.jar"), "").unwrap();
        fs::write(site.path().join("pom.xml"), "").unwrap();
        site.commit_part("jars").unwrap();
        assert!(place.join("a.jar").is_file());
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
