//! Generates the load: connections that each send the next body after the last answer.

use std::fmt::Write;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use plimsoll_telemetry::workload::Sensors;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The order of the readings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Each tick of all sensors, then the next.
    Turn,
    /// Some ticks of one sensor, then of the next.
    Runs,
}

/// The number of consecutive ticks of one sensor in [`Shape::Runs`]: a minute.
const RUN: u64 = 6;

/// The format of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Lines,
    Json,
}

/// The load. Every reading is sent once.
pub struct Load {
    pub sensors: Sensors,
    pub next: u64,
    pub batch: u64,
    pub callers: u64,
    pub shape: Shape,
    pub media: Media,
}

impl Load {
    /// Sends readings, all of which must be acknowledged. Returns their number.
    pub fn run(&mut self, runtime: &tokio::runtime::Runtime, address: &str, time: Duration) -> u64 {
        let end = Instant::now() + time;
        let first = self.next;
        let callers = (0..self.callers).map(|caller| self.call(address, first + caller * self.batch, end));
        let sent: Vec<u64> = runtime.block_on(join_all(callers));
        self.next += sent.iter().max().unwrap() * self.callers * self.batch;
        sent.iter().sum::<u64>() * self.batch
    }

    /// Sends batches from a number on. Returns the number of batches sent.
    async fn call(&self, address: &str, first: u64, end: Instant) -> u64 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut request, mut body, mut answer) = (String::new(), String::new(), Vec::new());
        let mut sent = 0;
        while Instant::now() < end {
            body.clear();
            self.write(first + sent * self.callers * self.batch, &mut body);
            request.clear();
            let (path, kind) = self.route();
            write!(request, "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: {kind}\r\n").unwrap();
            write!(request, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            read(&mut stream, &mut answer).await;
            assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
            sent += 1;
        }
        sent
    }

    fn route(&self) -> (&'static str, &'static str) {
        match (self.batch, self.media) {
            (1, _) => ("/api/telemetry/ingest", "application/json"),
            (_, Media::Json) => ("/api/telemetry/ingest/batch", "application/json"),
            (_, Media::Lines) => ("/api/telemetry/ingest/batch", "application/x-ndjson"),
        }
    }

    fn write(&self, first: u64, body: &mut String) {
        let array = self.batch > 1 && self.media == Media::Json;
        for number in first..first + self.batch {
            let first = number == first;
            body.push_str(match (array, first) {
                (true, true) => "[",
                (true, false) => ",",
                (false, true) => "",
                (false, false) => "\n",
            });
            self.reading(number, body);
        }
        if array {
            body.push(']');
        }
    }

    fn reading(&self, number: u64, body: &mut String) {
        let (sensor, tick) = self.place(number);
        let reading = self.sensors.reading(sensor, tick);
        write!(body, "{{\"sensorId\":\"{}\",\"timestamp\":{}", reading.sensor, reading.at_ms).unwrap();
        for (name, value) in &reading.metrics {
            write!(body, ",\"{name}\":{value}").unwrap();
        }
        body.push('}');
    }

    /// The sensor and the tick of a number.
    fn place(&self, number: u64) -> (u64, u64) {
        let count = self.sensors.count;
        match self.shape {
            Shape::Turn => (number % count, number / count),
            Shape::Runs => {
                let (round, within) = (number / (count * RUN), number % (count * RUN));
                (within / RUN, round * RUN + within % RUN)
            }
        }
    }
}

/// Reads one whole answer.
async fn read(stream: &mut TcpStream, answer: &mut Vec<u8>) {
    answer.clear();
    loop {
        assert!(stream.read_buf(answer).await.unwrap() > 0, "the service closed the connection");
        let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&answer[..end]).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().parse().unwrap();
        if answer.len() >= end + 4 + length {
            return;
        }
    }
}
