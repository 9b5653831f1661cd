//! Waits for the signals that ask a service or a pipeline to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

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
}

impl Signals {
    /// Starts to listen. Requires a runtime.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::ByProgram,
            _ = self.interrupt.recv() => Asked::AtTerminal,
        }
    }
}
