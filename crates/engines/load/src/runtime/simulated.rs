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

/// The virtual clock. It stands still while a task can run, and jumps to the next moment that a task waits for.
#[derive(Clone, Default)]
pub struct Simulated {
    world: Arc<Mutex<World>>,
}

#[derive(Default)]
struct World {
    now: Instant,
    timers: Timers,
    tasks: BTreeMap<u64, Task>,
    ready: VecDeque<u64>,
    started: u64,
}

struct TaskWaker {
    world: Arc<Mutex<World>>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.world).ready.push_back(self.task);
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Simulated {
    /// Runs `main`, and every task that it starts, until it ends.
    ///
    /// # Panics
    /// When no task can ever run again and `main` has not ended.
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
            assert!(self.step(), "the simulation is stuck: no task can go on and nobody waits for a moment");
        }
    }

    /// Runs one task, or moves the clock; returns whether either was possible.
    fn step(&self) -> bool {
        let mut world = lock(&self.world);
        let Some(number) = world.ready.pop_front() else { return self.advance(world) };
        let Some(mut task) = world.tasks.remove(&number) else { return true };
        drop(world);
        let waker = Waker::from(Arc::new(TaskWaker { world: self.world.clone(), task: number }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            lock(&self.world).tasks.insert(number, task);
        }
        true
    }

    fn advance(&self, mut world: MutexGuard<'_, World>) -> bool {
        let Some(first) = world.timers.first() else { return false };
        world.now = world.now.max(first);
        let waker = world.timers.take(first);
        drop(world);
        waker.into_iter().for_each(Waker::wake);
        true
    }
}

impl Runtime for Simulated {
    fn now(&self) -> Instant {
        lock(&self.world).now
    }

    fn until(&self, at: Instant) -> impl Future<Output = ()> + Send {
        poll_fn(move |context| {
            let mut world = lock(&self.world);
            if world.now >= at {
                return Poll::Ready(());
            }
            world.timers.add(at, context.waker().clone());
            Poll::Pending
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut world = lock(&self.world);
        world.started += 1;
        let number = world.started;
        world.tasks.insert(number, Box::pin(task));
        world.ready.push_back(number);
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
        let world = Simulated::default();
        let inside = world.clone();
        let hour = Instant::from_ns(3_600_000_000_000);
        assert_eq!(
            world.run(async move {
                inside.until(hour).await;
                inside.now()
            }),
            hour
        );
    }

    #[test]
    fn tasks_meet_on_the_virtual_clock() {
        let world = Simulated::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (inside, written) = (world.clone(), log.clone());
        world.run(async move {
            for ns in [30, 10, 20] {
                let (world, log) = (inside.clone(), written.clone());
                inside.spawn(async move {
                    world.until(Instant::from_ns(ns)).await;
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
    fn waiting_for_nothing_is_found_out() {
        Simulated::default().run(std::future::pending::<()>());
    }
}
