//! Writes what the live view says: data to stdout, talk to stderr.

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_measure::event::Event;
use plimsoll_report::live::{Kind, Width};
use plimsoll_report::text::Style;
use plimsoll_report::{Live, live};

/// Columns when the terminal does not tell.
const COLUMNS: usize = 100;

/// The live view on stderr.
#[derive(Debug)]
pub struct Terminal {
    live: Live,
    status_lines: usize,
}

impl Terminal {
    /// A live view for whatever stderr is.
    pub fn new() -> Self {
        let kind = if stderr().is_terminal() { Kind::Terminal } else { Kind::Plain };
        let columns = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
        let width = if columns == 0 { COLUMNS } else { columns };
        Self { live: Live::new(Width(width), kind), status_lines: 0 }
    }

    /// Shows an event. A terminal that is gone is no reason to stop a run.
    pub fn on(&mut self, event: &Event) {
        let update = self.live.on(event);
        let mut text = self.erase();
        for line in &update.lines_to_print {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&self.draw(&update));
        stderr().write_all(text.as_bytes()).and_then(|()| stderr().flush()).unwrap_or_default();
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

/// Whether text on stdout may have colours.
pub fn style() -> Style {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if stdout().is_terminal() && wanted { Style::Colour } else { Style::Plain }
}

/// Whether data was lost that had been printed: what comes of it is the end of the program, not of what is under way.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints data. A reader that has gone away (a closed pipe) wants no more of it; any other error is said, once, and kept
/// for the end of the program.
pub fn print(text: &str) {
    let printed = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    let Some(error) = printed.err().filter(is_loss) else { return };
    if !LOST.swap(true, Ordering::Relaxed) {
        say(&format!(
            "plimsoll: standard output cannot be written ({error}): what was printed is not whole; is the disk full?"
        ));
    }
}

/// Whether data was printed that nobody has.
pub fn has_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

fn is_loss(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::BrokenPipe
}

/// An error with its causes, each said once: a sentence that names its cause is not followed by it.
pub fn explained(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// Says something to the person.
pub fn say(text: &str) {
    writeln!(stderr(), "{text}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[derive(Debug)]
    struct Repeating {
        source: io::Error,
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
    fn a_cause_is_said_once() {
        let repeating = Repeating { source: io::Error::other("no such thing") };
        let error = anyhow::Error::from(repeating).context("read the settings");
        let said = "read the settings: `x` cannot be opened (no such thing): give another";
        assert_eq!(explained(&error), said);
        let plain = anyhow!("no such thing").context("open `x`").context("read the settings");
        assert_eq!(explained(&plain), "read the settings: open `x`: no such thing");
    }
}
