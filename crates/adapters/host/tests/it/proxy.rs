//! Tests the fault proxy between a client and a server whose ends the test controls.
//!
//! An idle connection obeys an order before its next byte, so these tests need not wait for an order.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::{NonZeroU32, NonZeroU64};
use std::thread;
use std::time::Duration;

use bson::rawdoc;
use plimsoll_host::proxy::{Direction, Disturbance, Proxy};
use plimsoll_host::{null, process};
use plimsoll_measure::clock::{self, Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::random;
use plimsoll_wire::{ConnectOptions, Connection};

use crate::fixture::{block_on, eventually};

const MEBIBYTE: usize = 1 << 20;
/// Long enough to distinguish silence from slowness.
const SILENCE: Duration = Duration::from_millis(100);
/// The time limit of every expected event.
const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    proxy: Proxy,
    listener: TcpListener,
}

impl Fixture {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Fixture { proxy: Proxy::start(listener.local_addr().unwrap(), 1).unwrap(), listener }
    }

    fn disturbed(disturbance: Disturbance) -> Self {
        let fixture = Fixture::new();
        fixture.proxy.disturb(disturbance);
        fixture
    }

    /// Opens a connection through the proxy; returns the client's end and the server's.
    fn pair(&self) -> (TcpStream, TcpStream) {
        let client = self.client();
        let (server, _) = self.listener.accept().unwrap();
        (client, patient(server))
    }

    fn client(&self) -> TcpStream {
        patient(TcpStream::connect(self.proxy.address()).unwrap())
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// A fresh seed; it is printed, so that a failure can be replayed.
    fn fresh() -> Self {
        let seed = clock::wall_ms();
        println!("seed {seed}");
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(random::STEP);
        random::mix(self.0)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }
}

/// Sends chunks of many sizes, then ends the stream.
fn send(mut to: &TcpStream, mut bytes: &[u8], mut random: Random) {
    while !bytes.is_empty() {
        let most = 1_u64 << (random.next() % 18);
        let len = usize::try_from(1 + random.next() % most).unwrap().min(bytes.len());
        to.write_all(&bytes[..len]).unwrap();
        bytes = &bytes[len..];
    }
    to.shutdown(Shutdown::Write).unwrap();
}

