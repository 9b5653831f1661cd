//! Reads the output of wrk and wrk2.
//!
//! wrk counts latencies from when a request was sent. wrk2 counts them from when it was due ("recorded"), and with `-U`
//! both ways. Only the calibration lines and the heading of the distribution distinguish the two tools.

use std::io::BufRead;

use super::distribution::Distribution;
use super::error::{Error, MAKE_AGAIN};
use super::lines::Lines;
use super::value::Foreign;

mod convert;

/// The unit of a detailed spectrum, in nanoseconds.
const SPECTRUM_NS: f64 = 1e6;

/// Whether a line begins a result.
pub(super) fn begins(line: &[u8]) -> bool {
    let found = line.starts_with(b"Running ");
    found && String::from_utf8_lossy(line).contains(" test @ ")
}

/// Reads the output of wrk or wrk2. Lines of scripts are skipped.
pub(super) fn read(mut lines: Lines<impl BufRead>) -> Result<Foreign, Error> {
    let mut printed = Printed::default();
    while let Some(line) = lines.next()? {
        let text = String::from_utf8_lossy(line.text);
        printed.take(&text).map_err(|problem| Error::malformed(line.number, problem))?;
    }
    if printed.transfer.is_none() {
        let (what, remedy) = ("a result without its last line, `Transfer/sec:`", MAKE_AGAIN);
        return Err(Error::CutOff { line: lines.read(), what, remedy });
    }
    Ok(printed.into_foreign())
}

#[derive(Debug, Default)]
struct Printed {
    title: Option<String>,
    calibrated: bool,
    section: Section,
    /// Latencies of wrk2 from the due time, or latencies of wrk.
    main: Distribution,
    uncorrected: Option<Distribution>,
    /// The number of requests, the seconds, and the bytes read.
    requests: Option<(u64, f64, f64)>,
    errors: Vec<(String, u64)>,
    failed: u64,
    rate_per_s: Option<f64>,
    transfer: Option<f64>,
    connections: Option<(f64, f64)>,
}

/// The distribution that the current lines belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    None,
    Plain,
    Recorded,
    Uncorrected,
}

