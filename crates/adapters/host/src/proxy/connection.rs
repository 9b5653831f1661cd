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

use super::disturbance::{Disturbance, Way};
use super::orders::{Ear, Verdict};
use super::pacer::Pacer;
use super::pump::{Desk, Pump};
use super::random::Random;
use super::traffic::{Tally, count};

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a side that was sent a FIN may take to send its own; then its connection is closed anyway.
const PARTING_LIMIT: Duration = Duration::from_secs(1);

/// The state that all connections of a proxy share. Only one works at a time, so all use one buffer.
#[derive(Debug)]
pub(super) struct House {
    pub(super) upstream: SocketAddr,
    pub(super) seed: u64,
    pub(super) pacer: Pacer,
    pub(super) tally: Arc<Tally>,
    pub(super) scratch: Mutex<Box<[u8]>>,
}

/// Both directions.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    to_server: Pump,
    to_client: Pump,
    house: Arc<House>,
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Both sides have ended their streams, and both know.
    Both,
    /// One side is gone without a word.
    Broken,
    Ordered(Verdict),
}

/// Serves the connection with this number until it ends.
pub(super) async fn serve(mut client: TcpStream, number: u64, house: Arc<House>, mut ear: Ear) {
    let verdict = match first(ear.verdict(), connect(&client, house.upstream)).await {
        First::A(verdict) => verdict,
        First::B(Ok(server)) => return Connection::new(client, server, number, house).serve(ear).await,
        First::B(Err(_)) => {
            count(&house.tally.refused);
            return reset(&mut [&mut client]);
        }
    };
    count(&house.tally.cut);
    execute(verdict, &mut [&mut client], &house).await;
}

async fn connect(client: &TcpStream, upstream: SocketAddr) -> io::Result<TcpStream> {
    client.set_nodelay(true)?;
    let server = timeout(CONNECT_LIMIT, TcpStream::connect(upstream)).await??;
    server.set_nodelay(true)?;
    Ok(server)
}

impl Connection {
    fn new(client: TcpStream, server: TcpStream, number: u64, house: Arc<House>) -> Self {
        let pump = |way, side| Pump::new(way, Random::new(house.seed, 2 * number + side));
        let (to_server, to_client) = (pump(Way::ToServer, 0), pump(Way::ToClient, 1));
        Connection { client, server, to_server, to_client, house }
    }

    async fn serve(mut self, mut ear: Ear) {
        let end = self.run(&mut ear).await;
        self.house.tally.dropped(self.to_server.queued_bytes() + self.to_client.queued_bytes());
        let mut sides = [&mut self.client, &mut self.server];
        match end {
            End::Both => {}
            End::Broken => reset(&mut sides),
            End::Ordered(verdict) => {
                count(&self.house.tally.cut);
                execute(verdict, &mut sides, &self.house).await;
            }
        }
    }

    async fn run(&mut self, ear: &mut Ear) -> End {
        loop {
            match ear.listen() {
                Err(verdict) => return End::Ordered(verdict),
                Ok(disturbances) => self.obey(&disturbances),
            }
            if self.to_server.would_bridge_a_hole() || self.to_client.would_bridge_a_hole() {
                return End::Ordered(Verdict::Cut);
            }
            match first(ear.news(), poll_fn(|cx| self.poll(cx))).await {
                First::A(()) => {}
                First::B(Ok(())) => return End::Both,
                First::B(Err(_)) => return self.broken(ear).await,
            }
        }
    }

    fn obey(&mut self, disturbances: &[Disturbance]) {
        self.to_server.obey(disturbances);
        self.to_client.obey(disturbances);
    }

    /// One side is gone. While the connection is half open, the other does not hear of it.
    async fn broken(&self, ear: &mut Ear) -> End {
        if self.to_server.is_swallowing() || self.to_client.is_swallowing() {
            ear.news().await;
        }
        End::Broken
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Connection { client, server, to_server, to_client, house } = self;
        let mut scratch = house.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut desk = Desk { scratch: &mut scratch, pacer: &house.pacer, tally: &house.tally };
        let there = to_server.poll(cx, client, server, &mut desk)?;
        let back = to_client.poll(cx, server, client, &mut desk)?;
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

async fn execute(verdict: Verdict, sides: &mut [&mut TcpStream], house: &House) {
    match verdict {
        Verdict::Reset => reset(sides),
        Verdict::Cut => part(sides, house).await,
    }
}

/// Has the sockets say RST when they are closed.
fn reset(sides: &mut [&mut TcpStream]) {
    sides.iter().for_each(|side| {
        // A socket that cannot be told is gone already.
        let _ = side.set_zero_linger();
    });
}

/// Says FIN and waits for the same. A socket that is closed with unread bytes would say RST instead, so they are read.
async fn part(sides: &mut [&mut TcpStream], house: &House) {
    for side in &mut *sides {
        // It may be closed already.
        let _ = side.shutdown().await;
    }
    let all = poll_fn(|cx| {
        let waiting =
            sides.iter_mut().filter_map(|side| poll_empty(cx, side, house).is_pending().then_some(()));
        if waiting.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    // Whoever takes longer is left.
    let _ = timeout(PARTING_LIMIT, all).await;
}

/// Reads and drops until the end of the stream, or until it breaks.
fn poll_empty(cx: &mut Context<'_>, side: &mut TcpStream, house: &House) -> Poll<()> {
    let mut scratch = house.scratch.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut buffer = ReadBuf::new(&mut scratch);
        match Pin::new(&mut *side).poll_read(cx, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => house.tally.dropped(buffer.filled().len()),
            Poll::Ready(_) => return Poll::Ready(()),
        }
    }
}

/// Which of two came first, and with what.
enum First<A, B> {
    A(A),
    B(B),
}

/// Waits for one of two; the former is preferred.
async fn first<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> First<A, B> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(a) => Poll::Ready(First::A(a)),
        Poll::Pending => b.as_mut().poll(cx).map(First::B),
    })
    .await
}