fn receive(mut from: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

fn read_exact(mut from: &TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

fn assert_passes(mut from: &TcpStream, to: &TcpStream, text: &str) {
    from.write_all(text.as_bytes()).unwrap();
    assert_eq!(read_exact(to, text.len()), text.as_bytes());
}

fn assert_silent(mut from: &TcpStream) {
    from.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(from.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    from.set_read_timeout(Some(PATIENCE)).unwrap();
}

fn assert_ended(mut from: &TcpStream) {
    assert_eq!(from.read(&mut [0]).unwrap(), 0);
}

fn assert_reset(mut from: &TcpStream) {
    assert_eq!(from.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// Sends random bytes in both directions at once; returns the received bytes, the server's first.
fn exchange(client: &TcpStream, server: &TcpStream, there: &[u8], back: &[u8]) -> (Vec<u8>, Vec<u8>) {
    thread::scope(|scope| {
        scope.spawn(|| send(client, there, Random::fresh()));
        scope.spawn(|| send(server, back, Random::fresh()));
        let at_server = scope.spawn(|| receive(server));
        (receive(client), at_server.join().unwrap())
    })
}

fn check_unharmed(fixture: &Fixture, (client, server): (TcpStream, TcpStream), len: usize) {
    let mut random = Random::fresh();
    let (there, back) = (random.bytes(len), random.bytes(len + 1));
    let (at_client, at_server) = exchange(&client, &server, &there, &back);
    assert!(at_server == there && at_client == back);
    let traffic = fixture.proxy.traffic();
    let bytes = (traffic.to_server_bytes, traffic.to_client_bytes, traffic.dropped_bytes);
    assert_eq!(bytes, (len as u64, len as u64 + 1, 0));
    eventually("the connection is over", || fixture.proxy.traffic().open == 0);
}

#[test]
fn bytes_pass_unharmed_both_ways_at_once() {
    let fixture = Fixture::new();
    check_unharmed(&fixture, fixture.pair(), 8 * MEBIBYTE);
}

#[test]
fn a_delay_with_jitter_harms_nothing() {
    let (delay, jitter) = (Duration::from_millis(2), Duration::from_millis(5));
    let fixture = Fixture::disturbed(Disturbance::Delay { direction: Direction::Both, delay, jitter });
    check_unharmed(&fixture, fixture.pair(), 8 * MEBIBYTE);
}

#[test]
fn bytes_and_the_end_of_a_stream_are_delayed_and_overlap_in_transit() {
    const DELAY_NS: u64 = 100 * MILLISECOND_NS;
    const CHUNKS: usize = 50;
    let delay = Duration::from_nanos(DELAY_NS);
    let fixture = Fixture::disturbed(Disturbance::Delay {
        direction: Direction::ToServer,
        delay,
        jitter: Duration::ZERO,
    });
    let (mut client, server) = fixture.pair();
    let start = clock::now();
    let arrivals = thread::spawn(move || {
        let arrivals: Vec<Instant> =
            (0..CHUNKS).map(|_| (read_exact(&server, 512), clock::now()).1).collect();
        assert_ended(&server);
        (arrivals, clock::now())
    });
    let stamp = |send: &mut dyn FnMut()| {
        let sent = clock::now();
        send();
        thread::sleep(Duration::from_millis(2));
        sent
    };
    let sent: Vec<Instant> =
        (0..CHUNKS).map(|_| stamp(&mut || client.write_all(&[7; 512]).unwrap())).collect();
    let ended = stamp(&mut || client.shutdown(Shutdown::Write).unwrap());
    let (arrived, end_arrived) = arrivals.join().unwrap();
    for (arrived, sent) in arrived.iter().zip(&sent) {
        assert!(arrived.since(*sent) >= DELAY_NS, "{} ns", arrived.since(*sent));
    }
    assert!(end_arrived.since(ended) >= DELAY_NS);
    // If the delays added up, all chunks together would take five seconds.
    assert!(end_arrived.since(start) < 2 * SECOND_NS, "{} ns", end_arrived.since(start));
}

#[test]
fn the_end_of_a_delay_delivers_queued_bytes_at_once() {
    let hour = Duration::from_secs(3600);
    let delay = Disturbance::Delay { direction: Direction::Both, delay: hour, jitter: hour };
    let fixture = Fixture::disturbed(delay);
    let (mut client, server) = fixture.pair();
    client.write_all(b"abc").unwrap();
    assert_silent(&server);
    fixture.proxy.end_disturbances();
    assert_eq!(read_exact(&server, 3), b"abc");
    assert_passes(&server, &client, "back");
}

#[test]
fn a_throttle_limits_the_rate() {
    const LEN: usize = MEBIBYTE;
    let bytes_per_s = NonZeroU64::new(4 * LEN as u64).unwrap();
    let fixture = Fixture::new();
    let start = clock::now();
    fixture.proxy.disturb(Disturbance::Throttle { direction: Direction::ToClient, bytes_per_s });
    let (client, server) = fixture.pair();
    let bytes = Random::fresh().bytes(LEN);
    let (at_client, at_server) = exchange(&client, &server, &[], &bytes);
    let took_ns = clock::now().since(start);
    assert!(at_client == bytes && at_server.is_empty());
    assert!(took_ns >= SECOND_NS / 4, "{took_ns} ns");
}

#[test]
fn a_cut_closes_all_connections_gracefully_and_refuses_new_ones() {
    let fixture = Fixture::new();
    let (mut client, server) = fixture.pair();
    let bytes = Random::fresh().bytes(32 * MEBIBYTE);
    let received = thread::scope(|scope| {
        let sending = scope.spawn(|| send(&server, &bytes, Random::fresh()));
        rest(|| fixture.proxy.traffic().to_client_bytes);
        fixture.proxy.disturb(Disturbance::Cut);
        assert_ended(&server);
        client.write_all(&[1; 1000]).unwrap();
        sending.join().unwrap();
        receive(&client)
    });
    drop(client);
    eventually("the proxy has closed all connections", || fixture.proxy.traffic().open == 0);
    let traffic = fixture.proxy.traffic();
    assert!(received == bytes[..received.len()], "bytes sent before the cut arrive");
    assert_eq!(traffic.to_client_bytes, received.len() as u64);
    assert_eq!(traffic.to_client_bytes + traffic.dropped_bytes, bytes.len() as u64 + 1000);

    assert_ended(&fixture.client());
    fixture.proxy.end_disturbances();
    let (client, server) = fixture.pair();
    assert_passes(&client, &server, "again");
    assert_eq!((fixture.proxy.traffic().cut, fixture.proxy.traffic().accepted), (2, 3));
}

#[test]
fn a_reset_reaches_both_sides_even_if_it_ends_at_once() {
    let fixture = Fixture::new();
    let (client, server) = fixture.pair();
    assert_passes(&client, &server, "here");
    fixture.proxy.disturb(Disturbance::Reset);
    fixture.proxy.end_disturbances();
    assert_reset(&client);
    assert_reset(&server);
    fixture.proxy.disturb(Disturbance::Reset);
    // The kernel may learn of the reset before it reports the connection as established.
    let read = TcpStream::connect(fixture.proxy.address()).and_then(|mut client| client.read(&mut [0]));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_half_open_connection_is_silent_in_one_direction_and_is_cut_afterwards() {
    let fixture = Fixture::new();
    let (mut client, server) = fixture.pair();
    let (lucky_client, lucky_server) = fixture.pair();
    assert_passes(&client, &server, "before");
    fixture.proxy.disturb(Disturbance::HalfOpen { direction: Direction::ToServer });
    client.write_all(&[0; 1000]).unwrap();
    assert_silent(&server);
    assert_passes(&server, &client, "the other way");
    // The server does not learn that the client closes either.
    client.shutdown(Shutdown::Write).unwrap();
    assert_silent(&server);
    fixture.proxy.end_disturbances();
    assert_ended(&server);
    assert_ended(&client);
    assert_passes(&lucky_client, &lucky_server, "nothing was lost here");
    let traffic = fixture.proxy.traffic();
    assert_eq!((traffic.cut, traffic.dropped_bytes), (1, 1000));
}

#[test]
fn the_server_of_a_half_open_connection_does_not_notice_that_its_client_died() {
    let fixture = Fixture::disturbed(Disturbance::HalfOpen { direction: Direction::ToServer });
    let (client, mut server) = fixture.pair();
    drop(client);
    // The dead client's machine answers with a reset, which is lost as well.
    server.write_all(b"hello?").unwrap();
    eventually("the bytes were sent", || fixture.proxy.traffic().to_client_bytes == 6);
    server.write_all(b"hello??").unwrap();
    assert_silent(&server);
    fixture.proxy.end_disturbances();
    eventually("the connection is over", || fixture.proxy.traffic().open == 0);
    assert!(matches!(server.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn nothing_moves_in_a_stall_and_nothing_is_lost_after_it() {
    let fixture = Fixture::new();
    let (client, server) = fixture.pair();
    let bytes = Random::fresh().bytes(32 * MEBIBYTE);
    let moved = || fixture.proxy.traffic().to_server_bytes;
    thread::scope(|scope| {
        scope.spawn(|| send(&client, &bytes, Random::fresh()));
        // The server does not read: all buffers fill up, the proxy's too.
        rest(moved);
        fixture.proxy.disturb(Disturbance::Stall);
        let before = rest(moved);
        let mut at_server = read_exact(&server, usize::try_from(before).unwrap());
        assert_silent(&server);
        assert_eq!(moved(), before);
        fixture.proxy.end_disturbances();
        at_server.extend(receive(&server));
        assert!(at_server == bytes);
    });
}

/// Waits until bytes have moved and then none for a while; returns their number.
fn rest(moved: impl Fn() -> u64) -> u64 {
    eventually("no more bytes move", || {
        let before = moved();
        thread::sleep(SILENCE);
        before > 0 && moved() == before
    });
    moved()
}

#[test]
fn dropped_bytes_are_whole_runs_and_all_are_counted() {
    const RUN: usize = 1000;
    let fixture = Fixture::disturbed(Disturbance::DropBytes {
        direction: Direction::ToServer,
        per_mebibyte: NonZeroU32::new(10).unwrap(),
        bytes: NonZeroU32::new(RUN as u32).unwrap(),
    });
    let (client, server) = fixture.pair();
    let mut random = Random::fresh();
    let (there, back) = (random.bytes(8 * MEBIBYTE), random.bytes(MEBIBYTE));
    let (at_client, at_server) = exchange(&client, &server, &there, &back);
    assert!(at_client == back, "no byte is lost in the other direction");
    let dropped = usize::try_from(fixture.proxy.traffic().dropped_bytes).unwrap();
    assert_eq!(at_server.len() + dropped, there.len());
    assert!((20 * RUN..200 * RUN).contains(&dropped), "{dropped} bytes");
    let mut at = 0;
    for byte in at_server {
        if there[at] != byte {
            at += RUN;
        }
        assert_eq!(there[at], byte, "at byte {at}");
        at += 1;
    }
    assert!(there.len() - at <= RUN);
}

#[test]
fn a_client_of_a_missing_server_is_reset() {
    let Fixture { proxy, listener } = Fixture::new();
    drop(listener);
    let read = TcpStream::connect(proxy.address()).and_then(|mut client| client.read(&mut [0]));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!((proxy.traffic().refused, proxy.traffic().accepted), (1, 1));
}

#[test]
fn a_dropped_proxy_leaves_no_thread_no_listener_and_no_connection() {
    let hour = Duration::from_secs(3600);
    let delay = Disturbance::Delay { direction: Direction::ToServer, delay: hour, jitter: Duration::ZERO };
    let fixture = Fixture::disturbed(delay);
    let (mut client, server) = fixture.pair();
    client.write_all(b"late").unwrap();
    assert_passes(&server, &client, "prompt");
    let address = fixture.proxy.address();
    // The kernel shows a thread's name with a short delay, and still shows the thread for a moment after its
    // join.
    eventually("there are two threads", || threads(address) == 2);
    assert!(process::listener(address.ip(), address.port()).is_some());
    drop(fixture.proxy);
    assert_eq!(process::listener(address.ip(), address.port()), None);
    eventually("the threads are gone", || threads(address) == 0);
    assert_ended(&client);
    assert_ended(&server);
}

/// Counts the threads of this process whose name contains the proxy's port.
fn threads(address: SocketAddr) -> usize {
    let ends = format!("-{}\n", address.port());
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks
        .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.ends_with(&ends)))
        .count()
}

#[test]
fn the_lean_client_notices_each_disturbance() {
    let server = null::Server::start(Default::default()).unwrap();
    let proxy = Proxy::start(server.address(), 1).unwrap();
    let mut options = ConnectOptions::new(proxy.address().to_string().parse().unwrap());
    options.timeout = Some(Duration::from_millis(500));
    block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        let insert = rawdoc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]};
        assert_eq!(connection.command("d", &insert).await.unwrap().get_i32("n").unwrap(), 2);

        let delay = Duration::from_millis(20);
        proxy.disturb(Disturbance::Delay { direction: Direction::Both, delay, jitter: Duration::ZERO });
        let start = clock::now();
        connection.ping().await.unwrap();
        assert!(clock::now().since(start) >= 40 * MILLISECOND_NS);

        proxy.disturb(Disturbance::HalfOpen { direction: Direction::ToClient });
        connection.ping().await.unwrap_err();
        proxy.disturb(Disturbance::Cut);
        Connection::connect(&options).await.map(drop).unwrap_err();
        proxy.end_disturbances();
        Connection::connect(&options).await.unwrap().ping().await.unwrap();
    });
    assert_eq!(server.acknowledged(), 2);
}
