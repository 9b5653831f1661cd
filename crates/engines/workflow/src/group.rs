//! Joins requests of many callers to batches: while some batches are under way, new requests gather for the next one.
//!
//! Without it every start and every signal would be a write that waits for the disk alone.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{Either, select};
use tokio::sync::{Semaphore, oneshot};

use crate::port::{StoreError, Stored};

/// Requests in one batch at most.
const BATCH_MAX: usize = 256;

/// Gathers requests of one kind.
#[derive(Debug)]
pub struct Group<T, R> {
    waiting: Mutex<Vec<(T, oneshot::Sender<Stored<R>>)>>,
    lanes: Semaphore,
}

impl<T, R> Group<T, R> {
    /// A group with at most `lanes` batches under way.
    pub fn new(lanes: usize) -> Self {
        Self { waiting: Mutex::default(), lanes: Semaphore::new(lanes.max(1)) }
    }

    /// Adds a request, and returns its result. One of the callers whose requests wait does `work` on all of them. `work` returns results in the
    /// order of the requests.
    ///
    /// # Errors
    ///
    /// If `work` fails, or the caller that does it goes away: then the request may have happened.
    pub async fn run<F: Future<Output = Stored<Vec<R>>>>(
        &self,
        request: T,
        work: impl Fn(Vec<T>) -> F,
    ) -> Stored<R> {
        let (sender, mut result) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((request, sender));
        loop {
            let lane = std::pin::pin!(self.lanes.acquire());
            let _lane = match select(&mut result, lane).await {
                Either::Left((result, _)) => return result.unwrap_or_else(|_| Err(interrupted())),
                Either::Right((lane, _)) => lane.map_err(|_| interrupted())?,
            };
            self.lead(&work).await;
            if let Ok(result) = result.try_recv() {
                return result;
            }
        }
    }

    async fn lead<F: Future<Output = Stored<Vec<R>>>>(&self, work: impl Fn(Vec<T>) -> F) {
        let (requests, senders): (Vec<_>, Vec<_>) = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // A caller that went away before its request was sent may not expect it to happen later.
            waiting.retain(|(_, sender)| !sender.is_closed());
            let count = waiting.len().min(BATCH_MAX);
            waiting.drain(..count).unzip()
        };
        if requests.is_empty() {
            return;
        }
        match work(requests).await {
            // A caller that has gone away needs no result.
            Ok(results) => {
                senders.into_iter().zip(results).for_each(|(sender, result)| drop(sender.send(Ok(result))))
            }
            Err(error) => senders.into_iter().for_each(|sender| drop(sender.send(Err(error.clone())))),
        }
    }
}

fn interrupted() -> StoreError {
    StoreError::Unavailable(
        "the request was interrupted and may have happened: repeat it with the same id".into(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Batches;

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn requests_gather_while_a_batch_is_under_way() {
        let (group, batches, go) = (Group::new(1), Batches::new(Vec::new()), Notify::new());
        let work = |requests: Vec<u32>| {
            batches.lock().unwrap().push(requests.len());
            let answers = requests.into_iter().map(|request| request * 10).collect();
            async {
                go.notified().await;
                Ok(answers)
            }
        };
        let mut all = Box::pin(join_all((0..4).map(|request| group.run(request, work))));
        assert!(all.as_mut().now_or_never().is_none());
        go.notify_one();
        assert!(all.as_mut().now_or_never().is_none());
        go.notify_one();
        assert_eq!(all.now_or_never().unwrap(), [Ok(0), Ok(10), Ok(20), Ok(30)]);
        assert_eq!(*batches.lock().unwrap(), [1, 3]);
    }

    #[test]
    fn every_request_of_a_failed_batch_fails() {
        let group = Group::<u32, u32>::new(2);
        let fails = |_| async { Err(StoreError::Unavailable("no disk".into())) };
        let result = group.run(1, fails).now_or_never().unwrap();
        assert_eq!(result, Err(StoreError::Unavailable("no disk".into())));
    }

    #[test]
    fn a_caller_that_goes_away_holds_up_nobody() {
        let group = Group::<u32, u32>::new(1);
        let never = |_| std::future::pending();
        let answers = |requests| async { Ok(requests) };
        let mut first = Box::pin(group.run(1, never));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(group.run(2, answers));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(second.now_or_never().unwrap(), Ok(2));
    }
}
