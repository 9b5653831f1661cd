//! The signals that ask a service or a pipeline to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, which mean the same.
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
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}
