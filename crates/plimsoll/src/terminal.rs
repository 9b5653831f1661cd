//! Prints data to stdout and messages to stderr, and draws the live view.

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_host::embedded::Progress;
use plimsoll_measure::event::Event;
use plimsoll_report::live::Kind;
use plimsoll_report::text::{Screen, Style, Width};
use plimsoll_report::{Live, live};
use plimsoll_run::console::{Console, LiveView};

mod installation;

/// The environment variable with the width of output to a pipe, in columns. The help honours it, too.
const COLUMNS: &str = "COLUMNS";

/// The live view on stderr.
#[derive(Debug)]
pub struct Terminal {
    live: Live,
    status_lines: usize,
}

impl Terminal {
    /// A live view for the current stderr.
    pub fn new() -> Self {
        let kind = if stderr().is_terminal() { Kind::Terminal } else { Kind::Plain };
        Self { live: Live::new(width(stderr()), kind), status_lines: 0 }
    }

    /// Moves to the first line of the last status block and clears everything below.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.status_lines) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }

    fn draw(&mut self, update: &live::Update) -> String {
        let Some(status) = &update.status else { return String::new() };
        self.status_lines = status.lines().count();
        format!("{status}\n")
    }
}

impl LiveView for Terminal {
    /// Shows an event. A closed terminal does not stop a run.
    fn on(&mut self, event: &Event) {
        let update = self.live.on(event);
        let mut text = self.erase();
        for line in &update.lines_to_print {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&self.draw(&update));
        stderr().write_all(text.as_bytes()).and_then(|()| stderr().flush()).unwrap_or_default();
    }
}

/// The medium of data on stdout.
pub fn screen() -> Screen {
    Screen { width: width(stdout()).max(Width::MIN), style: style() }
}

/// The width of a list on stdout, whose lines are endless in a pipe: other programs read one entry from a line.
pub fn list_width() -> Width {
    if stdout().is_terminal() || std::env::var_os(COLUMNS).is_some() {
        screen().width
    } else {
        Width::ENDLESS
    }
}

/// The medium of a list on stdout.
#[cfg(feature = "services")]
pub fn list_screen() -> Screen {
    Screen { width: list_width(), style: style() }
}

/// Whether text on stdout may have colours.
fn style() -> Style {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if stdout().is_terminal() && wanted { Style::Colour } else { Style::Plain }
}

/// The width of a terminal. For any other output, `COLUMNS` or the width for pipes.
fn width(stream: impl AsFd) -> Width {
    let terminal = rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    let variable = || std::env::var(COLUMNS).ok()?.parse().ok();
    let columns = terminal.or_else(variable).filter(|columns| *columns > 0);
    columns.map_or(Width::PIPE, Width)
}

/// Whether printed data was lost: the program then ends with an error, but the current work continues.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints data. A closed pipe is accepted silently; any other error is reported once, and fails the program
/// at its end.
pub fn print(text: &str) {
    let printed = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    let Some(error) = printed.err().filter(is_loss) else { return };
    if !LOST.swap(true, Ordering::Relaxed) {
        say(&format!(
            "plimsoll: standard output cannot be written ({error}): the output is incomplete; is the disk full?"
        ));
    }
}

/// Whether printed data was lost.
pub fn has_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

fn is_loss(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::BrokenPipe
}

/// Prints a message.
pub fn say(text: &str) {
    writeln!(stderr(), "{text}").unwrap_or_default();
}

/// The console on stderr; a quiet console shows only warnings.
pub fn console(is_quiet: bool) -> &'static dyn Console {
    if is_quiet { &Quiet } else { &STDERR }
}

static STDERR: Stderr = Stderr { installation_due: AtomicU64::new(0) };

/// Messages, progress and the live view on stderr.
#[derive(Debug)]
struct Stderr {
    /// The second since the start at which a log gets its next line about an installation.
    installation_due: AtomicU64,
}

/// Only warnings on stderr.
#[derive(Debug)]
struct Quiet;

impl Console for Quiet {
    fn say(&self, _: &str) {}

    fn warn(&self, text: &str) {
        say(text);
    }

    fn installing(&self, _: &Progress) {}

    fn width(&self) -> Width {
        Width::PIPE
    }

    fn live(&self) -> Option<Box<dyn LiveView>> {
        None
    }
}

impl Console for Stderr {
    fn say(&self, text: &str) {
        say(text);
    }

    fn warn(&self, text: &str) {
        say(text);
    }

    fn installing(&self, progress: &Progress) {
        installation::show(progress, &self.installation_due);
    }

    fn width(&self) -> Width {
        width(stderr()).max(Width::MIN)
    }

    fn line_width(&self) -> Width {
        if stderr().is_terminal() { self.width() } else { Width::ENDLESS }
    }

    fn live(&self) -> Option<Box<dyn LiveView>> {
        Some(Box::new(Terminal::new()))
    }
}
