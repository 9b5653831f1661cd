//! A time limit per request that costs a request almost nothing, in the way of `plimsoll_wire`.
//!
//! A timer of the runtime costs a request more than a microsecond, also when it does not fire. So a thread of ours, one per
//! distinct limit in the process, ticks eight times per limit and counts the ticks for each connection. A request that sees
//! nine ticks is out of time: the limit is met between 1 and 9/8 of it. A request pays for two stores and an uncontended lock;
//! no clock is read.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Ticks per limit.
const TICKS: u32 = 8;
/// Instead of a count of ticks: no request is in flight.
const IDLE: u32 = u32::MAX;
/// The shortest time between two ticks, so that a tiny limit does not keep a core busy.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// The connections to tick for, by the time between two ticks. An entry lives as long as its thread.
static WATCHED: Mutex<Vec<(Duration, Vec<Weak<Watch>>)>> = Mutex::new(Vec::new());

/// The time limit of the request in flight.
#[derive(Debug)]
pub(crate) struct Deadline {
    watch: Arc<Watch>,
}

/// What the ticking thread and the connection share.
#[derive(Debug)]
struct Watch {
    /// Ticks since the request started, or [`IDLE`].
    ticks: AtomicU32,
    waker: Mutex<Option<Waker>>,
}

impl Deadline {
    /// Counts from now on.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn new(limit: Duration) -> io::Result<Self> {
        Ok(Self { watch: watch(limit)? })
    }

    /// A request starts.
    pub(crate) fn start(&self) {
        self.set_ticks(0);
    }

    /// The request ended.
    pub(crate) fn end(&self) {
        self.set_ticks(IDLE);
    }

    /// Ready once the request is out of time; until then, the task is woken when it will be.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.watch.poll(cx)
    }

    fn set_ticks(&self, ticks: u32) {
        self.watch.ticks.store(ticks, Ordering::Relaxed);
    }
}

impl Watch {
    /// The waker is left before the ticks are looked at, and a tick is counted before the waker is looked for: one of
    /// the two sees the other.
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
        // If the exchange fails, the request ended, or another began, just now: then this tick is not for it.
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

/// A watch that is ticked for until it is dropped.
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
    std::thread::Builder::new().name("http-deadline".to_owned()).spawn(ticking).map(drop)
}

/// Ticks for every connection that is left; false if none is, and then the entry is gone.
fn tick_all(period: Duration) -> bool {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = watched.iter().position(|(known, _)| *known == period) else { return false };
    watched[place].1.retain(|watch| watch.upgrade().inspect(|watch| watch.tick()).is_some());
    let is_left = !watched[place].1.is_empty();
    if !is_left {
        watched.swap_remove(place);
    }
    is_left
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

    /// A deadline that only the test ticks for.
    fn deadline() -> (Deadline, Arc<Watch>) {
        let watch = Arc::new(Watch { ticks: AtomicU32::new(IDLE), waker: Mutex::new(None) });
        (Deadline { watch: Arc::clone(&watch) }, watch)
    }

    fn tick(watch: &Watch, times: u32) {
        (0..times).for_each(|_| watch.tick());
    }

    #[test]
    fn a_request_is_out_of_time_at_the_ninth_tick_and_its_task_is_woken_once() {
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
    fn ticks_between_requests_do_not_count() {
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
        let deadline = Deadline::new(Duration::ZERO).unwrap();
        deadline.start();
        let cx = Context::from_waker(Waker::noop());
        while deadline.poll(&cx).is_pending() {
            std::thread::yield_now();
        }
    }
}
