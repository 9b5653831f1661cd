//! Forwards one connection through the proxy until one side closes.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::disturbance::{Disturbance, OneWay};
use super::disturbances::{DisturbanceReceiver, ForcedEnd};
use super::pacer::Pacer;
use super::pump::{Pump, PumpContext};
use super::random::Random;
use super::traffic::{Tally, count};

/// The time limit for the server to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The time limit for a side to answer a FIN with its own; the connection is then closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The state that all connections of a proxy share. One task runs at a time, so all use one buffer.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: SocketAddr,
    pub(super) seed: u64,
    pub(super) pacer: Pacer,
    pub(super) tally: Arc<Tally>,
    pub(super) scratch: Mutex<Box<[u8]>>,
}

/// A proxied connection: both sockets, and a pump for each direction.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    to_server: Pump,
    to_client: Pump,
    shared: Arc<Shared>,
}

/// The reason why a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Both streams have ended and were delivered.
    Both,
    /// A socket failed.
    Broken,
    Forced(ForcedEnd),
}

/// Serves the connection with this number until it ends.
pub(super) async fn serve(
    mut client: TcpStream,
    number: u64,
    shared: Arc<Shared>,
    mut receiver: DisturbanceReceiver,
) {
    let forced_end = match first(receiver.forced_end(), connect(&client, shared.upstream)).await {
        First::A(forced_end) => forced_end,
        First::B(Ok(server)) => return Connection::new(client, server, number, shared).serve(receiver).await,
        First::B(Err(_)) => {
            count(&shared.tally.refused);
            return reset(&mut [&mut client]);
        }
    };
    count(&shared.tally.cut);
    execute(forced_end, &mut [&mut client], &shared).await;
}

async fn connect(client: &TcpStream, upstream: SocketAddr) -> io::Result<TcpStream> {
    client.set_nodelay(true)?;
    let server = timeout(CONNECT_LIMIT, TcpStream::connect(upstream)).await??;
    server.set_nodelay(true)?;
    Ok(server)
}

impl Connection {
    fn new(client: TcpStream, server: TcpStream, number: u64, shared: Arc<Shared>) -> Self {
        let pump = |way, side| Pump::new(way, Random::new(shared.seed, 2 * number + side));
        let (to_server, to_client) = (pump(OneWay::ToServer, 0), pump(OneWay::ToClient, 1));
        Connection { client, server, to_server, to_client, shared }
    }

    async fn serve(mut self, mut receiver: DisturbanceReceiver) {
        let end = self.run(&mut receiver).await;
        self.shared.tally.dropped(self.to_server.queued_bytes() + self.to_client.queued_bytes());
        let mut sides = [&mut self.client, &mut self.server];
        match end {
            End::Both => {}
            End::Broken => reset(&mut sides),
            End::Forced(forced_end) => {
                count(&self.shared.tally.cut);
                execute(forced_end, &mut sides, &self.shared).await;
            }
        }
    }

    async fn run(&mut self, receiver: &mut DisturbanceReceiver) -> End {
        loop {
            match receiver.current() {
                Err(forced_end) => return End::Forced(forced_end),
                Ok(disturbances) => self.apply(&disturbances),
            }
            if self.to_server.would_deliver_after_a_gap() || self.to_client.would_deliver_after_a_gap() {
                return End::Forced(ForcedEnd::Cut);
            }
            match first(receiver.changed(), poll_fn(|cx| self.poll(cx))).await {
                First::A(()) => {}
                First::B(Ok(())) => return End::Both,
                First::B(Err(_)) => return self.broken(receiver).await,
            }
        }
    }

    fn apply(&mut self, disturbances: &[Disturbance]) {
        self.to_server.apply(disturbances);
        self.to_client.apply(disturbances);
    }

    /// Handles a socket that failed. In a half-open connection the other side must not notice, so this waits
    /// until the disturbances change.
    async fn broken(&self, receiver: &mut DisturbanceReceiver) -> End {
        if self.to_server.is_swallowing() || self.to_client.is_swallowing() {
            receiver.changed().await;
        }
        End::Broken
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Connection { client, server, to_server, to_client, shared } = self;
        let mut scratch = shared.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut context = PumpContext { scratch: &mut scratch, pacer: &shared.pacer, tally: &shared.tally };
        let there = to_server.poll(cx, client, server, &mut context)?;
        let back = to_client.poll(cx, server, client, &mut context)?;
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

async fn execute(forced_end: ForcedEnd, sides: &mut [&mut TcpStream], shared: &Shared) {
    match forced_end {
        ForcedEnd::Reset => reset(sides),
        ForcedEnd::Cut => close_gracefully(sides, shared).await,
    }
}

/// Makes the sockets send RST when they are closed.
fn reset(sides: &mut [&mut TcpStream]) {
    sides.iter().for_each(|side| {
        // A socket that refuses the option is closed already.
        let _ = side.set_zero_linger();
    });
}

/// Sends FIN to both sides and waits for theirs. Closing a socket with unread bytes would send RST, so this
/// reads and drops them.
async fn close_gracefully(sides: &mut [&mut TcpStream], shared: &Shared) {
    for side in &mut *sides {
        // The socket may be closed already.
        let _ = side.shutdown().await;
    }
    let all = poll_fn(|cx| {
        let waiting =
            sides.iter_mut().filter_map(|side| poll_empty(cx, side, shared).is_pending().then_some(()));
        if waiting.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    // After the time limit the sockets are closed anyway.
    let _ = timeout(CLOSE_LIMIT, all).await;
}

/// Reads and drops until the stream ends or breaks.
fn poll_empty(cx: &mut Context<'_>, side: &mut TcpStream, shared: &Shared) -> Poll<()> {
    let mut scratch = shared.scratch.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut buffer = ReadBuf::new(&mut scratch);
        match Pin::new(&mut *side).poll_read(cx, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => shared.tally.dropped(buffer.filled().len()),
            Poll::Ready(_) => return Poll::Ready(()),
        }
    }
}

/// The result of the first of two futures.
enum First<A, B> {
    A(A),
    B(B),
}

/// Waits for the first of two futures; prefers `a`.
async fn first<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> First<A, B> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(a) => Poll::Ready(First::A(a)),
        Poll::Pending => b.as_mut().poll(cx).map(First::B),
    })
    .await
}
