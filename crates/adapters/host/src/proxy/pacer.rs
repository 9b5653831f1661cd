//! Wakes tasks at exact moments.
//!
//! The runtime's own timers count milliseconds and wake up to two milliseconds late, as long as the delays of
//! a good network. This thread waits for the next moment with the kernel's precision; it sleeps while no task
//! waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

/// The thread that wakes tasks. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Pacer {
    shared: Arc<Shared>,
    waking: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    agenda: Mutex<Agenda>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    closing: bool,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    waker: Waker,
}

impl Pacer {
    /// Starts the thread under this name.
    pub(super) fn start(name: String) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let waking = Arc::clone(&shared);
        let waking = thread::Builder::new().name(name).spawn(move || waking.run())?;
        Ok(Pacer { shared, waking: Some(waking) })
    }

    fn wake_at(&self, at: Instant, waker: Waker) {
        let mut agenda = self.shared.agenda();
        let is_first = agenda.first().is_none_or(|first| at < first);
        agenda.entries.push(Reverse(Entry { at, waker }));
        drop(agenda);
        if is_first {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.shared.agenda().closing = true;
        self.shared.changed.notify_one();
        if let Some(waking) = self.waking.take() {
            let _ = waking.join();
        }
    }
}

impl Shared {
    fn agenda(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut agenda = self.agenda();
        while !agenda.closing {
            let now = clock::now();
            agenda = match agenda.first() {
                None => self.changed.wait(agenda).unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    let left = Duration::from_nanos(at.since(now));
                    self.changed.wait_timeout(agenda, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let due = agenda.entries.pop();
                    drop(agenda);
                    due.into_iter().for_each(|entry| entry.0.waker.wake());
                    self.agenda()
                }
            };
        }
    }
}

impl Agenda {
    fn first(&self) -> Option<Instant> {
        self.entries.peek().map(|entry| entry.0.at)
    }
}

/// The moment that a task waits for. A task that is polled often registers it once.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    set: Option<Instant>,
}

impl Alarm {
    /// Registers a wake-up of the task at `at`, unless an earlier wake-up is registered.
    pub(super) fn set(&mut self, at: Instant, pacer: &Pacer, cx: &Context<'_>) {
        let now = clock::now();
        if self.set.is_none_or(|set| set > at || set <= now) {
            self.set = Some(at);
            pacer.wake_at(at, cx.waker().clone());
        }
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::Wake;

    use plimsoll_measure::clock::MILLISECOND_NS;

    use super::*;

    struct Bell(Mutex<Sender<Instant>>);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().send(clock::now()).unwrap();
        }
    }

    fn bell() -> (Waker, Receiver<Instant>) {
        let (ring, rung) = channel();
        (Arc::new(Bell(Mutex::new(ring))).into(), rung)
    }

    #[test]
    fn tasks_are_woken_in_order_and_never_early() {
        let pacer = Pacer::start("pacer".to_owned()).unwrap();
        let start = clock::now();
        let (late, late_rung) = bell();
        let (soon, soon_rung) = bell();
        let (late_at, soon_at) = (start + 60 * MILLISECOND_NS, start + 20 * MILLISECOND_NS);
        pacer.wake_at(late_at, late);
        pacer.wake_at(soon_at, soon);
        let (soon, late) = (soon_rung.recv().unwrap(), late_rung.recv().unwrap());
        assert!(soon >= soon_at && late >= late_at && late > soon);
    }

    #[test]
    fn an_alarm_is_set_once_unless_for_an_earlier_moment() {
        let pacer = Pacer::start("pacer".to_owned()).unwrap();
        let (waker, _rung) = bell();
        let (cx, mut alarm) = (Context::from_waker(&waker), Alarm::default());
        let later = clock::now() + 3600 * clock::SECOND_NS;
        for at in [later, later, later + 1, later - 1, later] {
            alarm.set(at, &pacer, &cx);
        }
        assert_eq!(pacer.shared.agenda().entries.len(), 2);
    }
}
