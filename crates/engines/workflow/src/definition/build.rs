//! Builds definitions in Rust.

use plimsoll_measure::duration::Span;

use super::{Definition, Service, Step, Timer, Wait};

impl Definition {
    /// A definition without steps.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), description: None, start: None, steps: Vec::new() }
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a call of a function.
    #[must_use]
    pub fn service(self, function: impl Into<String>) -> Self {
        self.then(Step::Service(Service { function: function.into(), ..Service::default() }))
    }

    /// Adds a call of a function whose result becomes a field of the data.
    #[must_use]
    pub fn service_into(self, function: impl Into<String>, result: impl Into<String>) -> Self {
        let result = Some(result.into());
        self.then(Step::Service(Service { function: function.into(), result, ..Service::default() }))
    }

    /// Adds a wait for a signal.
    #[must_use]
    pub fn wait(self, signal: impl Into<String>) -> Self {
        self.then(Step::Wait(Wait { signal: signal.into(), ..Wait::default() }))
    }

    /// Adds a timer.
    #[must_use]
    pub fn timer_after_ms(self, ms: u64) -> Self {
        let after = Some(Span::from_ns(ms.saturating_mul(1_000_000)));
        self.then(Step::Timer(Timer { after, ..Timer::default() }))
    }
}
