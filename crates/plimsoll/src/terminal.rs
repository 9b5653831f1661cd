//! Writes what the live view says: data to stdout, talk to stderr.

use std::io::{IsTerminal, Write, stderr, stdout};

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

/// Prints data. A reader that has gone away (a closed pipe) wants no more of it.
pub fn print(text: &str) {
    stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()).unwrap_or_default();
}

/// Says something to the person.
pub fn say(text: &str) {
    writeln!(stderr(), "{text}").unwrap_or_default();
}
