//! Runs the fault proxy: a proxy between clients and a server that disturbs the network on demand.
//!
//! One thread serves all connections on its own runtime. Each connection is one task with two pumps, one for
//! each direction. A pump reads a chunk into a shared buffer, applies the current rule, and writes the chunk
//! from the buffer. Only bytes that cannot be written at once are copied into a queue. So an undisturbed byte
//! costs one read and one write of the kernel, and no memory is allocated.
//!
//! The decisions are pure and use no socket: `rule` decides how much is read and which bytes pass, `bucket`
//! limits a line with a token bucket, `loss` drops bytes at random, and `queue` returns the bytes that are
//! due. All randomness follows from a seed and the number of the connection.
//!
//! A disturbance affects open and new connections until it ends. Several may last at once, and the end of one
//! does not affect the others. When several affect the same connection and direction,
//! [`Cut`](Disturbance::Cut) and [`Reset`](Disturbance::Reset) come first; the one that began last wins.
//! [`Stall`](Disturbance::Stall) comes next, then [`HalfOpen`](Disturbance::HalfOpen). All others combine:
//! each loss drops bytes in turn, the slowest throttle limits the rate, and delays and jitters add up.
//!
//! Queued bytes keep their due time, and nothing overtakes them. The end of the last delay makes them due at
//! once; a cut or a reset drops them. An order to end all connections reaches all open connections, even if
//! another order follows at once.
//!
//! A client counts the time in the proxy as the server's: a round trip is longer by two wake-ups of the
//! proxy's thread, and one thread moves as many messages as one core can. So compare a disturbance with a
//! load through an undisturbed proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

mod bucket;
mod connection;
mod disturbance;
mod disturbances;
mod loss;
mod pacer;
mod pump;
mod queue;
mod random;
mod rule;
mod traffic;

pub use crate::serve::Error;
pub use disturbance::{Direction, Disturbance};
pub use queue::QUEUE_BYTES_MAX;
pub use traffic::Traffic;

use connection::Shared;
use disturbances::{DisturbanceReceiver, Disturbances};
use pacer::Pacer;
use traffic::{Tally, count};

/// The limit of open connections; a further connection is reset at once. Each takes two of the process's file
/// descriptors.
pub const CONNECTIONS_MAX: u64 = 20_000;
/// The limit of simultaneous disturbances.
pub const DISTURBANCES_MAX: usize = 64;
/// The limit of bytes in one read.
const SCRATCH_LEN: usize = 64 * 1024;
/// The pause after a failed accept, for example because file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The handle that ends a disturbance.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct DisturbanceHandle(u64);

/// [`DISTURBANCES_MAX`] disturbances last already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{DISTURBANCES_MAX} disturbances of this network last already: let some of them end first")]
pub struct TooMany;

/// A proxy on a free port of 127.0.0.1. Dropping it closes its connections and ends its threads.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    disturbances: watch::Sender<Disturbances>,
    tally: Arc<Tally>,
    serving: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy that forwards each connection to the server at `upstream`. All randomness follows from
    /// `seed`.
    ///
    /// # Errors
    /// [`Error`] if no port, thread or runtime is available.
    pub fn start(upstream: SocketAddr, seed: u64) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = listen(&runtime)?;
        let address = listener.local_addr()?;
        let tally = Arc::new(Tally::default());
        let pacer = Pacer::start(format!("pacer-{}", address.port()))?;
        let scratch = Mutex::new(vec![0; SCRATCH_LEN].into_boxed_slice());
        let shared = Arc::new(Shared { upstream, seed, pacer, tally: Arc::clone(&tally), scratch });
        let (disturbances, receiver) = watch::channel(Disturbances::default());
        let serving = thread::Builder::new()
            .name(format!("proxy-{}", address.port()))
            .spawn(move || serve(&runtime, listener, shared, receiver))?;
        Ok(Proxy { address, disturbances, tally, serving: Some(serving) })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins a disturbance, which lasts until [`end`](Proxy::end). An idle connection obeys before its next
    /// byte, a busy one within milliseconds.
    ///
    /// # Errors
    /// [`TooMany`] if [`DISTURBANCES_MAX`] disturbances last already.
    pub fn begin(&self, disturbance: Disturbance) -> Result<DisturbanceHandle, TooMany> {
        let mut number = None;
        self.disturbances.send_modify(|disturbances| number = disturbances.begin(disturbance));
        number.map(DisturbanceHandle).ok_or(TooMany)
    }

    /// Ends one disturbance.
    pub fn end(&self, lasting: DisturbanceHandle) {
        self.disturbances.send_modify(|disturbances| disturbances.end(lasting.0));
    }

    /// Replaces all disturbances with one.
    pub fn disturb(&self, disturbance: Disturbance) {
        self.disturbances.send_modify(|disturbances| {
            disturbances.end_all();
            disturbances.begin(disturbance);
        });
    }

    /// Ends all disturbances: queued data is delivered at once; a connection from which a
    /// [`Disturbance::HalfOpen`] swallowed something is cut.
    pub fn end_disturbances(&self) {
        self.disturbances.send_modify(Disturbances::end_all);
    }

    /// The counters so far.
    pub fn traffic(&self) -> Traffic {
        self.tally.traffic()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.disturbances.send_modify(|disturbances| disturbances.closing = true);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn listen(runtime: &Runtime) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let _inside = runtime.enter();
    TcpListener::from_std(listener)
}

/// Serves until the proxy closes; the runtime then drops all tasks with their sockets.
fn serve(
    runtime: &Runtime,
    listener: TcpListener,
    shared: Arc<Shared>,
    mut disturbances: watch::Receiver<Disturbances>,
) {
    runtime.spawn(accept(listener, shared, disturbances.clone()));
    runtime.block_on(async {
        // If the proxy is gone, waiting fails; serving ends then too.
        let _ = disturbances.wait_for(|disturbances| disturbances.closing).await;
    });
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, disturbances: watch::Receiver<Disturbances>) {
    for number in 0.. {
        match listener.accept().await {
            Ok((client, _)) => admit(client, number, &shared, &disturbances),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn admit(client: TcpStream, number: u64, shared: &Arc<Shared>, disturbances: &watch::Receiver<Disturbances>) {
    count(&shared.tally.accepted);
    let Some(place) = ConnectionPermit::take(&shared.tally) else {
        count(&shared.tally.refused);
        // The connection is closed even if this fails.
        let _ = client.set_zero_linger();
        return;
    };
    let serving =
        connection::serve(client, number, Arc::clone(shared), DisturbanceReceiver::new(disturbances.clone()));
    drop(tokio::spawn(async move {
        serving.await;
        drop(place);
    }));
}

/// A permit to hold a connection. Dropping it frees the permit.
struct ConnectionPermit {
    tally: Arc<Tally>,
}

impl ConnectionPermit {
    fn take(tally: &Arc<Tally>) -> Option<Self> {
        let open = tally.open.load(Ordering::Relaxed);
        (open < CONNECTIONS_MAX).then(|| {
            count(&tally.open);
            ConnectionPermit { tally: Arc::clone(tally) }
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.tally.open.fetch_sub(1, Ordering::Relaxed);
    }
}
