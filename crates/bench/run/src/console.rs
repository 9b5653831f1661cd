//! Defines the port through which a run shows messages to the user.

use std::fmt::Debug;

use plimsoll_host::embedded::Progress;
use plimsoll_measure::event::Event;
use plimsoll_report::text::Width;

/// The output of messages, installation progress and the live view: a terminal, or nothing.
pub trait Console: Debug + Sync {
    /// Shows one message.
    fn say(&self, text: &str);

    /// Shows a message even on a quiet console.
    fn warn(&self, text: &str);

    /// Shows the installation progress of the embedded server.
    fn installing(&self, progress: &Progress);

    /// The width to which messages are laid out.
    fn width(&self) -> Width;

    /// The width at which a line is broken. A log keeps one line for one message.
    fn line_width(&self) -> Width {
        Width::ENDLESS
    }

    /// A live view of a run's events, if the console has one.
    fn live(&self) -> Option<Box<dyn LiveView>>;
}

/// Shows the events of a run as they happen.
pub trait LiveView: Debug + Send {
    /// Shows an event.
    fn on(&mut self, event: &Event);
}

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Console for Silent {
    fn say(&self, _: &str) {}

    fn warn(&self, _: &str) {}

    fn installing(&self, _: &Progress) {}

    fn width(&self) -> Width {
        Width::PIPE
    }

    fn live(&self) -> Option<Box<dyn LiveView>> {
        None
    }
}
