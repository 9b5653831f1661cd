//! Limits the number of bodies that arrive at a time: the body that has arrived for the longest time makes room for a new body.
//!
//! A client that sends a byte now and then keeps a place for as long as it may take. Others send a whole body in that time, so they
//! always find a place.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The bodies that arrive.
#[derive(Debug)]
pub(crate) struct Arrivals {
    places_max: usize,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// The number of all bodies so far.
    count: u64,
    /// The number of each body that arrives, with the end of its place.
    taken: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A place, until it is dropped.
struct Place<'a> {
    arrivals: &'a Arrivals,
    number: u64,
}

impl Arrivals {
    /// Room for `places_max` bodies.
    pub(crate) fn new(places_max: usize) -> Self {
        Self { places_max, places: Mutex::default() }
    }

    /// The number of bodies that arrive.
    pub(crate) fn count(&self) -> usize {
        self.lock().taken.len()
    }

    /// Receives a body. `None` if it had to make room for another.
    pub(crate) async fn receive<T>(&self, body: impl Future<Output = T>) -> Option<T> {
        let (_place, ended) = self.enter();
        tokio::select! {
            biased;
            received = body => Some(received),
            _ = ended => None,
        }
    }

    fn enter(&self) -> (Place<'_>, oneshot::Receiver<()>) {
        let mut places = self.lock();
        while places.taken.len() >= self.places_max && places.taken.pop_first().is_some() {}
        let (end, ended) = oneshot::channel();
        let number = places.count;
        places.count += 1;
        places.taken.insert(number, end);
        (Place { arrivals: self, number }, ended)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.arrivals.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_oldest_body_makes_room_for_a_new_one() {
        let arrivals = Arrivals::new(2);
        let mut slow: Vec<_> = (0..2).map(|_| Box::pin(arrivals.receive(pending::<()>()))).collect();
        assert!(slow.iter_mut().all(|one| one.now_or_never().is_none()));
        assert_eq!(arrivals.count(), 2);
        assert_eq!(arrivals.receive(ready(7)).now_or_never(), Some(Some(7)));
        assert_eq!(slow[0].as_mut().now_or_never(), Some(None), "the oldest");
        assert_eq!(slow[1].as_mut().now_or_never(), None);
        assert_eq!(arrivals.count(), 1);
        let mut third = pin!(arrivals.receive(pending::<()>()));
        assert_eq!(third.as_mut().now_or_never(), None);
        assert_eq!(slow[1].as_mut().now_or_never(), None, "there was room");
        drop(slow);
        assert_eq!(arrivals.count(), 1);
    }
}
