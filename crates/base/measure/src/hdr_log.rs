//! Writes and reads interval histograms as a standard HDR V2 log, which other tools read.
//!
//! One line per interval and metric, tagged `operation.metric`; latencies in nanoseconds, the column of maxima in milliseconds.
//! The format is that of HdrHistogram's `HistogramLogWriter`, version 1.3.

use std::io::{self, Write};

use base64::Engine;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};

use crate::clock::{MILLISECOND_NS, SECOND_NS};
use crate::histogram::{DecodeError, Histogram};

/// Writes interval histograms to `sink`, a line each.
#[derive(Debug)]
pub struct HdrLog<W: Write> {
    sink: W,
}

impl<W: Write> HdrLog<W> {
    /// Starts a log whose intervals count from `started_ms`, wall time in milliseconds since 1970.
    ///
    /// # Errors
    /// If `sink` fails.
    pub fn new(mut sink: W, started_ms: u64) -> io::Result<Self> {
        let seconds = started_ms as f64 / 1000.0;
        writeln!(sink, "#[Histogram log format version 1.3]")?;
        writeln!(sink, "#[StartTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(
            sink,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        Ok(Self { sink })
    }

    /// Writes one interval of one metric; an empty histogram is left out.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, tag: &str, from_ns: u64, length_ns: u64, counts: &Histogram) -> io::Result<()> {
        if counts.count() == 0 {
            return Ok(());
        }
        writeln!(
            self.sink,
            "Tag={tag},{:.3},{:.3},{:.3},{}",
            from_ns as f64 / SECOND_NS as f64,
            length_ns as f64 / SECOND_NS as f64,
            counts.max() as f64 / MILLISECOND_NS as f64,
            base64::engine::general_purpose::STANDARD.encode(counts.encode()),
        )
    }

    /// Flushes everything to the operating system.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// `operation.metric`.
    pub tag: String,
    /// Nanoseconds since the run's start.
    pub from_ns: u64,
    /// Its length in nanoseconds.
    pub length_ns: u64,
    /// The counts.
    pub histogram: Histogram,
}

/// Reads a log. A truncated last line is skipped.
///
/// # Errors
/// If another line is damaged.
pub fn read(log: &[u8]) -> Result<Vec<Entry>, DecodeError> {
    let whole = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = IntervalLogIterator::new(&log[..whole]);
    let intervals = lines.filter_map(|line| match line {
        Ok(LogEntry::Interval(interval)) => Some(Ok(interval)),
        Ok(_) => None,
        Err(error) => Some(Err(DecodeError::Format(format!("{error:?}")))),
    });
    intervals.map(|interval| entry(&interval?)).collect()
}

fn entry(interval: &IntervalLogHistogram<'_>) -> Result<Entry, DecodeError> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram());
    let bytes = decoded.map_err(|error| DecodeError::Format(error.to_string()))?;
    Ok(Entry {
        tag: interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default(),
        from_ns: u64::try_from(interval.start_timestamp().as_nanos()).unwrap_or(u64::MAX),
        length_ns: u64::try_from(interval.duration().as_nanos()).unwrap_or(u64::MAX),
        histogram: Histogram::decode(&bytes)?,
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_log_is_read_by_the_standard_reader() {
        let mut counts = Histogram::default();
        [1_000_000, 2_000_000, 3_000_000].into_iter().for_each(|ns| counts.record(ns));
        let mut log = HdrLog::new(Vec::new(), 1_774_197_419_960).unwrap();
        log.write("insert.response", SECOND_NS, SECOND_NS, &counts).unwrap();
        log.write("insert.response", 2 * SECOND_NS, SECOND_NS, &Histogram::default()).unwrap();
        let entries = read(&log.sink).unwrap();
        let expected = Entry {
            tag: "insert.response".into(),
            from_ns: SECOND_NS,
            length_ns: SECOND_NS,
            histogram: counts,
        };
        assert_eq!(entries, [expected]);
    }

    #[test]
    fn a_truncated_last_line_is_skipped_and_a_damaged_line_is_an_error() {
        let mut counts = Histogram::default();
        counts.record(5);
        let mut log = HdrLog::new(Vec::new(), 0).unwrap();
        log.write("a.response", 0, SECOND_NS, &counts).unwrap();
        log.write("b.response", 0, SECOND_NS, &counts).unwrap();
        let end = log.sink.len();
        assert_eq!(read(&log.sink[..end - 3]).unwrap().len(), 1);
        log.sink[end - 9..end - 5].copy_from_slice(b"!!!!");
        assert!(read(&log.sink).is_err());
    }
}
