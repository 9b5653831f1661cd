//! Describes a program to run, and builds its command.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program with its arguments. It gets no input.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in errors: `the server`.
    pub name: &'static str,
    /// The executable: a path, or a name to find on the PATH.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The file to which its output is appended.
    pub log: PathBuf,
    /// Its working directory.
    pub directory: PathBuf,
    /// Prefixes of environment variables that it must not see, because it would read them as options.
    pub hidden_variables: &'static [&'static str],
}

/// When and how a child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The child is killed with the owner, however the owner ends.
    Bound,
    /// The child ends gracefully when dropped, because its data stays; it is killed if the owner is killed.
    BoundWithData,
    /// The child receives SIGINT, as from Ctrl-C, however the owner ends, so that it can finish its work. A
    /// dropped child that ignores the signal is killed.
    Interrupted,
    /// The child outlives its owner.
    Detached,
}

impl Program {
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
    fn variables_are_hidden_by_their_prefix() {
        let hides = |hidden_variables, name: &str| {
            let (path, log, directory) = ("true".into(), "log".into(), ".".into());
            Program { name: "it", path, args: Vec::new(), log, directory, hidden_variables }
                .hides(name.as_ref())
        };
        assert!(hides(&["HOM", "USER"], "HOME"));
        assert!(!hides(&["HOM", "USER"], "PATH"));
        assert!(!hides(&[], "HOME"));
    }

    #[test]
    fn a_hidden_variable_is_removed_and_the_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let program = Program {
            name: "it",
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
