//! Runs the program that fetches or builds something, to its end.
//!
//! What it says goes line by line to the caller, who knows what the words mean, into a log, and at its end into the error.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::Error;

/// The most of a line that is taken at once; what is longer counts as several lines.
pub const LINE_BYTES_MAX: u64 = 8 << 10;
/// The most that is written into a log; what comes after it is still read and told.
pub const LOG_BYTES_MAX: u64 = 64 << 20;
/// How many of the last lines are told.
pub const TAIL_LINES: usize = 15;

/// Where a program says what it does; what it says elsewhere is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// On its standard output.
    Output,
    /// On its standard error.
    Error,
}

/// A program that was run to its end.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its last lines, at most [`TAIL_LINES`].
    pub tail: String,
}

/// A program could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It does not run.
    #[error("the program cannot be run ({0}): is it installed and on the PATH?")]
    Program(io::Error),
    /// Its log cannot be written. It was killed.
    #[error(transparent)]
    Log(#[from] Error),
}

/// Runs a command without input. Every line that it says is given to `tell` and written to the file `log`, if there is one.
/// It stays in the process group of this process, so that Ctrl-C ends both, and what it has started itself.
///
/// # Errors
/// [`RunError`]. That it fails is none: look at [`Ended::status`].
pub fn run(
    mut command: Command,
    talk: Talk,
    log: Option<&Path>,
    tell: &mut dyn FnMut(&str),
) -> Result<Ended, RunError> {
    let mut words = Words::open(log)?;
    let (output, error) = match talk {
        Talk::Output => (Stdio::piped(), Stdio::null()),
        Talk::Error => (Stdio::null(), Stdio::piped()),
    };
    let mut child =
        command.stdin(Stdio::null()).stdout(output).stderr(error).spawn().map_err(RunError::Program)?;
    let listened = listen(&mut child, &mut words, tell);
    if listened.is_err() {
        // It would wait for a reader; if it has ended already, so much the better.
        let _ = child.kill();
    }
    let status = child.wait().map_err(RunError::Program)?;
    listened?;
    Ok(Ended { status, tail: words.tail() })
}

fn listen(child: &mut Child, words: &mut Words, tell: &mut dyn FnMut(&str)) -> Result<(), RunError> {
    let output = child.stdout.take().map(|said| Box::new(said) as Box<dyn Read>);
    let said = output.or_else(|| child.stderr.take().map(|said| Box::new(said) as Box<dyn Read>));
    let mut said = BufReader::new(said.unwrap_or_else(|| Box::new(io::empty())));
    while let Some(line) = line(&mut said).map_err(RunError::Program)? {
        words.note(&line)?;
        tell(&line);
    }
    Ok(())
}

/// The next line without its end; none at the end of all.
fn line(said: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if said.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") {
        line.truncate(line.len() - if line.ends_with(b"\r\n") { 2 } else { 1 });
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// What was said: in a log, and its end in memory.
struct Words {
    log: Option<(File, PathBuf)>,
    log_bytes: u64,
    last: VecDeque<String>,
}

impl Words {
    fn open(log: Option<&Path>) -> Result<Self, Error> {
        let create = |path: &Path| Ok((File::create(path).map_err(Error::at(path))?, path.to_owned()));
        let log: Result<_, Error> = log.map(create).transpose();
        Ok(Self { log: log?, log_bytes: 0, last: VecDeque::new() })
    }

    fn note(&mut self, line: &str) -> Result<(), Error> {
        self.log_bytes += line.len() as u64 + 1;
        if let Some((file, path)) = &mut self.log
            && self.log_bytes <= LOG_BYTES_MAX
        {
            writeln!(file, "{line}").map_err(Error::at(path))?;
        }
        if self.last.len() == TAIL_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        Ok(())
    }

    fn tail(self) -> String {
        match self.last.is_empty() {
            true => "(it printed nothing)".to_owned(),
            false => Vec::from(self.last).join("\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn every_line_is_told_and_logged_and_the_last_are_kept() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut told = Vec::new();
        let script = "for i in $(seq 20); do echo line $i >&2; done; echo aside; exit 3";
        let ended = run(shell(script), Talk::Error, Some(log.path()), &mut |line| told.push(line.to_owned()));
        let ended = ended.unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!((told.len(), told[19].as_str()), (20, "line 20"));
        assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 20);
        assert!(ended.tail.starts_with("line 6\n") && ended.tail.ends_with("\nline 20"), "{}", ended.tail);
    }

    #[test]
    fn a_program_that_says_nothing_is_said_to() {
        let ended = run(shell("echo aside >&2"), Talk::Output, None, &mut |_| {}).unwrap();
        assert_eq!(ended.tail, "(it printed nothing)");
    }

    #[test]
    fn a_line_without_end_is_taken_in_pieces() {
        let mut told = Vec::new();
        let script = "head -c 20000 /dev/zero | tr '\\0' a";
        run(shell(script), Talk::Output, None, &mut |line| told.push(line.len())).unwrap();
        assert_eq!(told, [8192, 8192, 3616]);
    }

    #[test]
    fn a_log_is_bounded_and_the_words_are_not() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut words = Words::open(Some(log.path())).unwrap();
        words.note("first").unwrap();
        words.log_bytes = LOG_BYTES_MAX;
        words.note("last").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "first\n");
        assert_eq!(words.tail(), "first\nlast");
    }

    #[test]
    fn words_in_another_encoding_do_not_end_it() {
        let mut told = Vec::new();
        run(shell("printf 'a\\377b\\r\\nc'"), Talk::Output, None, &mut |line| told.push(line.to_owned()))
            .unwrap();
        assert_eq!(told, ["a\u{fffd}b", "c"]);
    }

    #[test]
    fn a_program_that_is_not_there_and_a_log_that_cannot_be_written_are_told_apart() {
        let missing = run(Command::new("/nowhere/at-all"), Talk::Output, None, &mut |_| {});
        assert!(matches!(missing, Err(RunError::Program(_))));
        let unwritten = run(shell("true"), Talk::Output, Some(Path::new("/nowhere/log")), &mut |_| {});
        assert!(matches!(unwritten, Err(RunError::Log(_))));
    }
}
