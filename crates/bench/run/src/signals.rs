//! Waits for the signals that ask a service or a pipeline to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The sender of a signal. Both ask for the same; only the message to them differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A person at a terminal: Ctrl-C.
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
    /// Listens from now on, within a runtime.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next of them.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::ByProgram,
            _ = self.interrupt.recv() => Asked::AtTerminal,
        }
    }
}
