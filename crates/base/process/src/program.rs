//! What is run, and what it becomes of this process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program with its words, without input.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program: a path, or a name that is looked for on the PATH.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The file that its output is appended to.
    pub log: PathBuf,
    /// Where it runs.
    pub directory: PathBuf,
    /// Variables of the environment whose names begin so are kept from it: it would take them for options.
    pub hidden_variables: &'static [&'static str],
}

impl Program {
    /// The command that runs it.
    pub(crate) fn command(&self) -> io::Result<Command> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.path);
        command.args(&self.args).current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        for (name, _) in env::vars_os().filter(|(name, _)| self.hides(name)) {
            command.env_remove(name);
        }
        Ok(command)
    }

    fn hides(&self, variable: &OsStr) -> bool {
        self.hidden_variables.iter().any(|prefix| variable.as_bytes().starts_with(prefix.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_hidden_by_how_they_begin() {
        let hides = |hidden_variables, name: &str| {
            let (path, log, directory) = ("true".into(), "log".into(), ".".into());
            Program { path, args: Vec::new(), log, directory, hidden_variables }.hides(name.as_ref())
        };
        assert!(hides(&["HOM", "USER"], "HOME"));
        assert!(!hides(&["HOM", "USER"], "PATH"));
        assert!(!hides(&[], "HOME"));
    }

    #[test]
    fn a_hidden_variable_is_removed_and_the_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let program = Program {
            path: "true".into(),
            args: Vec::new(),
            log: directory.path().join("log"),
            directory: directory.path().to_owned(),
            hidden_variables: &["PATH"],
        };
        let command = program.command().unwrap();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert!(removed.contains(&("PATH".as_ref(), None)), "{removed:?}");
        assert!(removed.iter().all(|(name, _)| name.as_bytes().starts_with(b"PATH")), "{removed:?}");
    }
}