impl Printed {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let words = text.trim();
        if begins(text.as_bytes()) {
            if self.title.is_some() {
                return Err("a second result begins here; keep each in its own file".to_owned());
            }
            self.title = words.split_once(" @ ").map(|(_, address)| address.to_owned());
        } else if let Some((kind, rest)) = words.split_once(':') {
            self.labelled(kind, rest.trim(), words)?;
        } else if words.starts_with("Latency Distribution") {
            self.section = Section::of(words);
        } else if let Some(rest) = words.strip_prefix("Latency ") {
            self.latency(rest)?;
        } else if words.ends_with(" connections") && words.contains(" threads and ") {
            self.connections = numbers(words).map(|[threads, connections]| (threads, connections));
        } else if words.ends_with(" read") && words.contains(" requests in ") {
            self.requests = Some(requests(words).ok_or_else(|| format!("`{words}` has no figures"))?);
        } else if words.starts_with("#[") {
            self.ends(words);
        } else if self.section != Section::None {
            self.percentile(words)?;
        }
        Ok(())
    }

    /// A line with a colon.
    fn labelled(&mut self, kind: &str, rest: &str, words: &str) -> Result<(), String> {
        let unread = || format!("`{words}` has no figure");
        match kind {
            "Thread calibration" => self.calibrated = true,
            "Socket errors" => {
                let each = rest.split(',').map(|part| part.trim().split_once(' '));
                for part in each {
                    let (class, count) = part.ok_or_else(unread)?;
                    let count = count.trim().parse().map_err(|_| unread())?;
                    self.errors.push((class.to_owned(), count));
                }
            }
            "Non-2xx or 3xx responses" => {
                self.failed = rest.parse().map_err(|_| unread())?;
                self.errors.push(("status outside 200 to 399".to_owned(), self.failed));
            }
            "Requests/sec" => self.rate_per_s = Some(finite(rest).ok_or_else(unread)?),
            "Transfer/sec" => self.transfer = Some(size(rest).ok_or_else(unread)?),
            _ => {}
        }
        Ok(())
    }

    /// `635.91us 0.89ms 12.92ms 93.69%`: mean, standard deviation, largest, and the share within one standard
    /// deviation.
    fn latency(&mut self, rest: &str) -> Result<(), String> {
        let words: Vec<_> = rest.split_whitespace().collect();
        let [mean, deviation, max, _] = words[..] else { return Ok(()) };
        let read = |text: &str| match time(text) {
            None if text.contains("nan") => Ok(None),
            None => Err(format!("`{text}` is not a time with a unit")),
            time => Ok(time),
        };
        (self.main.mean, self.main.deviation, self.main.max) = (read(mean)?, read(deviation)?, read(max)?);
        Ok(())
    }

    /// `99% 5.80ms` of a distribution, or `5.803 0.990625 495 106.67` of a spectrum.
    fn percentile(&mut self, words: &str) -> Result<(), String> {
        let parts: Vec<_> = words.split_whitespace().collect();
        let Some(numbers) = self.current() else { return Ok(()) };
        match parts[..] {
            [percent, value] if percent.ends_with('%') => {
                let unread = || format!("`{words}` is not a percentile");
                let percentile = percent.strip_suffix('%').and_then(finite).ok_or_else(unread)?;
                let value = time(value).ok_or_else(unread)?;
                // A spectrum, which comes later and has more digits, overrides this value.
                numbers.set(percentile, value);
            }
            [value, share, _, _] => {
                let both = finite(value).zip(finite(share)).filter(|(_, share)| (0.0..=1.0).contains(share));
                if let Some((value, share)) = both {
                    numbers.set(share * 100.0, (value * SPECTRUM_NS).round());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `#[Mean = 1.113, StdDeviation = 0.593]`, `#[Max = 12.917, Total count = 60000]`: the end of a spectrum.
    fn ends(&mut self, words: &str) {
        let Some(numbers) = self.current() else { return };
        let pairs = words.trim_matches(['#', '[', ']']).split(',');
        for (name, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            let Some(value) = finite(value.trim()) else { continue };
            match name.trim() {
                "Mean" => numbers.mean = Some(value * SPECTRUM_NS),
                "StdDeviation" => numbers.deviation = Some(value * SPECTRUM_NS),
                "Max" => numbers.max = Some(value * SPECTRUM_NS),
                "Total count" => numbers.count = Some(value as u64),
                _ => {}
            }
        }
    }

    fn current(&mut self) -> Option<&mut Distribution> {
        match self.section {
            Section::None => None,
            Section::Plain | Section::Recorded => Some(&mut self.main),
            Section::Uncorrected => Some(self.uncorrected.get_or_insert_default()),
        }
    }
}

impl Section {
    fn of(heading: &str) -> Self {
        match heading {
            both if both.contains("Uncorrected") => Self::Uncorrected,
            recorded if recorded.contains("HdrHistogram") => Self::Recorded,
            _ => Self::Plain,
        }
    }
}

/// Units of time, in nanoseconds. Both tools print a time in the largest unit that fits.
const TIMES: [(&str, f64); 5] = [("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
const SIZES: [(&str, f64); 6] = [
    ("B", 1.0),
    ("KB", 1024.0),
    ("MB", 1_048_576.0),
    ("GB", 1_073_741_824.0),
    ("TB", 1_099_511_627_776.0),
    ("PB", 1_125_899_906_842_624.0),
];
const SECOND_NS: f64 = 1e9;

/// `22464657 requests in 30.00s, 17.76GB read`: how many, in how many seconds, how many bytes.
fn requests(words: &str) -> Option<(u64, f64, f64)> {
    let (count, rest) = words.split_once(" requests in ")?;
    let (took, size) = rest.strip_suffix(" read")?.split_once(", ")?;
    Some((count.parse().ok()?, time(took)? / SECOND_NS, self::size(size)?))
}

/// The first two whole words that are numbers.
fn numbers(words: &str) -> Option<[f64; 2]> {
    let mut found = words.split_whitespace().filter_map(finite);
    Some([found.next()?, found.next()?])
}

/// A time in whole nanoseconds.
fn time(text: &str) -> Option<f64> {
    scaled(text, &TIMES).map(f64::round)
}

/// A size in bytes.
fn size(text: &str) -> Option<f64> {
    scaled(text, &SIZES)
}

/// A number with one of these units.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(finite(number)? * factor)
}

/// A finite number that is not negative.
fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::value::{Since, Times, Tool};

    const TAIL: &str = "  100 requests in 30.00s, 1.00MB read\nRequests/sec: 3.33\nTransfer/sec: 34.13KB\n";

    fn parsed(middle: &str) -> Foreign {
        let text = format!("Running 30s test @ http://x/\n  2 threads and 4 connections\n{middle}{TAIL}");
        read(Lines::new(text.as_bytes())).unwrap()
    }

    fn since(found: &Foreign) -> (Tool, Vec<Since>) {
        (found.tool, found.operations[0].times.iter().map(|it| it.since).collect())
    }

    #[test]
    fn wrk_and_wrk2_are_distinguished_with_their_start_of_counting() {
        let plain = parsed("  Latency Distribution\n     50%  250.00us\n");
        assert_eq!(since(&plain), (Tool::Wrk, vec![Since::Sent]));
        let both = parsed(
            "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%    1.00s\n\n  Latency Distribution \
             (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))\n 50.000%    \
             1.00ms\n",
        );
        assert_eq!(since(&both), (Tool::Wrk2, vec![Since::Due, Since::Sent]));
        let at = |times: &Times| times.ns.at(50.0);
        assert_eq!(both.operations[0].times.iter().map(at).collect::<Vec<_>>(), [Some(1e9), Some(1e6)]);
        let calibrated = "  Thread calibration: mean lat.: 1.2ms, rate sampling interval: 10ms\n";
        assert_eq!(since(&parsed(calibrated)), (Tool::Wrk2, vec![Since::Due]));
        assert_eq!(since(&parsed("")), (Tool::Wrk, vec![Since::Sent]));
    }

    #[test]
    fn a_short_result_without_a_distribution_may_be_of_either_tool() {
        let text = format!("Running 5s test @ http://x/\n{}", TAIL.replace("30.00s", "5.00s"));
        let found = read(Lines::new(text.as_bytes())).unwrap();
        assert_eq!(since(&found), (Tool::Wrk, vec![Since::Unknown]));
    }

    #[test]
    fn the_spectrum_of_wrk2_is_read_with_its_ends() {
        let found = parsed(
            "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%    1.00ms\n\n  Detailed Percentile \
             spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n       0.027     0.000000            \
             2         1.00\n       1.003     0.500000          495         2.00\n      12.917     1.000000        60000          \
             inf\n#[Mean    =        1.113, StdDeviation   =        0.593]\n#[Max     =       12.917, Total count    \
             =        60000]\n#[Buckets =           27, SubBuckets     =         2048]\n",
        );
        let ns = &found.operations[0].times[0].ns;
        assert_eq!((ns.count, ns.mean, ns.deviation), (Some(60_000), Some(1_113_000.0), Some(593_000.0)));
        assert_eq!(
            (ns.at(0.0), ns.at(50.0), ns.at(100.0)),
            (Some(27e3), Some(1_003_000.0), Some(12_917_000.0))
        );
    }

    #[test]
    fn errors_are_listed_with_the_rate() {
        let found =
            parsed("  Socket errors: connect 1, read 0, write 0, timeout 7\n  Non-2xx or 3xx responses: 9\n");
        let operation = &found.operations[0];
        let errors: Vec<_> = operation.errors.iter().map(|(class, count)| (class.as_str(), *count)).collect();
        assert_eq!(errors, [("connect", 1), ("status outside 200 to 399", 9), ("timeout", 7)]);
        assert_eq!((operation.failed, operation.count), (Some(9), Some(100)));
        assert_eq!(found.notes.len(), 2);
    }

    #[track_caller]
    fn check(text: &str, error: &str) {
        let found = read(Lines::new(text.as_bytes())).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }

    #[test]
    fn a_truncated_or_damaged_file_is_reported_with_its_line() {
        check("Running 5s test @ x\n  2 threads", "line 2: the file ends here, in the middle of a result");
        check("Running 5s test @ x\nTransfer/sec: 6.3", "line 2: `Transfer/sec: 6.3` has no figure");
        check("Running 5s test @ x\n  Latency 1.00q 1ms 1ms 9%", "line 2: `1.00q` is not a time with a unit");
        check("Running 5s test @ x\nRunning 5s test @ x", "line 2: a second result begins here");
    }

    #[test]
    fn times_and_sizes_are_read_in_every_unit() {
        for (text, ns) in [
            ("635.91us", Some(635_910.0)),
            ("12.92ms", Some(12_920_000.0)),
            ("1.20s", Some(1.2e9)),
            ("1.50m", Some(90e9)),
            ("1.00h", Some(3600e9)),
            ("5.00", None),
            ("-nanus", None),
            ("-5us", None),
        ] {
            assert_eq!(time(text), ns, "{text}");
        }
        for (text, bytes) in [("512.00B", Some(512.0)), ("1.50KB", Some(1536.0)), ("2.00M", None)] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn the_line_of_requests_has_three_figures() {
        assert_eq!(requests("12 requests in 1.00m, 1.00KB read"), Some((12, 60.0, 1024.0)));
        assert_eq!(requests("12 requests in soon, 1.00KB read"), None);
    }
}
