//! Lists the files of an installation, and checks that they are unchanged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_install::digest;
use serde::{Deserialize, Serialize};

/// The file in the directory of an installation that tells of the others; written last.
pub(crate) const FILE: &str = "manifest.json";
/// Its form.
const FORMAT: u32 = 1;
/// The most that is read of it.
const BYTES_MAX: u64 = 1 << 20;

/// An installation, as `manifest.json` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// The packages it was made from: name, version and SHA-256.
    pub packages: Vec<String>,
    /// Its files.
    pub files: Vec<Entry>,
}

/// A file of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name in the directory.
    pub name: String,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

/// An installation is not there, or not as it was.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// There is none.
    #[error("the model is not installed (there is no {0:?}): run `plimsoll model install`")]
    NotInstalled(PathBuf),
    /// Its manifest cannot be read.
    #[error(
        "{path:?} does not tell what is installed ({why}): run `plimsoll model install`, which makes it anew"
    )]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file is missing, or cannot be read.
    #[error("{path:?} cannot be read ({source}): run `plimsoll model install`, which makes it anew")]
    Missing {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is another than the one that was installed.
    #[error(
        "{path:?} is not the file that was installed (its SHA-256 is {found}, not {expected}): run `plimsoll model \
         install`, which makes it anew"
    )]
    Altered {
        /// The file.
        path: PathBuf,
        /// The digest in the manifest.
        expected: String,
        /// The digest of what is there.
        found: String,
    },
}

impl Manifest {
    /// Looks at the files of a directory.
    ///
    /// # Errors
    /// One of them cannot be read: which, and why.
    pub(crate) fn of(
        directory: &Path,
        packages: Vec<String>,
        names: &[&str],
    ) -> Result<Self, (PathBuf, io::Error)> {
        let entry = |name: &&str| {
            let path = directory.join(name);
            let (sha256, bytes) = digest::of_file(&path).map_err(|error| (path, error))?;
            Ok(Entry { name: (*name).to_owned(), sha256, bytes })
        };
        let files = names.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Manifest { format: FORMAT, packages, files })
    }

    /// Reads the manifest of a directory.
    ///
    /// # Errors
    /// [`VerifyError::NotInstalled`], [`VerifyError::Manifest`].
    pub(crate) fn read(directory: &Path) -> Result<Self, VerifyError> {
        let path = directory.join(FILE);
        let wrong = |why: String| VerifyError::Manifest { path: path.clone(), why };
        match fs::metadata(&path) {
            Ok(data) if data.len() > BYTES_MAX => return Err(wrong(format!("it has {} bytes", data.len()))),
            Ok(_) => {}
            Err(_) => return Err(VerifyError::NotInstalled(path)),
        }
        let text = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(wrong(format!("its format is {}, not {FORMAT}", manifest.format)));
        }
        Ok(manifest)
    }

    /// Writes it into its directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FILE), serde_json::to_vec_pretty(self)?)
    }

    /// Holds a file to its digest; gives its path.
    ///
    /// # Errors
    /// [`VerifyError::Manifest`] if the manifest does not name it, [`VerifyError::Missing`], [`VerifyError::Altered`].
    pub(crate) fn check(&self, directory: &Path, name: &str) -> Result<PathBuf, VerifyError> {
        let Some(entry) = self.files.iter().find(|entry| entry.name == name) else {
            let (path, why) = (directory.join(FILE), format!("it does not name {name}"));
            return Err(VerifyError::Manifest { path, why });
        };
        let path = directory.join(name);
        match digest::of_file(&path) {
            Ok((found, _)) if found == entry.sha256 => Ok(path),
            Ok((found, _)) => Err(VerifyError::Altered { path, expected: entry.sha256.clone(), found }),
            Err(source) => Err(VerifyError::Missing { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An installation of one file, after something was done to it.
    fn check(harm: impl FnOnce(&Path), expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("model"), "good").unwrap();
        Manifest::of(at, vec!["a==1".into()], &["model"]).unwrap().write(at).unwrap();
        harm(at);
        let error =
            Manifest::read(at).and_then(|manifest| manifest.check(at, "model")).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("plimsoll model install"), "{error}");
    }

    #[test]
    fn what_was_installed_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("model"), "good").unwrap();
        let manifest = Manifest::of(directory.path(), vec![], &["model"]).unwrap();
        manifest.write(directory.path()).unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), manifest);
        manifest.check(directory.path(), "model").unwrap();
    }

    #[test]
    fn what_is_missing_or_altered_is_refused_with_the_command_that_mends_it() {
        check(|at| fs::write(at.join("model"), "evil").unwrap(), "is not the file that was installed");
        check(|at| fs::remove_file(at.join("model")).unwrap(), "cannot be read");
        check(|at| fs::remove_file(at.join(FILE)).unwrap(), "is not installed");
        check(|at| fs::write(at.join(FILE), "{}").unwrap(), "missing field");
        check(|at| fs::write(at.join(FILE), vec![b' '; (BYTES_MAX + 1) as usize]).unwrap(), "1048577 bytes");
        let other = r#"{"format": 2, "packages": [], "files": []}"#;
        check(|at| fs::write(at.join(FILE), other).unwrap(), "its format is 2");
        let empty = r#"{"format": 1, "packages": [], "files": []}"#;
        check(|at| fs::write(at.join(FILE), empty).unwrap(), "does not name model");
    }
}
