//! Joins requests of many callers to batches: while some batches are under way, new requests gather for the next one.
//!
//! Without groups, every start and every signal would be a separate write that waits for the disk.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::batch::each;
use crate::port::{StoreError, Stored};

/// Requests in one batch at most.
const BATCH_MAX: usize = 256;

/// Gathers requests of one kind.
#[derive(Debug)]
pub struct Group<T, R> {
    waiting: Mutex<Vec<Waiting<T, R>>>,
    lanes: Arc<Semaphore>,
}

/// A request and its caller.
type Waiting<T, R> = (T, oneshot::Sender<Stored<R>>);

impl<T: Clone + Send + Sync + 'static, R: Send + 'static> Group<T, R> {
    /// A group with at most `lanes` batches under way.
    pub fn new(lanes: usize) -> Self {
        Self { waiting: Mutex::default(), lanes: Arc::new(Semaphore::new(lanes.max(1))) }
    }

    /// Adds a request, and returns its result. One of the waiting callers begins `work` on all waiting
    /// requests. `work` returns results in the order of the requests. On a tokio runtime, `work` continues if
    /// that caller goes away.
    ///
    /// # Errors
    ///
    /// If `work` fails. Without a runtime, also if the caller that does the work goes away: the request may
    /// then have taken effect.
    pub async fn run<F, W>(&self, request: T, work: W) -> Stored<R>
    where
        F: Future<Output = Stored<Vec<R>>> + Send + 'static,
        W: Fn(Arc<[T]>) -> F + Clone + Send + Sync + 'static,
    {
        let (sender, mut result) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((request, sender));
        loop {
            let lane = pin!(self.lanes.clone().acquire_owned());
            let lane = match select(&mut result, lane).await {
                Either::Left((result, _)) => return result.unwrap_or_else(|_| Err(interrupted())),
                Either::Right((lane, _)) => lane.map_err(|_| interrupted())?,
            };
            let batch = self.take();
            // A full batch may have left this caller's request to the next one.
            let has_all = batch.len() < BATCH_MAX;
            go_on(lead(lane, batch, work.clone())).await;
            if has_all {
                return result.await.unwrap_or_else(|_| Err(interrupted()));
            }
        }
    }

    /// The next batch.
    fn take(&self) -> Vec<Waiting<T, R>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // A caller that went away before its request was sent expects no effect later.
        waiting.retain(|(_, sender)| !sender.is_closed());
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }
}

/// Does work on a batch, and tells the callers their results.
async fn lead<T: Clone, R, F: Future<Output = Stored<Vec<R>>>>(
    _lane: OwnedSemaphorePermit,
    batch: Vec<Waiting<T, R>>,
    work: impl Fn(Arc<[T]>) -> F,
) {
    if batch.is_empty() {
        return;
    }
    let (requests, senders): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let results = each(requests.into(), work).await;
    // A caller that has gone away needs no result.
    senders.into_iter().zip(results).for_each(|(sender, result)| drop(sender.send(result)));
}

/// Lets a batch go on without its caller, if there is a runtime.
async fn go_on(batch: impl Future<Output = ()> + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(batch)),
        Err(_) => batch.await,
    }
}

fn interrupted() -> StoreError {
    StoreError::Unavailable(
        "the request was interrupted and may have taken effect: repeat it with the same id".into(),
    )
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn requests_gather_while_a_batch_is_under_way() {
        let (group, go) = (Group::new(1), Arc::new(Notify::new()));
        let batches = Arc::new(Mutex::new(Vec::new()));
        let work = {
            let (batches, go) = (batches.clone(), go.clone());
            move |requests: Arc<[u32]>| {
                batches.lock().unwrap().push(requests.len());
                let (go, answers) = (go.clone(), requests.iter().map(|request| request * 10).collect());
                async move {
                    go.notified().await;
                    Ok(answers)
                }
            }
        };
        let mut all = Box::pin(join_all((0..4).map(|request| group.run(request, work.clone()))));
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
    fn a_refused_request_fails_alone() {
        let group = Group::<u32, u32>::new(1);
        let work = |requests: Arc<[u32]>| async move {
            let is_refused = requests.contains(&1);
            if is_refused { Err(StoreError::Refused("1".into())) } else { Ok(requests.to_vec()) }
        };
        let lane = group.lanes.clone().try_acquire_owned().unwrap();
        let mut all = Box::pin(join_all((0..3).map(|request| group.run(request, work))));
        assert!(all.as_mut().now_or_never().is_none());
        drop(lane);
        let refused = Err(StoreError::Refused("1".into()));
        assert_eq!(all.now_or_never().unwrap(), [Ok(0), refused, Ok(2)]);
    }

    #[test]
    fn a_caller_that_goes_away_holds_up_nobody() {
        let group = Group::<u32, u32>::new(1);
        let never = |_| std::future::pending();
        let answers = |requests: Arc<[u32]>| async move { Ok(requests.to_vec()) };
        let mut first = Box::pin(group.run(1, never));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(group.run(2, answers));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(second.now_or_never().unwrap(), Ok(2));
    }

    #[test]
    fn a_batch_goes_on_when_the_caller_that_began_it_goes_away() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (group, go) = (Group::<u32, u32>::new(1), Arc::new(Notify::new()));
            let waits = go.clone();
            let work = move |requests: Arc<[u32]>| {
                let go = waits.clone();
                async move {
                    go.notified().await;
                    Ok(requests.to_vec())
                }
            };
            let lane = group.lanes.clone().try_acquire_owned().unwrap();
            let mut leader = Box::pin(group.run(1, work.clone()));
            let mut other = Box::pin(group.run(2, work));
            assert!(leader.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
            drop(lane);
            assert!(leader.as_mut().now_or_never().is_none());
            drop(leader);
            go.notify_one();
            assert_eq!(other.await, Ok(2));
        });
    }
}
