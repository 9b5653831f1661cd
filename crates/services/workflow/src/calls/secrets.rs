//! Reads secrets for the headers of HTTP steps from the environment and from files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use plimsoll_workflow::definition::{Part, parts};

/// The maximum size of a secret, in bytes.
const SECRET_BYTES_MAX: usize = 64 << 10;

/// Secrets by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, String>);

/// Shows names, never values.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// Reads each secret from its source: `env:VARIABLE`, or `file:PATH`, relative to `base`.
    ///
    /// # Errors
    ///
    /// If a source is invalid or missing. The message names no value.
    pub fn read<'a>(
        sources: impl IntoIterator<Item = (&'a str, &'a str)>,
        base: &Path,
    ) -> Result<Self, String> {
        let one = |(name, source): (&str, &str)| Ok((name.to_owned(), value(name, source, base)?));
        sources.into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// The value of a header, with the secrets that it refers to.
    pub(super) fn filled(&self, header: &str) -> Result<String, String> {
        let one = |part: Part<'_>| match part {
            Part::Text(text) => Ok(text.to_owned()),
            Part::Secret(name) => self.0.get(name).cloned().ok_or_else(|| {
                format!("the secret `{name}` is unknown: name its source in `calls.secrets` of the settings")
            }),
        };
        parts(header).into_iter().map(one).collect()
    }
}

fn value(name: &str, source: &str, base: &Path) -> Result<String, String> {
    let fault = |why: String| format!("the secret `{name}`: {why}");
    let read = match source.split_once(':') {
        Some(("env", variable)) => {
            std::env::var(variable).map_err(|_| format!("set the environment variable {variable} to a text"))
        }
        Some(("file", path)) => std::fs::read_to_string(base.join(path))
            .map_err(|error| format!("the file {path} cannot be read: {error}")),
        _ => Err("write its source as env:VARIABLE or file:PATH".to_owned()),
    };
    let value = read.map_err(fault)?.trim_end().to_owned();
    if value.is_empty() || value.len() > SECRET_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(fault(format!("it must be a line of 1 to {SECRET_BYTES_MAX} bytes")));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_from_its_file_and_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("crm"), "hunter2\n").unwrap();
        let secrets = Secrets::read([("crm", "file:crm")], dir.path()).unwrap();
        assert_eq!(secrets.filled("Bearer ${crm}").unwrap(), "Bearer hunter2");
        assert_eq!(format!("{secrets:?}"), "{\"crm\"}");
        assert!(secrets.filled("${bank}").unwrap_err().contains("in `calls.secrets`"));
    }

    #[test]
    fn an_invalid_source_is_refused_with_a_remedy() {
        for (source, part) in [
            ("hunter2", "env:VARIABLE or file:PATH"),
            ("env:PLIMSOLL_NO_SUCH_VARIABLE", "set the environment variable"),
            ("file:missing", "cannot be read"),
        ] {
            let words = Secrets::read([("crm", source)], Path::new("/nonexistent")).unwrap_err();
            assert!(words.contains(part) && !words.contains("hunter2"), "{words}");
        }
    }
}
