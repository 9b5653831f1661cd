//! The port through which a run speaks to the person who waits for it.

use std::fmt::Debug;

use plimsoll_host::embedded::Progress;
use plimsoll_measure::event::Event;

/// Where messages, installation progress and the live view go: a terminal, or nowhere.
pub trait Console: Debug + Sync {
    /// Shows one message.
    fn say(&self, text: &str);

    /// Shows a message that even a quiet console shows.
    fn warn(&self, text: &str);

    /// Shows how far the installation of the embedded server is.
    fn installing(&self, progress: &Progress);

    /// A live view of a run's events, unless nobody looks.
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

    fn live(&self) -> Option<Box<dyn LiveView>> {
        None
    }
}
