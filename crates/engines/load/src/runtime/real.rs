//! Runs one thread of the machine: sockets through tokio, pacing through a timerfd and a short spin.
//!
//! tokio's own timers count milliseconds, as large as the measured latencies. So every awaited moment enters
//! a heap, and one timerfd is set to the earliest. With a spare core, the timer is set slightly early and the
//! thread spins for the rest, polling the sockets on every turn.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use plimsoll_measure::clock::{self, Instant, SECOND_NS};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Handle};
use tokio::task::yield_now;

use super::Runtime;
use super::timers::Timers;

/// The time before a moment at which the pacer wakes up to spin, in nanoseconds: more than the usual wake-up
/// delay of a thread.
const SPIN_NS: u64 = 60_000;

/// Whether the thread spins through the last microseconds before a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// A core is free for spinning.
    On,
    /// Workers and local servers need every core.
    Off,
}

/// The clock, timers and tasks of one thread.
#[derive(Clone, Debug)]
pub struct Real {
    handle: Handle,
    pacer: Arc<Pacer>,
}

#[derive(Debug)]
struct Pacer {
    timers: Mutex<Timers>,
    fd: AsyncFd<OwnedFd>,
    early_ns: u64,
}

impl Real {
    /// A runtime for one thread, and the tokio runtime that drives it.
    ///
    /// # Errors
    /// The system has no descriptor for epoll or the timer.
    pub fn new(spin: Spin) -> io::Result<(Self, tokio::runtime::Runtime)> {
        let driver = Builder::new_current_thread().enable_all().build()?;
        let pacer = {
            let _inside = driver.enter();
            Arc::new(Pacer::new(spin)?)
        };
        let runtime = Self { handle: driver.handle().clone(), pacer };
        runtime.spawn(pace(Arc::downgrade(&runtime.pacer)));
        Ok((runtime, driver))
    }
}

impl Runtime for Real {
    fn now(&self) -> Instant {
        clock::now()
    }

    fn until(&self, at: Instant) -> impl Future<Output = ()> + Send {
        Until { pacer: &self.pacer, at, registered: false }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }

    /// The kernel reports it in a small file, which takes some microseconds to read; once a second is enough.
    fn thread_switches(&self) -> Option<u64> {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let lines = status.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
        lines.map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
    }

    fn thread_cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns()
    }
}

struct Until<'a> {
    pacer: &'a Pacer,
    at: Instant,
    registered: bool,
}

impl Future for Until<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.at {
            return Poll::Ready(());
        }
        if !self.registered {
            self.registered = true;
            let first = self.pacer.timers().add(self.at, context.waker().clone());
            if first {
                self.pacer.arm(self.at);
            }
        }
        Poll::Pending
    }
}

impl Pacer {
    fn new(spin: Spin) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` is open until it is dropped and its number never changes; `AsyncFd` owns it and takes it
        // off epoll before it drops it.
        let fd = unsafe { AsyncFd::register(timer) }?;
        let early_ns = if spin == Spin::On { SPIN_NS } else { 0 };
        Ok(Self { timers: Mutex::default(), fd, early_ns })
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the timer; this also clears an unread expiry.
    fn arm(&self, at: Instant) {
        let at_ns = (at - self.early_ns).as_ns().max(1);
        let it_value = Timespec { tv_sec: (at_ns / SECOND_NS) as i64, tv_nsec: (at_ns % SECOND_NS) as i64 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        let set = timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &once);
        debug_assert!(set.is_ok(), "a valid timer and a valid time: {set:?}");
    }

    /// Wakes every task whose moment has come; returns the next moment.
    fn wake(&self) -> Option<Instant> {
        loop {
            let now = clock::now();
            let mut timers = self.timers();
            let Some(waker) = timers.take(now) else { return timers.first() };
            drop(timers);
            waker.wake();
        }
    }
}

/// Sleeps until the timer fires, spins to the exact moment, wakes, and sets the timer again.
async fn pace(pacer: std::sync::Weak<Pacer>) {
    loop {
        let Some(pacer) = pacer.upgrade() else { return };
        let Ok(mut fired) = pacer.fd.readable().await else { return };
        // The next expiry is a new edge, so the counter need not be read.
        fired.clear_ready();
        let mut next = pacer.wake();
        while let Some(at) = next.filter(|at| at.since(clock::now()) < pacer.early_ns) {
            while clock::now() < at {
                yield_now().await;
            }
            next = pacer.wake();
        }
        if let Some(at) = next {
            pacer.arm(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::MILLISECOND_NS;

    use super::*;

    #[test]
    fn no_task_is_woken_early_and_the_order_is_kept() {
        for spin in [Spin::On, Spin::Off] {
            let (runtime, driver) = Real::new(spin).unwrap();
            let start = clock::now();
            let woken = Arc::new(Mutex::new(Vec::new()));
            let waits = [30, 10, 20, 20].map(|ms| {
                let (runtime, woken) = (runtime.clone(), woken.clone());
                driver.spawn(async move {
                    let at = start + ms * MILLISECOND_NS;
                    runtime.until(at).await;
                    assert!(clock::now() >= at);
                    woken.lock().unwrap().push(ms);
                })
            });
            driver.block_on(async {
                for wait in waits {
                    wait.await.unwrap();
                }
            });
            assert_eq!(*woken.lock().unwrap(), [10, 20, 20, 30], "{spin:?}");
        }
    }

    #[test]
    fn a_past_moment_does_not_wait() {
        let (runtime, driver) = Real::new(Spin::Off).unwrap();
        driver.block_on(runtime.until(Instant::from_ns(1)));
    }
}
