//! Waits for the signals that ask a service or a pipeline to end.

use plimsoll_measure::clock::{self, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals within this time count as one: a terminal and a wrapper such as `timeout` both deliver one Ctrl-C.
pub const DEBOUNCE_NS: u64 = clock::SECOND_NS;

/// The sender of a signal. Both request the same stop; only the message differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A user at a terminal: Ctrl-C.
    AtTerminal,
    /// A program, such as a supervisor: SIGTERM.
    ByProgram,
}

/// Ctrl-C and SIGTERM.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    first: Option<Instant>,
}

impl Signals {
    /// Starts to listen. Requires a runtime.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn listen() -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, first: None })
    }

    /// Waits for the next request: the first signal, then each one that arrives more than [`DEBOUNCE_NS`] after it.
    pub async fn next(&mut self) -> Asked {
        loop {
            let asked = tokio::select! {
                _ = self.terminate.recv() => Asked::ByProgram,
                _ = self.interrupt.recv() => Asked::AtTerminal,
            };
            if is_request(&mut self.first, clock::now()) {
                return asked;
            }
        }
    }
}

/// Whether a signal is a new request, and not a copy of the first one.
pub(crate) fn is_request(first: &mut Option<Instant>, now: Instant) -> bool {
    first.is_none_or(|first| now.since(first) >= DEBOUNCE_NS) && {
        first.get_or_insert(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_the_first_signal_are_no_request() {
        let mut first = None;
        let at = |ms: u64| Instant::from_ns(ms * clock::MILLISECOND_NS);
        let requests = [5, 15, 1_004, 1_005, 1_006].map(|ms| is_request(&mut first, at(ms)));
        assert_eq!(requests, [true, false, false, true, true]);
    }
}
