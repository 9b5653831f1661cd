//! Reads a definition's file and names the line and column of every problem.

use std::fmt::Write as _;

use plimsoll_yaml::{Place, Slip, place_of};

use crate::definition::Definition;
use crate::program::{Problem, Program};

/// Bytes of a definition's file at most.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// The reason why a file is no definition.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file is too large.
    #[error(
        "the definition has {0} bytes, and {FILE_BYTES_MAX} are allowed: split it into several workflows"
    )]
    Large(usize),
    /// The file is no YAML, or a key or value is wrong.
    #[error("{0}")]
    Slip(Box<Slip>),
    /// The definition is inconsistent.
    #[error("{}", lines(.0))]
    Problems(Vec<(Option<Place>, Problem)>),
}

/// Reads a definition in YAML or JSON and compiles it.
///
/// # Errors
///
/// The first slip of the text, or every problem of the definition with its place.
pub fn read(text: &str) -> Result<(Definition, Program), ReadError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(ReadError::Large(text.len()));
    }
    let definition: Definition =
        plimsoll_yaml::document(text).map_err(|slip| ReadError::Slip(Box::new(slip)))?;
    let placed = |problem: Problem| (place_of(text, &problem.path), problem);
    let program = Program::compile_new(&definition)
        .map_err(|problems| ReadError::Problems(problems.into_iter().map(placed).collect()))?;
    Ok((definition, program))
}

fn lines(problems: &[(Option<Place>, Problem)]) -> String {
    let mut text = String::new();
    for (place, problem) in problems {
        let separator = if text.is_empty() { "" } else { "\n" };
        let place =
            place.map_or_else(String::new, |(line, column)| format!("line {line}, column {column}: "));
        // Writing to a text cannot fail.
        let _ = write!(text, "{separator}{place}{problem}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, words: &str) {
        let error = read(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn a_problem_has_its_line_and_column() {
        check(
            "name: a\nsteps:\n- service: {function: f, input: '.a |'}\n",
            "line 3, column 26: `.a |` is not a program of the jq language",
        );
        check(
            "name: a\nsteps:\n- wait: {signl: go}\n",
            "line 3, column 10: unknown key `signl`: did you mean `signal`?",
        );
        check(
            "name: a\nsteps:\n- timer: {}\n",
            "line 3, column 3: a timer needs exactly one of `after`, `until` and `cron`",
        );
        check("name: a\nsteps:\n- timer: {cron: '61 * * * *'}\n", "line 3, column 11: `61` is no minute");
        check("name: 'a b'\nsteps: []\n", "line 1, column 1: the name `a b`");
        check(
            "name: a\nsteps:\n- wait: {name: x, signal: s}\n- wait: {name: x, signal: t}\n",
            "line 4, column 10: a second step has the name `x`",
        );
        check(
            "name: a\nsteps:\n- http: {url: 'ftp://x'}\n- fork: {branches: []}\n",
            "line 3, column 10: write an address that begins with http:// or https://\nline 4, column 10: a fork needs a branch",
        );
        check(
            "name: a\nsteps:\n- repeat: {steps: []}\n",
            "line 3, column 3: the repetition never waits and never ends",
        );
    }

    #[test]
    fn json_is_read_as_well() {
        let one = Definition::new("a").service("f").wait("go").timer_after_ms(5);
        assert_eq!(read(&serde_json::to_string(&one).unwrap()).unwrap().0, one);
    }
}
