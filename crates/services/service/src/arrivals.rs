//! Limits the number of bodies that arrive at a time: with all places taken, a slow body makes room for a new body.
//!
//! Each body keeps its place for half of its time limit, so a fast body always completes. A client that sends a byte now and then keeps
//! others out for that time, and for longer if it begins again and again: limit its rate.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// The bodies that arrive.
#[derive(Debug)]
pub(crate) struct Arrivals {
    places_max: usize,
    /// The time for which no body has to make room.
    undisturbed_ns: u128,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// The number of all bodies so far.
    count: u64,
    /// Each body that arrives, by its number.
    taken: BTreeMap<u64, Arriving>,
}

/// A body that arrives.
#[derive(Debug)]
struct Arriving {
    since_ns: u64,
    /// Ends the body's place when it is dropped.
    _end: oneshot::Sender<()>,
}

/// A place, until it is dropped.
struct Place<'a> {
    arrivals: &'a Arrivals,
    number: u64,
}

/// The reason why a body is not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// All places are taken, each for a short time so far.
    Full,
    /// The body was slow, and made room for another.
    Displaced,
}

impl Arrivals {
    /// Room for `places_max` bodies, each of which may take as long as `limit`.
    pub(crate) fn new(places_max: usize, limit: Duration) -> Self {
        Self { places_max, undisturbed_ns: limit.as_nanos() / 2, places: Mutex::default() }
    }

    /// The number of bodies that arrive.
    pub(crate) fn count(&self) -> usize {
        self.lock().taken.len()
    }

    /// Receives a body that begins now.
    ///
    /// # Errors
    /// When the body finds no place, or has to make room for another.
    pub(crate) async fn receive<T>(&self, now_ns: u64, body: impl Future<Output = T>) -> Result<T, Refused> {
        let (_place, ended) = self.enter(now_ns).ok_or(Refused::Full)?;
        tokio::select! {
            biased;
            received = body => Ok(received),
            _ = ended => Err(Refused::Displaced),
        }
    }

    fn enter(&self, now_ns: u64) -> Option<(Place<'_>, oneshot::Receiver<()>)> {
        let mut places = self.lock();
        if places.taken.len() >= self.places_max {
            let oldest = places.taken.first_entry()?;
            let age_ns = now_ns.saturating_sub(oldest.get().since_ns);
            if u128::from(age_ns) <= self.undisturbed_ns {
                return None;
            }
            oldest.remove();
        }
        let (end, ended) = oneshot::channel();
        let number = places.count;
        places.count += 1;
        places.taken.insert(number, Arriving { since_ns: now_ns, _end: end });
        Some((Place { arrivals: self, number }, ended))
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
    use tokio::sync::oneshot::Receiver;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    /// Two places, and a time limit of 20 ns.
    fn two_places() -> Arrivals {
        Arrivals::new(2, Duration::from_nanos(20))
    }

    #[test]
    fn a_slow_body_makes_room_for_a_new_one() {
        let arrivals = two_places();
        let mut slow: Vec<_> =
            [1, 3].into_iter().map(|at| Box::pin(arrivals.receive(at, pending::<()>()))).collect();
        assert!(slow.iter_mut().all(|one| one.now_or_never().is_none()));
        assert_eq!(arrivals.count(), 2);
        assert_eq!(arrivals.receive(12, ready(7)).now_or_never(), Some(Ok(7)));
        assert_eq!(slow[0].as_mut().now_or_never(), Some(Err(Refused::Displaced)), "the oldest");
        assert_eq!(slow[1].as_mut().now_or_never(), None);
        assert_eq!(arrivals.count(), 1);
        let mut third = pin!(arrivals.receive(30, pending::<()>()));
        assert_eq!(third.as_mut().now_or_never(), None);
        assert_eq!(slow[1].as_mut().now_or_never(), None, "there was room");
        drop(slow);
        assert_eq!(arrivals.count(), 1);
    }

    #[test]
    fn a_body_keeps_its_place_for_half_of_its_time_limit() {
        let arrivals = two_places();
        let mut young: Vec<_> =
            [1, 3].into_iter().map(|at| Box::pin(arrivals.receive(at, pending::<()>()))).collect();
        assert!(young.iter_mut().all(|one| one.now_or_never().is_none()));
        for at in [3, 11] {
            assert_eq!(arrivals.receive(at, ready(7)).now_or_never(), Some(Err(Refused::Full)), "{at}");
        }
        assert!(young.iter_mut().all(|one| one.now_or_never().is_none()), "both arrive as before");
        assert_eq!(arrivals.receive(12, ready(7)).now_or_never(), Some(Ok(7)));
    }

    /// Twice as many clients as places send for a quarter of the time limit each, and return until they succeed.
    #[test]
    fn clients_that_crowd_the_service_complete_one_after_another() {
        let arrivals = two_places();
        let (mut sending, mut waiting, mut done) = (Vec::new(), 4, 0);
        for at in 0..=10 {
            let before = sending.len();
            sending.retain(|(since, _)| at - since < 5);
            done += before - sending.len();
            for _ in 0..std::mem::take(&mut waiting) {
                match arrivals.enter(at) {
                    Some(place) => sending.push((at, place)),
                    None => waiting += 1,
                }
            }
            let keeps_place = |(_, (_, ended)): &mut (u64, (Place<'_>, Receiver<()>))| {
                ended.try_recv() == Err(TryRecvError::Empty)
            };
            assert!(sending.iter_mut().all(keeps_place), "{at}");
        }
        assert_eq!(done, 4);
    }
}
