//! Simulates a clock and its tasks: no thread, no sleep, the same order on every machine.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use plimsoll_measure::clock::Instant;

use super::Runtime;
use super::timers::Timers;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The virtual clock. It stands still while a task can run, and jumps to the next awaited moment.
#[derive(Clone, Default)]
pub struct Simulated {
    state: Arc<Mutex<SimulationState>>,
}

#[derive(Default)]
struct SimulationState {
    now: Instant,
    timers: Timers,
    tasks: BTreeMap<u64, Task>,
    ready: VecDeque<u64>,
    started: u64,
}

struct TaskWaker {
    state: Arc<Mutex<SimulationState>>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.state).ready.push_back(self.task);
    }
}

fn lock(state: &Mutex<SimulationState>) -> MutexGuard<'_, SimulationState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Simulated {
    /// Runs `main` and every task that it starts, until `main` ends.
    ///
    /// # Panics
    /// No task can run again and `main` has not ended.
    pub fn run<T: Send + 'static>(&self, main: impl Future<Output = T> + Send + 'static) -> T {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        self.spawn(async move {
            let value = main.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        loop {
            if let Some(value) = result.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return value;
            }
            assert!(self.step(), "the simulation is stuck: no task can run and none waits for a moment");
        }
    }

    /// Runs one task, or moves the clock; returns whether either was possible.
    fn step(&self) -> bool {
        let mut state = lock(&self.state);
        let Some(number) = state.ready.pop_front() else { return self.advance(state) };
        let Some(mut task) = state.tasks.remove(&number) else { return true };
        drop(state);
        let waker = Waker::from(Arc::new(TaskWaker { state: self.state.clone(), task: number }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            lock(&self.state).tasks.insert(number, task);
        }
        true
    }

    fn advance(&self, mut state: MutexGuard<'_, SimulationState>) -> bool {
        let Some(first) = state.timers.first() else { return false };
        state.now = state.now.max(first);
        let waker = state.timers.take(first);
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }
}

impl Runtime for Simulated {
    fn now(&self) -> Instant {
        lock(&self.state).now
    }

    fn until(&self, at: Instant) -> impl Future<Output = ()> + Send {
        // A task that waits for several moments polls all of them on every wake: each enters the heap once.
        let mut registered = false;
        poll_fn(move |context| {
            let mut state = lock(&self.state);
            if state.now >= at {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut registered, true) {
                state.timers.add(at, context.waker().clone());
            }
            Poll::Pending
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = lock(&self.state);
        state.started += 1;
        let number = state.started;
        state.tasks.insert(number, Box::pin(task));
        state.ready.push_back(number);
    }

    fn thread_switches(&self) -> Option<u64> {
        None
    }

    fn thread_cpu_ns(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_passes_at_once() {
        let clock = Simulated::default();
        let inside = clock.clone();
        let hour = Instant::from_ns(3_600_000_000_000);
        assert_eq!(
            clock.run(async move {
                inside.until(hour).await;
                inside.now()
            }),
            hour
        );
    }

    #[test]
    fn tasks_meet_on_the_virtual_clock() {
        let clock = Simulated::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (inside, written) = (clock.clone(), log.clone());
        clock.run(async move {
            for ns in [30, 10, 20] {
                let (clock, log) = (inside.clone(), written.clone());
                inside.spawn(async move {
                    clock.until(Instant::from_ns(ns)).await;
                    log.lock().unwrap().push(ns);
                });
            }
            inside.until(Instant::from_ns(25)).await;
            assert_eq!(*written.lock().unwrap(), [10, 20]);
        });
        assert_eq!(*log.lock().unwrap(), [10, 20]);
    }

    #[test]
    #[should_panic(expected = "the simulation is stuck")]
    fn a_task_that_can_never_run_panics() {
        Simulated::default().run(std::future::pending::<()>());
    }
}
