//! Defines how a command ends, and pairs failures with exit codes.

use std::process::ExitCode;

use plimsoll_scenario::in_our_words;

/// The end of a command. If several ends apply, [`worst`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Every check passed.
    Held,
    /// Plimsoll itself failed.
    Failed,
    /// Wrong usage, or an invalid scenario.
    Usage,
    /// The server cannot be reached, or refused the client.
    Server,
    /// An acknowledged write is missing or wrong.
    Integrity,
    /// The verdict is INVALID, and the user requested a failure for this verdict.
    Invalid,
    /// An expectation failed.
    Expectation,
    /// Interrupted. The results so far are saved and marked.
    Interrupted,
}

impl Exit {
    /// The code that scripts see.
    pub const fn code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Server => 3,
            Self::Integrity => 4,
            Self::Invalid => 5,
            Self::Expectation => 99,
            Self::Interrupted => 130,
        }
    }

    /// The exit with this code.
    pub fn of(code: u8) -> Option<Self> {
        let all = [
            Self::Held,
            Self::Failed,
            Self::Usage,
            Self::Server,
            Self::Integrity,
            Self::Invalid,
            Self::Expectation,
            Self::Interrupted,
        ];
        all.into_iter().find(|exit| exit.code() == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The most severe exit: failure, usage, integrity, server, expectation, invalid, then interruption.
pub fn worst(exits: impl IntoIterator<Item = Exit>) -> Exit {
    let rank = |exit: &Exit| match exit {
        Exit::Failed => 7,
        Exit::Usage => 6,
        Exit::Integrity => 5,
        Exit::Server => 4,
        Exit::Expectation => 3,
        Exit::Invalid => 2,
        Exit::Interrupted => 1,
        Exit::Held => 0,
    };
    exits.into_iter().max_by_key(rank).unwrap_or(Exit::Held)
}

/// The most severe exit of several runs: an integrity violation outranks a failed run.
pub fn worst_of_runs(exits: &[Exit]) -> Exit {
    if exits.contains(&Exit::Integrity) { Exit::Integrity } else { worst(exits.iter().copied()) }
}

/// An error with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub exit: Exit,
    /// The error and its remedy.
    pub error: anyhow::Error,
}

/// The result of a command.
pub type Outcome<T = Exit> = Result<T, Failure>;

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { exit: Exit::Failed, error }
    }
}

/// Gives an error its exit code.
pub trait Deserves<T> {
    /// Pairs an error with its exit code.
    ///
    /// # Errors
    /// The same error, paired.
    fn deserves(self, exit: Exit) -> Outcome<T>;
}

impl<T, E: Into<anyhow::Error>> Deserves<T> for Result<T, E> {
    fn deserves(self, exit: Exit) -> Outcome<T> {
        self.map_err(|error| Failure { exit, error: error.into() })
    }
}

/// An error with its causes in our words, without repetition: a cause is left out if the text before it contains it.
pub fn explained(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(|cause| in_our_words(&cause.to_string())) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[derive(Debug)]
    struct Repeating {
        source: std::io::Error,
    }

    impl std::fmt::Display for Repeating {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "`x` cannot be opened ({}): give another", self.source)
        }
    }

    impl std::error::Error for Repeating {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.source)
        }
    }

    #[test]
    fn a_cause_is_printed_once() {
        let repeating = Repeating { source: std::io::Error::other("no such thing") };
        let error = anyhow::Error::from(repeating).context("read the settings");
        let said = "read the settings: `x` cannot be opened (no such thing): give another";
        assert_eq!(explained(&error), said);
        let foreign = anyhow!("invalid type: null, expected struct Trucks").context("workload iot");
        assert_eq!(explained(&foreign), "workload iot: found no value: write a map of keys");
        let plain = anyhow!("no such thing").context("open `x`").context("read the settings");
        assert_eq!(explained(&plain), "read the settings: open `x`: no such thing");
    }

    #[test]
    fn integrity_comes_before_the_server_and_the_server_before_an_expectation() {
        assert_eq!(
            worst([Exit::Expectation, Exit::Server, Exit::Integrity, Exit::Interrupted]),
            Exit::Integrity
        );
        assert_eq!(worst([Exit::Expectation, Exit::Server]), Exit::Server);
        assert_eq!(worst([Exit::Interrupted, Exit::Expectation]).code(), 99);
        assert_eq!(worst([Exit::Expectation, Exit::Invalid]).code(), 99);
        assert_eq!(worst([Exit::Held, Exit::Invalid]).code(), 5);
        assert_eq!(worst([]), Exit::Held);
    }

    #[test]
    fn an_integrity_violation_decides_the_exit_of_several_runs() {
        assert_eq!(worst_of_runs(&[Exit::Held, Exit::Integrity, Exit::Failed]), Exit::Integrity);
        assert_eq!(worst_of_runs(&[Exit::Expectation, Exit::Server]), Exit::Server);
        assert_eq!(Exit::of(99), Some(Exit::Expectation));
        assert_eq!(Exit::of(7), None);
    }
}
