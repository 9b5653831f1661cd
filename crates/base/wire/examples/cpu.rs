//! Measures this client's CPU per operation and that of a bare blocking socket, against the same server. Also
//! measures the additional cost of compression.
//!
//! `cargo run --release -p plimsoll-wire --example cpu -- HOST:PORT [TIMEOUT_MS]`
//!
//! Rounds of both are interleaved; the medians are printed. CPU is the thread's own time on a core (user and system,
//! `/proc/thread-self/schedstat`), so other processes add only noise.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use plimsoll_wire::{Compressor, ConnectOptions, Connection, WriteBatch, WriteKind, WriteReply, WriteSpec};

const ROUNDS: u32 = 101;
const OPERATIONS: u32 = 600;
const BATCHES: u32 = 6;
const BATCH: u32 = 1000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or("give the server's HOST:PORT")?;
    let timeout = words.next().map(|word| word.parse().map(Duration::from_millis)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut options = ConnectOptions { timeout, ..ConnectOptions::new(address.parse()?) };
    let mut wire = Wire { connection: Some(runtime.block_on(Connection::connect(&options))?), runtime };
    let mut bare = Bare { stream: TcpStream::connect(&address)?, reply: vec![0; 16 * 1024] };
    bare.stream.set_nodelay(true)?;
    compare("single insert, µs a command", &mut wire, &mut bare, OPERATIONS, 1)?;
    compare("1000 a command, µs a document", &mut wire, &mut bare, BATCHES, BATCH)?;
    for compressor in [Compressor::Zlib, Compressor::Zstd] {
        options.compression = vec![compressor];
        wire.connection = Some(wire.runtime.block_on(Connection::connect(&options))?);
        let title = format!("the same, {}", compressor.name());
        compare(&title, &mut wire, &mut bare, BATCHES, BATCH)?;
    }
    Ok(())
}

fn compare(title: &str, wire: &mut Wire, bare: &mut Bare, commands: u32, batch: u32) -> Result<(), Failure> {
    let (mut with_wire, mut with_bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        with_bare.push(measured(|| bare.run(commands, batch), commands * batch)?);
        with_wire.push(measured(|| wire.run(commands, batch), commands * batch)?);
    }
    let (wire, bare) = (median(with_wire), median(with_bare));
    println!("{title}: bare {bare:.3}, wire {wire:.3}, ratio {:.3}", wire / bare);
    Ok(())
}

/// The mean of the middle two of an even number.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// CPU of this thread per unit, in µs.
fn measured(run: impl FnOnce() -> Result<(), Failure>, units: u32) -> Result<f64, Failure> {
    let before = cpu_ns()?;
    run()?;
    Ok((cpu_ns()? - before) as f64 / 1000.0 / f64::from(units))
}

fn cpu_ns() -> Result<u64, Failure> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("no schedstat")?.parse()?)
}

/// A document of 100 bytes, with a number and slightly repetitive text. The server assigns its `_id`.
fn document(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&100_i32.to_le_bytes());
    out.extend_from_slice(b"\x10n\0");
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(b"\x02text\0");
    out.extend_from_slice(&78_i32.to_le_bytes());
    for place in 0..11 {
        let word = number.wrapping_mul(2_654_435_761).rotate_left(place * 5) % 5000;
        out.extend_from_slice(WORDS[word as usize % WORDS.len()]);
        out.extend_from_slice(&[b'0' + (word % 10) as u8, b' ']);
    }
    out.extend_from_slice(&[0, 0]);
}

const WORDS: [&[u8; 5]; 16] = [
    b"apple", b"bread", b"chair", b"dream", b"eagle", b"flame", b"grape", b"house", b"image", b"juice",
    b"knife", b"lemon", b"mouse", b"night", b"ocean", b"piano",
];

struct Wire {
    connection: Option<Connection>,
    runtime: tokio::runtime::Runtime,
}

impl Wire {
    fn run(&mut self, commands: u32, batch: u32) -> Result<(), Failure> {
        let connection = self.connection.take().ok_or("no connection")?;
        let task = self.runtime.spawn(write(connection, commands, batch));
        self.connection = Some(self.runtime.block_on(task)??);
        Ok(())
    }
}

async fn write(mut connection: Connection, commands: u32, documents: u32) -> Result<Connection, Failure> {
    let spec = WriteSpec::new(WriteKind::Insert, "plimsoll", "cpu_wire");
    let mut batch = WriteBatch::new(&spec, &connection.limits())?;
    let mut reply = WriteReply::new();
    for _ in 0..commands {
        batch.clear();
        for number in 0..documents {
            batch.push(|out| document(out, number))?;
        }
        connection.write(&mut batch, &mut reply).await;
        if !reply.is_acknowledged() {
            return Err(format!("not acknowledged: {:?}", reply.first_error()).into());
        }
    }
    Ok(connection)
}

struct Bare {
    stream: TcpStream,
    reply: Vec<u8>,
}

impl Bare {
    fn run(&mut self, commands: u32, documents: u32) -> Result<(), Failure> {
        let body = bson::doc! {"insert": "cpu_bare", "ordered": true, "$db": "plimsoll"}.to_vec()?;
        let mut request = Vec::new();
        for _ in 0..commands {
            encode(&mut request, &body, documents);
            self.stream.write_all(&request)?;
            let count = self.stream.read(&mut self.reply)?;
            let whole = self.reply.first_chunk().map(|len| i32::from_le_bytes(*len) as usize);
            if whole != Some(count) {
                return Err("a reply came in parts".into());
            }
            let reply = bson::RawDocument::from_bytes(&self.reply[21..count])?;
            if reply.get_i32("n")? != documents as i32 || reply.get_f64("ok")? != 1.0 {
                return Err("not acknowledged".into());
            }
        }
        Ok(())
    }
}

fn encode(out: &mut Vec<u8>, body: &[u8], documents: u32) {
    out.clear();
    for word in [0, 1, 0, 2013, 0] {
        out.extend_from_slice(&i32::to_le_bytes(word));
    }
    out.push(0);
    out.extend_from_slice(body);
    out.push(1);
    let section = out.len();
    out.extend_from_slice(b"\0\0\0\0documents\0");
    for number in 0..documents {
        document(out, number);
    }
    patch(out, section);
    patch(out, 0);
}

fn patch(out: &mut [u8], at: usize) {
    let len = (out.len() - at) as i32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}
