//! Sends answers: charges their bytes to the memory budget until they are sent, and notices a client that does not take them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::budget::{Budget, Reservation, Share};
use crate::problem::Problem;

/// Bytes of one piece of an answer. HTTP/2 takes over one piece more than the client's window admits. With short pieces, the rest of
/// the answer stays here, where it can be dropped.
const PIECE_BYTES: usize = 16 << 10;
/// An answer of this size is sent even if no memory is left, because a refusal would take as much memory.
const SHORT_BYTES: usize = 1 << 10;
/// The memory above the budget for the pages of open endpoints.
const OVERDRAFT_BYTES: u64 = 16 << 20;

tokio::task_local! {
    static OUTBOX: Outbox;
}

/// The reserved memory of an answer, in its extensions.
#[derive(Clone)]
pub(crate) struct Charge(pub(crate) Reservation);

/// Whether an answer may be refused while the budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The caller may retry.
    Refusable,
    /// The request has changed data: after a refusal, the caller would repeat the change. Instead, the endpoint limits the answer
    /// beforehand.
    Settled,
    /// The answer shows the state of the service, which matters most while memory is short.
    Urgent,
}

/// Charges an answer to the budget, unless its endpoint has done so. Without memory it becomes a problem.
pub(crate) fn charged(answers: &Budget, mut answer: Response<Body>, need: Need) -> Response<Body> {
    if answer.extensions().get::<Charge>().is_some() {
        return answer;
    }
    let bytes = usize::try_from(answer.body().size_hint().lower()).unwrap_or(usize::MAX);
    let memory = answers.reservation();
    let taken = match need {
        _ if bytes <= SHORT_BYTES => memory.overdraw(bytes, u64::MAX),
        Need::Urgent => memory.overdraw(bytes, OVERDRAFT_BYTES),
        Need::Settled => memory.overdraw(bytes, u64::MAX),
        Need::Refusable => memory.grow(bytes),
    };
    if let Err(error) = taken {
        return charged(answers, Problem::from(error).response(), need);
    }
    answer.extensions_mut().insert(Charge(memory));
    answer
}

/// The answers that one task sends: those of an HTTP/1 connection, or the answer of an HTTP/2 stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    counts: Arc<Counts>,
    share: Share,
}

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    sent: AtomicU64,
    ended: Notify,
}

impl Outbox {
    /// An outbox of a connection, whose answers share its memory.
    pub(crate) fn of(share: Share) -> Self {
        Self { counts: Arc::default(), share }
    }

    /// Runs `poll` in the task of this outbox: answers that begin meanwhile belong to it.
    pub(crate) fn within<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.share.within(|| OUTBOX.sync_scope(self.clone(), poll))
    }

    /// Runs a whole future in the task of this outbox.
    pub(crate) async fn during<T>(&self, future: impl Future<Output = T>) -> T {
        self.share.during(OUTBOX.scope(self.clone(), future)).await
    }

    /// Waits until a client has not taken an answer for at least the limit and less than twice the limit. This way one timer
    /// serves many answers.
    pub(crate) async fn overdue(&self, limit: Duration) {
        let mut before = None;
        loop {
            sleep(limit).await;
            let now = self.unsent();
            if now.is_some() && now == before {
                return;
            }
            before = now;
        }
    }

    /// Waits until every answer is sent.
    pub(crate) async fn sent(&self) {
        loop {
            let ended = self.counts.ended.notified();
            if self.unsent().is_none() {
                return;
            }
            ended.await;
        }
    }

    /// The number of the oldest answer that is not sent. `None` if all are sent.
    fn unsent(&self) -> Option<u64> {
        let sent = self.counts.sent.load(Ordering::Acquire);
        (sent < self.counts.begun.load(Ordering::Acquire)).then_some(sent)
    }

    fn begin(&self) {
        self.counts.begun.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self) {
        self.counts.sent.fetch_add(1, Ordering::AcqRel);
        self.counts.ended.notify_waiters();
    }
}

