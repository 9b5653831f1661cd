//! Lists the files of an installation, and checks that they are unchanged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_install::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The file that lists the other files of an installation; written last.
pub(crate) const FILE: &str = "manifest.json";
/// The format of the manifest.
const FORMAT: u32 = 1;
/// The size limit of the manifest.
const BYTES_MAX: u64 = 1 << 20;

/// An installation, as `manifest.json` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// The source packages: name, version and SHA-256.
    pub packages: Vec<String>,
    /// Its files.
    pub files: Vec<Entry>,
}

/// A file of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The file's name in the directory.
    pub name: String,
    /// The file's SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// The file's length.
    pub bytes: u64,
}

/// An installation is missing or altered.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The installation is missing.
    #[error("the model is not installed ({0:?} is missing): run `plimsoll model install`")]
    NotInstalled(PathBuf),
    /// The manifest cannot be read.
    #[error("{path:?} is invalid ({why}): run `plimsoll model install`, which replaces it")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A file is missing, or cannot be read.
    #[error("{path:?} cannot be read ({source}): run `plimsoll model install`, which replaces it")]
    Missing {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file differs from the installed one.
    #[error(
        "{path:?} is not the file that was installed (its SHA-256 is {found}, not {expected}): run `plimsoll model \
         install`, which replaces it"
    )]
    Altered {
        /// The file.
        path: PathBuf,
        /// The digest in the manifest.
        expected: String,
        /// The digest of the file.
        found: String,
    },
}

impl Manifest {
    /// Lists the files of a directory.
    ///
    /// # Errors
    /// One of the files cannot be read.
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
        let manifest = parsed(&text).map_err(wrong)?;
        if manifest.format != FORMAT {
            return Err(wrong(format!("its format is {}, not {FORMAT}", manifest.format)));
        }
        Ok(manifest)
    }

    /// Writes the manifest into the directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FILE), serde_json::to_vec_pretty(self)?)
    }

    /// Verifies the digest of a file; returns its path.
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

/// A field: its name, the description of its valid values, and their check.
type Field = (&'static str, &'static str, fn(&Value) -> bool);

/// The fields of a manifest.
const FIELDS: [Field; 3] = [
    ("format", "a whole number", is_number),
    ("packages", "a list of texts", is_texts),
    ("files", "a list of files", Value::is_array),
];
/// The fields of one of its files.
const OF_A_FILE: [Field; 3] = [
    ("name", "a text", Value::is_string),
    ("sha256", "a text", Value::is_string),
    ("bytes", "a whole number", is_number),
];

fn is_number(value: &Value) -> bool {
    value.is_u64()
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

fn parsed(text: &[u8]) -> Result<Manifest, String> {
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| format!("line {}, column {} is not JSON", error.line(), error.column()))?;
    check_fields(&value, "", &FIELDS)?;
    for (index, file) in value["files"].as_array().into_iter().flatten().enumerate() {
        check_fields(file, &format!("files[{index}]."), &OF_A_FILE)?;
    }
    // Only a number beyond its type is left.
    Manifest::deserialize(value).map_err(|_| "`format` is too large: expected a whole number".into())
}

/// Checks the fields of an object at a path.
fn check_fields(value: &Value, path: &str, fields: &[Field]) -> Result<(), String> {
    let names = fields.iter().map(|(name, ..)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let object = value.as_object().ok_or_else(|| format!("expected an object with {names}"))?;
    for (name, expected, is_one) in fields {
        match object.get(*name) {
            None => return Err(format!("`{path}{name}` is missing: expected {expected}")),
            Some(value) if !is_one(value) => {
                return Err(format!("`{path}{name}` is invalid: expected {expected}"));
            }
            Some(_) => {}
        }
    }
    match object.keys().find(|key| fields.iter().all(|(name, ..)| name != key)) {
        Some(key) => Err(format!("`{path}{key}` is unknown: expected {names}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Installs one file, and harms it.
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
    fn an_unaltered_installation_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("model"), "good").unwrap();
        let manifest = Manifest::of(directory.path(), vec![], &["model"]).unwrap();
        manifest.write(directory.path()).unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), manifest);
        manifest.check(directory.path(), "model").unwrap();
    }

    #[test]
    fn a_missing_or_altered_file_is_refused_with_the_remedy() {
        check(|at| fs::write(at.join("model"), "evil").unwrap(), "is not the file that was installed");
        check(|at| fs::remove_file(at.join("model")).unwrap(), "cannot be read");
        check(|at| fs::remove_file(at.join(FILE)).unwrap(), "is not installed");
        for (text, expected) in [
            ("{}", "`format` is missing: expected a whole number"),
            ("[1]", "expected an object with `format`, `packages`, `files`"),
            ("{\n\"format\" 1}", "line 2, column 10 is not JSON"),
            (
                r#"{"format": "1", "packages": [], "files": []}"#,
                "`format` is invalid: expected a whole number",
            ),
            (r#"{"format": 5000000000, "packages": [], "files": []}"#, "`format` is too large"),
            (
                r#"{"format": 1, "packages": [1], "files": []}"#,
                "`packages` is invalid: expected a list of texts",
            ),
            (r#"{"format": 1, "packages": [], "files": [{"name": "a"}]}"#, "`files[0].sha256` is missing"),
            (r#"{"format": 1, "packages": [], "files": [], "file": 1}"#, "`file` is unknown"),
        ] {
            check(|at| fs::write(at.join(FILE), text).unwrap(), expected);
        }
        check(|at| fs::write(at.join(FILE), vec![b' '; (BYTES_MAX + 1) as usize]).unwrap(), "1048577 bytes");
        let other = r#"{"format": 2, "packages": [], "files": []}"#;
        check(|at| fs::write(at.join(FILE), other).unwrap(), "its format is 2");
        let empty = r#"{"format": 1, "packages": [], "files": []}"#;
        check(|at| fs::write(at.join(FILE), empty).unwrap(), "does not name model");
    }
}
