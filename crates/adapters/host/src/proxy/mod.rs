//! Runs the fault proxy: it stands between clients and a server and disturbs the network on demand.
//!
//! It is there to break a connection at a stated moment of a load run, and to be no burden at any other. One thread
//! serves all connections on a runtime of its own. Each connection is one task with two pumps, one for each direction. A
//! pump reads into a buffer that all share, asks the rule in force what becomes of the chunk, and writes it from there;
//! only what cannot go at once is copied into a queue. So an undisturbed byte costs one read and one write of the
//! kernel's, and no memory is asked for.
//!
//! What is decided is pure and knows no socket: the rule says how much may be read and what becomes of it
//! (`rule`), with a token bucket for a limited line (`bucket`) and random loss (`loss`); the queue says what
//! is due (`queue`). All randomness follows from a seed and the number of the connection.
//!
//! A disturbance is in force for open connections and for all that come after it, until it ends. Several may last at the
//! same time, and the end of one leaves the others as they are. Of a connection and direction that several concern:
//! [`Cut`](Disturbance::Cut) and [`Reset`](Disturbance::Reset) come before everything else, and of the two the one that
//! began last; then [`Stall`](Disturbance::Stall), then [`HalfOpen`](Disturbance::HalfOpen). Of the rest each has its
//! effect: bytes are dropped by each loss in turn, the narrowest throttle says how many are read, delays and their
//! jitters add up.
//!
//! What is queued keeps its moment, and nothing overtakes it. When the last delay has ended it goes at once; a cut or a
//! reset drops it. An order to end all connections reaches all that are open, also if another order follows at once.
//!
//! Time spent in the proxy counts as the server's time to whoever measures a client: a round trip through it is longer
//! by two wake-ups of its thread, and one thread moves as many messages as one core can. So what a load reaches through
//! an undisturbed proxy, not what it reaches without, is what a disturbance is to be compared with.

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
mod loss;
mod orders;
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

use connection::House;
use orders::{Ear, Orders};
use pacer::Pacer;
use traffic::{Tally, count};

/// The most connections at a time; one more is reset at once. Each takes two of the process's files.
pub const CONNECTIONS_MAX: u64 = 20_000;
/// The most disturbances that last at a time.
pub const LASTING_MAX: usize = 64;
/// The most bytes that are moved at once.
const SCRATCH_LEN: usize = 64 * 1024;
/// The pause after a connection could not be accepted, for example because files have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A disturbance that lasts, to be ended by whoever began it.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Lasting(u64);

/// So many disturbances last already that no further one is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{LASTING_MAX} disturbances of this network last already: let some of them end first")]
pub struct TooMany;

/// A proxy on a free port of 127.0.0.1. Dropping it closes its connections and ends its threads.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    tally: Arc<Tally>,
    serving: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts one that forwards each connection to the server at `upstream`. What it does at random follows from `seed`.
    ///
    /// # Errors
    /// [`Error`] if no port, thread or runtime can be had.
    pub fn start(upstream: SocketAddr, seed: u64) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = listen(&runtime)?;
        let address = listener.local_addr()?;
        let tally = Arc::new(Tally::default());
        let pacer = Pacer::start(format!("pacer-{}", address.port()))?;
        let scratch = Mutex::new(vec![0; SCRATCH_LEN].into_boxed_slice());
        let house = Arc::new(House { upstream, seed, pacer, tally: Arc::clone(&tally), scratch });
        let (orders, receiver) = watch::channel(Orders::default());
        let serving = thread::Builder::new()
            .name(format!("proxy-{}", address.port()))
            .spawn(move || serve(&runtime, listener, house, receiver))?;
        Ok(Proxy { address, orders, tally, serving: Some(serving) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the network is disturbed so as well, until [`end`](Proxy::end). A quiet connection obeys before it moves
    /// another byte, a busy one within milliseconds.
    ///
    /// # Errors
    /// [`TooMany`] if [`LASTING_MAX`] disturbances last already.
    pub fn begin(&self, disturbance: Disturbance) -> Result<Lasting, TooMany> {
        let mut number = None;
        self.orders.send_modify(|orders| number = orders.begin(disturbance));
        number.map(Lasting).ok_or(TooMany)
    }

    /// This disturbance is over, and no other.
    pub fn end(&self, lasting: Lasting) {
        self.orders.send_modify(|orders| orders.end(lasting.0));
    }

    /// From now on the network is disturbed so, and not as it was before.
    pub fn disturb(&self, disturbance: Disturbance) {
        self.orders.send_modify(|orders| {
            orders.calm();
            orders.begin(disturbance);
        });
    }

    /// Ends all disturbances: queued data is delivered at once; a connection from which a
    /// [`Disturbance::HalfOpen`] swallowed something is cut.
    pub fn calm(&self) {
        self.orders.send_modify(Orders::calm);
    }

    /// Its counters so far.
    pub fn traffic(&self) -> Traffic {
        self.tally.traffic()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders.send_modify(|orders| orders.closing = true);
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

/// Until the proxy closes; then all tasks go with their sockets.
fn serve(runtime: &Runtime, listener: TcpListener, house: Arc<House>, mut orders: watch::Receiver<Orders>) {
    runtime.spawn(accept(listener, house, orders.clone()));
    runtime.block_on(async {
        // It fails once the proxy has ended.
        let _ = orders.wait_for(|orders| orders.closing).await;
    });
}

async fn accept(listener: TcpListener, house: Arc<House>, orders: watch::Receiver<Orders>) {
    for number in 0.. {
        match listener.accept().await {
            Ok((client, _)) => admit(client, number, &house, &orders),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn admit(client: TcpStream, number: u64, house: &Arc<House>, orders: &watch::Receiver<Orders>) {
    count(&house.tally.accepted);
    let Some(place) = Place::take(&house.tally) else {
        count(&house.tally.refused);
        // It is closed in any case.
        let _ = client.set_zero_linger();
        return;
    };
    let serving = connection::serve(client, number, Arc::clone(house), Ear::new(orders.clone()));
    drop(tokio::spawn(async move {
        serving.await;
        drop(place);
    }));
}

/// One of the places for connections. Dropping it leaves it to another.
struct Place {
    tally: Arc<Tally>,
}

impl Place {
    fn take(tally: &Arc<Tally>) -> Option<Self> {
        let open = tally.open.load(Ordering::Relaxed);
        (open < CONNECTIONS_MAX).then(|| {
            count(&tally.open);
            Place { tally: Arc::clone(tally) }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.tally.open.fetch_sub(1, Ordering::Relaxed);
    }
}
