//! Abstracts time and tasks: [`Real`] runs on one thread of the machine, [`Simulated`] on a virtual clock.

use std::future::Future;

use plimsoll_measure::clock::Instant;

mod real;
mod simulated;
mod timers;

pub use real::{Real, Spin};
pub use simulated::Simulated;

/// One thread's clock, timers and tasks.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Reads the clock.
    fn now(&self) -> Instant;

    /// Waits until `at`; returns at once if `at` has passed.
    fn until(&self, at: Instant) -> impl Future<Output = ()> + Send;

    /// Starts a task on this thread.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// CPU time that this thread has used, in nanoseconds.
    fn thread_cpu_ns(&self) -> u64;

    /// The number of times that the operating system switched this thread away from its core; none if
    /// unreported.
    fn thread_switches(&self) -> Option<u64>;
}
