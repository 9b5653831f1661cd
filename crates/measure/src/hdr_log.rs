//! Interval histograms as a standard HDR V2 log, which other tools read.
//!
//! One line an interval and metric, tagged `operation.metric`; latencies in nanoseconds, the column of maxima in
//! milliseconds. The format is that of HdrHistogram's `HistogramLogWriter`, version 1.3.

use std::io::{self, Write};

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::clock::{MILLISECOND_NS, SECOND_NS};
use crate::histogram::Histogram;

/// Writes interval histograms to `sink`, a line each.
#[derive(Debug)]
pub struct HdrLog<W: Write> {
    sink: W,
    serializer: Box<V2DeflateSerializerDebug>,
}

/// The serialiser keeps buffers and has no `Debug` of its own.
struct V2DeflateSerializerDebug(V2DeflateSerializer);

impl std::fmt::Debug for V2DeflateSerializerDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("V2DeflateSerializer")
    }
}

impl<W: Write> HdrLog<W> {
    /// Starts a log whose intervals count from `started_ms`, wall time in milliseconds since 1970.
    ///
    /// # Errors
    /// What `sink` says.
    pub fn new(mut sink: W, started_ms: u64) -> io::Result<Self> {
        let seconds = started_ms as f64 / 1000.0;
        writeln!(sink, "#[Histogram log format version 1.3]")?;
        writeln!(sink, "#[StartTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(
            sink,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        Ok(Self { sink, serializer: Box::new(V2DeflateSerializerDebug(V2DeflateSerializer::new())) })
    }

    /// Writes one interval of one metric; an empty histogram is left out.
    ///
    /// # Errors
    /// What the sink says.
    pub fn write(&mut self, tag: &str, from_ns: u64, length_ns: u64, counts: &Histogram) -> io::Result<()> {
        if counts.count() == 0 {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let encoded = self.serializer.0.serialize(counts.inner(), &mut bytes);
        encoded.map_err(|error| io::Error::other(error.to_string()))?;
        writeln!(
            self.sink,
            "Tag={tag},{:.3},{:.3},{:.3},{}",
            from_ns as f64 / SECOND_NS as f64,
            length_ns as f64 / SECOND_NS as f64,
            counts.max() as f64 / MILLISECOND_NS as f64,
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &bytes),
        )
    }

    /// Hands everything written so far to the operating system.
    ///
    /// # Errors
    /// What the sink says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn the_log_is_read_by_the_standard_reader() {
        let mut counts = Histogram::default();
        [1_000_000, 2_000_000, 3_000_000].into_iter().for_each(|ns| counts.record(ns));
        let mut log = HdrLog::new(Vec::new(), 1_774_197_419_960).unwrap();
        log.write("insert.response", SECOND_NS, SECOND_NS, &counts).unwrap();
        log.write("insert.response", 2 * SECOND_NS, SECOND_NS, &Histogram::default()).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&log.sink).map(Result::unwrap).collect();
        let intervals: Vec<_> = entries
            .iter()
            .filter_map(|entry| if let LogEntry::Interval(it) = entry { Some(it) } else { None })
            .collect();
        assert_eq!(intervals.len(), 1);
        assert_eq!(intervals[0].start_timestamp().as_secs(), 1);
        let bytes = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            intervals[0].encoded_histogram(),
        )
        .unwrap();
        assert_eq!(Histogram::decode(&bytes).unwrap(), counts);
    }
}
