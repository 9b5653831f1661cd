//! Runs a program that fetches or builds files, and waits for its end.
//!
//! Each line of its output goes to the caller and into a log; the last lines go into the error.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::Error;

/// The longest line; a longer line is split.
pub const LINE_BYTES_MAX: usize = 8 << 10;
/// The longest log. Later lines still reach the caller.
pub const LOG_BYTES_MAX: u64 = 64 << 20;
/// The number of last lines that an error quotes.
pub const TAIL_LINES: usize = 15;
/// The time without output after which the caller gets [`Output::Silence`].
pub const SILENCE: Duration = Duration::from_secs(1);

/// The stream of a program's messages; the other stream is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

/// Output of a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// A whole line, without its end.
    Line(&'a str),
    /// A line that ends with a carriage return: the next line overwrites it. It is not logged.
    Status(&'a str),
    /// No output for [`SILENCE`].
    Silence,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit status.
    pub status: ExitStatus,
    /// The last lines, at most [`TAIL_LINES`].
    pub tail: String,
}

/// A program cannot be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program does not start.
    #[error("the program cannot be run ({0}): is it installed and on the PATH?")]
    Program(io::Error),
    /// The log cannot be written. The program was killed.
    #[error(transparent)]
    Log(#[from] Error),
}

/// Runs a command without input. Its output goes to `observe` and its lines into the file `log`, if given.
/// The program stays in this process's group, so that Ctrl-C ends both, with all programs it has started.
///
/// # Errors
/// [`RunError`]. A failure of the program is not an error: check [`Finished::status`].
pub fn run(
    mut command: Command,
    stream: Stream,
    log: Option<&Path>,
    observe: &mut dyn FnMut(Output<'_>),
) -> Result<Finished, RunError> {
    let mut log = Log::open(log)?;
    let (stdout, stderr) = match stream {
        Stream::Stdout => (Stdio::piped(), Stdio::null()),
        Stream::Stderr => (Stdio::null(), Stdio::piped()),
    };
    let mut child =
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().map_err(RunError::Program)?;
    let read = follow(&mut child, &mut log, observe);
    if read.is_err() {
        // Without a reader the program would wait for ever. The kill has no effect if the program has ended.
        let _ = child.kill();
    }
    let status = child.wait().map_err(RunError::Program)?;
    read?;
    Ok(Finished { status, tail: log.tail() })
}

/// A line, and the byte that ended it.
type Ended = (String, u8);

fn follow(child: &mut Child, log: &mut Log, observe: &mut dyn FnMut(Output<'_>)) -> Result<(), RunError> {
    let stdout = child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    let stream = stdout.or_else(|| child.stderr.take().map(|stream| Box::new(stream) as _));
    let (lines, read) = sync_channel(64);
    thread::spawn(move || {
        // An unreadable output counts as ended.
        stream.map_or(Ok(()), |stream| split(BufReader::new(stream), &lines)).unwrap_or_default();
    });
    note(&read, log, observe)
}

fn note(read: &Receiver<Ended>, log: &mut Log, observe: &mut dyn FnMut(Output<'_>)) -> Result<(), RunError> {
    loop {
        match read.recv_timeout(SILENCE) {
            Ok((line, b'\r')) => observe(Output::Status(&line)),
            Ok((line, _)) => {
                log.note(&line)?;
                observe(Output::Line(&line));
            }
            Err(RecvTimeoutError::Timeout) => observe(Output::Silence),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Splits a stream into lines until it ends or the receiver is gone. A status line is sent at once, without
/// waiting for the next byte. So a line that ends with CR LF arrives twice: as a status and as a line.
fn split(mut stream: impl BufRead, lines: &SyncSender<Ended>) -> io::Result<()> {
    let (mut line, mut status) = (Vec::new(), Vec::new());
    loop {
        let bytes = stream.fill_buf()?;
        let Some(&byte) = bytes.first() else { break };
        let length = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len());
        let taken = length.min(LINE_BYTES_MAX - line.len());
        line.extend_from_slice(&bytes[..taken]);
        let end = bytes.get(taken).copied().filter(|byte| matches!(byte, b'\n' | b'\r'));
        stream.consume(taken + usize::from(end.is_some()));
        if byte == b'\n' && line.is_empty() {
            line.append(&mut status);
        }
        status.clear();
        if let Some(end) = end.or((line.len() == LINE_BYTES_MAX).then_some(b'\n')) {
            if lines.send((String::from_utf8_lossy(&line).into_owned(), end)).is_err() {
                return Ok(());
            }
            if end == b'\r' {
                status.append(&mut line);
            }
            line.clear();
        }
    }
    if !line.is_empty() {
        lines.send((String::from_utf8_lossy(&line).into_owned(), b'\n')).unwrap_or_default();
    }
    Ok(())
}

/// Writes the lines to a file, if there is one, and keeps the last of them in memory.
struct Log {
    file: Option<(File, PathBuf)>,
    bytes: u64,
    last: VecDeque<String>,
}

impl Log {
    fn open(path: Option<&Path>) -> Result<Self, Error> {
        let create = |path: &Path| Ok((File::create(path).map_err(Error::at(path))?, path.to_owned()));
        let file: Result<_, Error> = path.map(create).transpose();
        Ok(Self { file: file?, bytes: 0, last: VecDeque::new() })
    }

    fn note(&mut self, line: &str) -> Result<(), Error> {
        self.bytes += line.len() as u64 + 1;
        if let Some((file, path)) = &mut self.file
            && self.bytes <= LOG_BYTES_MAX
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

    /// The output of a script, each piece after its kind: `line …`, `status …`.
    fn output(script: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut observe = |output: Output<'_>| match output {
            Output::Line(line) => pieces.push(format!("line {line}")),
            Output::Status(line) => pieces.push(format!("status {line}")),
            Output::Silence => {}
        };
        run(shell(script), Stream::Stdout, None, &mut observe).unwrap();
        pieces
    }

    #[test]
    fn every_line_is_observed_and_logged_and_the_last_are_kept() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut lines = Vec::new();
        let script = "for i in $(seq 20); do echo line $i >&2; done; echo aside; exit 3";
        let mut observe = |output: Output<'_>| match output {
            Output::Line(line) => lines.push(line.to_owned()),
            other => assert_eq!(other, Output::Silence),
        };
        let finished = run(shell(script), Stream::Stderr, Some(log.path()), &mut observe).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!((lines.len(), lines[19].as_str()), (20, "line 20"));
        assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 20);
        let tail = finished.tail;
        assert!(tail.starts_with("line 6\n") && tail.ends_with("\nline 20"), "{tail}");
    }

    #[test]
    fn a_silent_program_has_a_default_tail() {
        let finished = run(shell("echo aside >&2"), Stream::Stdout, None, &mut |_| {}).unwrap();
        assert_eq!(finished.tail, "(it printed nothing)");
    }

    #[test]
    fn silence_is_observed() {
        let mut silent = false;
        let observe = &mut |output: Output<'_>| silent |= output == Output::Silence;
        run(shell("sleep 1.5"), Stream::Stdout, None, observe).unwrap();
        assert!(silent);
    }

    #[test]
    fn a_long_line_comes_in_pieces() {
        let lengths: Vec<_> =
            output("head -c 20000 /dev/zero | tr '\\0' a").iter().map(String::len).collect();
        assert_eq!(lengths, [8192, 8192, 3616].map(|bytes| bytes + "line ".len()));
    }

    #[test]
    fn a_log_is_bounded_and_the_tail_continues() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::open(Some(file.path())).unwrap();
        log.note("first").unwrap();
        log.bytes = LOG_BYTES_MAX;
        log.note("last").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "first\n");
        assert_eq!(log.tail(), "first\nlast");
    }

    #[test]
    fn a_status_line_is_observed_at_its_carriage_return() {
        assert_eq!(
            output("printf '1/3\\r2/3\\rdone\\n\\nend'"),
            ["status 1/3", "status 2/3", "line done", "line ", "line end"]
        );
    }

    #[test]
    fn other_encodings_and_line_ends_are_read() {
        assert_eq!(output("printf 'a\\377b\\r\\nc'"), ["status a\u{fffd}b", "line a\u{fffd}b", "line c"]);
    }

    #[test]
    fn a_missing_program_and_an_unwritable_log_are_different_errors() {
        let missing = run(Command::new("/nowhere/at-all"), Stream::Stdout, None, &mut |_| {});
        assert!(matches!(missing, Err(RunError::Program(_))));
        let unwritten = run(shell("true"), Stream::Stdout, Some(Path::new("/nowhere/log")), &mut |_| {});
        assert!(matches!(unwritten, Err(RunError::Log(_))));
    }
}