/// Splits an answer into pieces for sending. Each piece holds the answer's memory, and the outbox of this task counts the answer.
pub(crate) fn outgoing(mut answer: Response<Body>) -> Response<Body> {
    let memory = answer.extensions_mut().remove::<Charge>().map(|charge| charge.0);
    let outbox = OUTBOX.try_with(Outbox::clone).ok();
    outbox.iter().for_each(Outbox::begin);
    let parcel = Arc::new(Parcel { outbox, _memory: memory });
    answer.map(|body| Body::new(Outgoing { body, rest: Bytes::new(), parcel }))
}

/// An answer until it is sent: until its body and all its pieces are dropped.
struct Parcel {
    outbox: Option<Outbox>,
    _memory: Option<Reservation>,
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.outbox.iter().for_each(Outbox::end);
    }
}

/// The body of an answer, in pieces.
struct Outgoing {
    body: Body,
    /// The rest of a part of the body.
    rest: Bytes,
    parcel: Arc<Parcel>,
}

/// A part of the body, with the parcel that it belongs to.
struct Part {
    bytes: Bytes,
    _parcel: Arc<Parcel>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(bytes) => this.rest = Bytes::from_owner(Part { bytes, _parcel: this.parcel.clone() }),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn answer(bytes: usize) -> Response<Body> {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[test]
    fn an_answer_beyond_the_budget_becomes_a_problem_unless_it_is_short_or_urgent() {
        let budget = Budget::new(64 << 10);
        let check = |bytes: usize, need, status: u16| {
            assert_eq!(charged(&budget, answer(bytes), need).status(), status, "{bytes} {need:?}");
        };
        check(60 << 10, Need::Refusable, 200);
        check(65 << 10, Need::Refusable, 422);
        let others = budget.reservation();
        others.grow(64 << 10).unwrap();
        check(SHORT_BYTES, Need::Refusable, 200);
        check(SHORT_BYTES + 1, Need::Refusable, 429);
        check(1 << 20, Need::Urgent, 200);
        check(65 << 10, Need::Settled, 200);
        check(17 << 20, Need::Urgent, 429);
    }

    #[tokio::test]
    async fn an_answer_is_charged_until_its_last_piece_is_dropped() {
        let budget = Budget::new(1 << 20);
        let answer = outgoing(charged(&budget, answer(3 * PIECE_BYTES), Need::Refusable));
        assert_eq!(answer.status(), StatusCode::OK);
        let mut body = answer.into_body();
        assert_eq!(body.size_hint().exact(), Some(3 * PIECE_BYTES as u64));
        let mut pieces = Vec::new();
        while let Some(piece) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            pieces.push(piece.unwrap().into_data().unwrap());
        }
        assert!(pieces.iter().all(|piece| piece.len() == PIECE_BYTES) && pieces.len() == 3);
        drop(body);
        while let Some(piece) = pieces.pop() {
            assert_eq!(budget.taken_bytes(), 3 * PIECE_BYTES as u64);
            drop(piece);
        }
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_in_time_is_overdue() {
        let outbox = Outbox::default();
        assert!(timeout(10 * LIMIT, outbox.overdue(LIMIT)).await.is_err(), "nothing is sent");
        let slow = outbox.within(|| outgoing(answer(1)));
        assert!(timeout(LIMIT / 2, outbox.sent()).await.is_err());
        assert!(timeout(3 * LIMIT, outbox.overdue(LIMIT)).await.is_ok());
        drop(slow);
        outbox.sent().await;
        let quick = async {
            for _ in 0..10 {
                let answer = outbox.within(|| outgoing(answer(1)));
                sleep(LIMIT / 2).await;
                drop(answer);
            }
        };
        let overdue = outbox.overdue(LIMIT);
        tokio::select! {
            () = overdue => panic!("each answer was sent in time"),
            () = quick => (),
        }
    }
}
