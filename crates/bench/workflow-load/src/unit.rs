//! Defines the units of work that workflow engines are compared by.

use plimsoll_workflow::definition::Definition;

/// The signal of a round trip.
pub const SIGNAL: &str = "go";
/// The length of the timer, in milliseconds.
pub const TIMER_MS: u64 = 1_000;

/// A unit of work. Steps do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A step, a signal from the client, a step.
    RoundTrip,
    /// Three steps in sequence.
    Steps,
    /// A timer of a second.
    Timer,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 3] = [Self::RoundTrip, Self::Steps, Self::Timer];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "round-trip",
            Self::Steps => "steps",
            Self::Timer => "timer",
        }
    }

    /// The definition.
    pub fn definition(self) -> Definition {
        let definition = Definition::new(self.name());
        match self {
            Self::RoundTrip => definition.service("nothing").wait(SIGNAL).service("nothing"),
            Self::Steps => definition.service("nothing").service("nothing").service("nothing"),
            Self::Timer => definition.timer_after_ms(TIMER_MS),
        }
    }
}
