//! Waits for changes and ends of instances.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::job::{Change, Finished};

/// Waits for changes and ends of instances in this process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Watchers {
    watches: Arc<Mutex<Watches>>,
}

/// The watches of each instance, by number.
#[derive(Debug, Default)]
struct Watches {
    by_instance: BTreeMap<String, BTreeMap<u64, Watch>>,
    numbers: u64,
}

#[derive(Debug, Default)]
struct Watch {
    version: u64,
    end: Option<Finished>,
    waker: Option<Waker>,
}

impl Watchers {
    /// The end of an instance that a worker of this process will end. Call it before the instance starts. Every watch of an instance gets the
    /// end. `Client::wait_for_end` also sees ends in other processes.
    pub fn watch(&self, instance: &str) -> impl Future<Output = Finished> + Send + use<> {
        self.on(instance, |watch| watch.end.take())
    }

    /// A change after a version that a worker of this process will make. `Client::wait_for_change` also sees changes by other processes.
    pub fn changed(&self, instance: &str, after: u64) -> impl Future<Output = ()> + Send + use<> {
        self.on(instance, move |watch| (watch.version > after).then_some(()))
    }

    /// Waits until a watch of an instance has a value.
    fn on<T, F>(&self, instance: &str, mut take: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        F: FnMut(&mut Watch) -> Option<T> + Send,
    {
        let (watches, instance) = (self.watches.clone(), instance.to_owned());
        let number = lock(&watches).begin(&instance);
        let guard = Unwatch { watches, instance, number };
        poll_fn(move |context| {
            let mut watches = lock(&guard.watches);
            let of_instance = watches.by_instance.entry(guard.instance.clone()).or_default();
            let watch = of_instance.entry(guard.number).or_default();
            if let Some(taken) = take(watch) {
                return Poll::Ready(taken);
            }
            watch.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }

    pub(super) fn tell(&self, change: &Change) {
        let mut watches = lock(&self.watches);
        let Some(of_instance) = watches.by_instance.get_mut(&change.instance) else { return };
        let tell = |watch: &mut Watch| {
            watch.version = watch.version.max(change.version);
            watch.end = watch.end.take().or_else(|| change.end.clone());
            watch.waker.take()
        };
        let wakers: Vec<_> = of_instance.values_mut().filter_map(tell).collect();
        drop(watches);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Watches {
    fn begin(&mut self, instance: &str) -> u64 {
        self.numbers += 1;
        self.by_instance.entry(instance.to_owned()).or_default().insert(self.numbers, Watch::default());
        self.numbers
    }

    fn end(&mut self, instance: &str, number: u64) {
        let Some(of_instance) = self.by_instance.get_mut(instance) else { return };
        of_instance.remove(&number);
        if of_instance.is_empty() {
            self.by_instance.remove(instance);
        }
    }
}

/// Forgets a watch with its future.
struct Unwatch {
    watches: Arc<Mutex<Watches>>,
    instance: String,
    number: u64,
}

impl Drop for Unwatch {
    fn drop(&mut self) {
        lock(&self.watches).end(&self.instance, self.number);
    }
}

fn lock(watches: &Mutex<Watches>) -> MutexGuard<'_, Watches> {
    watches.lock().unwrap_or_else(PoisonError::into_inner)
}
