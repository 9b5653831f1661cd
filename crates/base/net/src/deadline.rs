//! Limits the time of an exchange at almost no cost per exchange.
//!
//! A tokio timer costs time even when it does not fire. Registering a timer per command costs about 1.5 µs. A timer that stays
//! registered costs about 1 µs, because the runtime then waits with a time limit and the kernel arms a timer for each wait.
//! (Measured with `examples/cpu.rs` of `plimsoll-wire`, where a whole command costs 13 µs.)
//!
//! Instead, one thread per distinct limit in the process ticks eight times per limit and counts the ticks for each
//! connection. An exchange that sees nine ticks is out of time: it ends between 1 and 9/8 of its limit. An exchange
//! costs two stores and an uncontended lock; it reads no clock.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Ticks per limit.
const TICKS: u32 = 8;
/// Replaces the count of ticks while no exchange is in flight.
const IDLE: u32 = u32::MAX;
/// The shortest time between two ticks, so that a short limit does not keep a core busy.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// The connections of each ticking thread, by the time between two ticks. An entry lives as long as its
/// thread.
static WATCHED: Mutex<Vec<(Duration, Vec<Weak<Watch>>)>> = Mutex::new(Vec::new());

/// The time limit of the exchange in flight.
#[derive(Debug, Default)]
pub struct Deadline {
    limit: Option<Duration>,
    watch: Option<Arc<Watch>>,
}

/// The state that the ticking thread and the connection share.
#[derive(Debug)]
struct Watch {
    /// Ticks since the exchange started, or [`IDLE`].
    ticks: AtomicU32,
    waker: Mutex<Option<Waker>>,
}

impl Deadline {
    /// Sets a limit; `None` waits without limit.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn new(limit: Option<Duration>) -> io::Result<Self> {
        Ok(Deadline { limit, watch: limit.map(watch).transpose()? })
    }

    /// The limit of an exchange; `None` if there is none.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Starts the time of an exchange.
    #[inline]
    pub fn start(&self) {
        self.set_ticks(0);
    }

    /// Stops the time of an exchange.
    #[inline]
    pub fn end(&self) {
        self.set_ticks(IDLE);
    }

    /// Ready once the exchange is out of time. Until then, it registers the task to be woken at that moment.
    #[inline]
    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        match &self.watch {
            Some(watch) => watch.poll(cx),
            None => Poll::Pending,
        }
    }

    fn set_ticks(&self, ticks: u32) {
        if let Some(watch) = &self.watch {
            watch.ticks.store(ticks, Ordering::Relaxed);
        }
    }
}

impl Watch {
    /// Stores the waker before it reads the ticks; [`Watch::tick`] counts before it reads the waker. So either
    /// the poll sees the new tick, or the tick sees the new waker.
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        drop(waker);
        if is_over(self.ticks.load(Ordering::SeqCst)) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn tick(&self) {
        let ticks = self.ticks.load(Ordering::SeqCst);
        if ticks == IDLE || is_over(ticks) {
            return;
        }
        // The swap fails if the exchange just ended or another began: this tick does not count for it.
        let counted =
            self.ticks.compare_exchange(ticks, ticks + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if counted && is_over(ticks + 1) {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

fn is_over(ticks: u32) -> bool {
    ticks != IDLE && ticks > TICKS
}

/// Starts ticking for a new watch, until it is dropped.
fn watch(limit: Duration) -> io::Result<Arc<Watch>> {
    let period = (limit / TICKS).max(PERIOD_MIN);
    let watch = Arc::new(Watch { ticks: AtomicU32::new(IDLE), waker: Mutex::new(None) });
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    match watched.iter_mut().find(|(known, _)| *known == period) {
        Some((_, watches)) => watches.push(Arc::downgrade(&watch)),
        None => {
            start_ticking(period)?;
            watched.push((period, vec![Arc::downgrade(&watch)]));
        }
    }
    Ok(watch)
}

fn start_ticking(period: Duration) -> io::Result<()> {
    let ticking = move || {
        while tick_all(period) {
            std::thread::sleep(period);
        }
    };
    std::thread::Builder::new().name("net-deadline".to_owned()).spawn(ticking).map(drop)
}

/// Ticks for every remaining connection. Returns false, and removes the entry, if no connection remains.
fn tick_all(period: Duration) -> bool {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(index) = watched.iter().position(|(known, _)| *known == period) else { return false };
    watched[index].1.retain(|watch| watch.upgrade().inspect(|watch| watch.tick()).is_some());
    let is_watching = !watched[index].1.is_empty();
    if !is_watching {
        watched.swap_remove(index);
    }
    is_watching
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A deadline that ticks only when the test calls for it.
    fn deadline() -> (Deadline, Arc<Watch>) {
        let watch = Arc::new(Watch { ticks: AtomicU32::new(IDLE), waker: Mutex::new(None) });
        (Deadline { limit: Some(Duration::from_secs(1)), watch: Some(Arc::clone(&watch)) }, watch)
    }

    fn tick(watch: &Watch, times: u32) {
        (0..times).for_each(|_| watch.tick());
    }

    #[test]
    fn an_exchange_is_out_of_time_at_the_ninth_tick_and_its_task_is_woken_once() {
        let (deadline, watch) = deadline();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        deadline.start();
        assert!(deadline.poll(&cx).is_pending());
        tick(&watch, 8);
        assert!(deadline.poll(&cx).is_pending() && count.0.load(Ordering::SeqCst) == 0);
        tick(&watch, 3);
        assert!(deadline.poll(&cx).is_ready() && count.0.load(Ordering::SeqCst) == 1);
    }

    #[test]
    fn ticks_between_exchanges_do_not_count() {
        let (deadline, watch) = deadline();
        let cx = Context::from_waker(Waker::noop());
        tick(&watch, 20);
        deadline.start();
        tick(&watch, 8);
        deadline.end();
        tick(&watch, 20);
        deadline.start();
        tick(&watch, 8);
        assert!(deadline.poll(&cx).is_pending());
    }

    #[test]
    fn a_limit_of_zero_ends_every_wait() {
        let deadline = Deadline::new(Some(Duration::ZERO)).unwrap();
        deadline.start();
        let cx = Context::from_waker(Waker::noop());
        while deadline.poll(&cx).is_pending() {
            std::thread::yield_now();
        }
    }
}
