//! Verifies the files of a directory against a list of checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::{Error, digest};

/// Files by name, with their SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checklist {
    sums: BTreeMap<String, String>,
}

/// A directory differs from its list.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The directory cannot be read.
    #[error(transparent)]
    Io(#[from] Error),
    /// A listed file is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// An unlisted file exists.
    #[error("{0} is new")]
    New(String),
    /// A file has other contents.
    #[error("{0} has another checksum")]
    Altered(String),
}

impl Checklist {
    /// Reads a list in the format of `sha256sum`: the digest, two blanks and the name, one file a line. Other
    /// lines are ignored.
    pub fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        Self { sums: lines.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect() }
    }

    /// Compares a directory with the list: no file may be missing, added or altered.
    ///
    /// # Errors
    /// [`CheckError`], for the first file by name.
    pub fn check(&self, directory: &Path) -> Result<(), CheckError> {
        let found = names(directory).map_err(Error::at(directory))?;
        if let Some(name) = self.sums.keys().find(|name| !found.contains(*name)) {
            return Err(CheckError::Missing(name.clone()));
        }
        if let Some(name) = found.iter().find(|name| !self.sums.contains_key(*name)) {
            return Err(CheckError::New(name.clone()));
        }
        for (name, sum) in &self.sums {
            let path = directory.join(name);
            if digest::of_file(&path).map_err(Error::at(&path))?.0 != *sum {
                return Err(CheckError::Altered(name.clone()));
            }
        }
        Ok(())
    }
}

fn names(directory: &Path) -> io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of "abc".
    const LIST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.jar\n";

    fn check(files: &[(&str, &str)], expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let said = Checklist::read(LIST).check(directory.path()).map_err(|error| error.to_string());
        assert_eq!(said.err().unwrap_or_default(), expected);
    }

    #[test]
    fn a_directory_that_matches_its_list_is_accepted() {
        check(&[("a.jar", "abc")], "");
    }

    #[test]
    fn a_file_that_is_missing_altered_or_new_is_named() {
        check(&[], "a.jar is missing");
        check(&[("a.jar", "abd")], "a.jar has another checksum");
        check(&[("a.jar", "abc"), ("b.jar", "abc")], "b.jar is new");
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let error = Checklist::read("").check(Path::new("/nowhere/at-all")).unwrap_err();
        assert!(matches!(error, CheckError::Io(_)), "{error}");
    }
}
