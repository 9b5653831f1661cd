//! Reads the output of YCSB: `[SECTION], key, value`.
//!
//! A section such as `[READ]` counts from when the operation was sent. A section such as `[Intended-READ]` counts from when the
//! operation was due: YCSB prints it with `measurement.interval=both` or `intended`.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::distribution::Distribution;
use super::error::{Error, MAKE_AGAIN};
use super::lines::Lines;
use super::value::{Foreign, Form, Metric, Of, Operation, Since, Times, Tool};

/// The maximum number of lines with figures.
const FIGURES_MAX: u64 = 10_000;
/// The status of successful operations.
const SUCCESSES: [&str; 3] = ["OK", "BATCHED_OK", "0"];
const INTENDED: &str = "Intended-";
const FAILED: &str = "-FAILED";

/// Whether a line begins a result.
pub(super) fn begins(line: &[u8]) -> bool {
    line.starts_with(b"[OVERALL], ") || line.starts_with(b"YCSB Client ")
}

/// Reads the output of YCSB. Other lines, such as its status, are skipped.
pub(super) fn read(mut lines: Lines<impl BufRead>) -> Result<Foreign, Error> {
    let mut printed = Printed::default();
    while let Some(line) = lines.next()? {
        let text = String::from_utf8_lossy(line.text);
        printed.take(line.number, &text)?;
        printed.unended = !line.ended;
    }
    printed.into_foreign(lines.read())
}

#[derive(Debug, Default)]
struct Printed {
    figures: u64,
    runtime_ms: Option<f64>,
    throughput: Option<f64>,
    sections: BTreeMap<String, Section>,
    others: Vec<Metric>,
    buckets: bool,
    unended: bool,
}

#[derive(Debug, Default)]
struct Section {
    operations: Option<u64>,
    ns: Distribution,
    returned: BTreeMap<String, u64>,
}

impl Printed {
    fn take(&mut self, number: u64, text: &str) -> Result<(), Error> {
        let Some((section, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once("], ")) else {
            return Ok(());
        };
        let unread = || Error::malformed(number, format!("`[{section}]` without a key and a number"));
        let (key, value) = rest.split_once(", ").ok_or_else(unread)?;
        // The text does not distinguish buckets of a histogram from points of a time series.
        if key.trim_start_matches('>').parse::<f64>().is_ok() {
            self.buckets = true;
            return Ok(());
        }
        let value: f64 = match value.trim() {
            "NaN" => return Ok(()),
            value => value.parse().ok().filter(|it: &f64| it.is_finite()).ok_or_else(unread)?,
        };
        self.figures += 1;
        if self.figures > FIGURES_MAX {
            return Err(Error::too_much(number, FIGURES_MAX, "figures", "this is not a result of YCSB"));
        }
        self.figure(section, key.trim(), value).map_err(|problem| Error::malformed(number, problem))
    }

    fn figure(&mut self, section: &str, key: &str, value: f64) -> Result<(), String> {
        match (section, key) {
            ("OVERALL", "RunTime(ms)") if self.runtime_ms.is_some() => {
                return Err("a second result begins here; keep each in its own file".to_owned());
            }
            ("OVERALL", "RunTime(ms)") => self.runtime_ms = Some(value),
            ("OVERALL", "Throughput(ops/sec)") => self.throughput = Some(value),
            _ if is_of_operation(key) => {
                self.sections.entry(section.to_owned()).or_default().take(key, value)
            }
            _ => {
                self.others.push(Metric::gauge(format!("{section} {key}"), value));
            }
        }
        Ok(())
    }

    fn into_foreign(self, lines: u64) -> Result<Foreign, Error> {
        let Some(runtime_ms) = self.runtime_ms.filter(|_| self.throughput.is_some()) else {
            let what = "a result without `[OVERALL], RunTime(ms)` and `Throughput(ops/sec)`";
            return Err(Error::CutOff { line: lines, what, remedy: MAKE_AGAIN });
        };
        let mut foreign = Foreign::new(Tool::Ycsb, Form::Text);
        let seconds = runtime_ms / 1000.0;
        foreign.duration_s = Some(seconds);
        foreign.operations = operations(self.sections, seconds);
        let overall = Metric::gauge("OVERALL operations/s", self.throughput.unwrap_or_default());
        foreign.metrics = std::iter::once(overall).chain(self.others).collect();
        let intended = foreign.operations.iter().flat_map(|it| &it.times).any(|it| it.since == Since::Due);
        let notes = [
            (!intended).then_some(
                "with -p measurement.interval=both YCSB also prints times from when operations were due (`Intended-`)",
            ),
            self.buckets.then_some("buckets of histograms or points of time series were skipped"),
            self.unended.then_some("the last line has no line feed: check that nothing is cut off"),
        ];
        foreign.notes = notes.into_iter().flatten().map(str::to_owned).collect();
        Ok(foreign)
    }
}

impl Section {
    fn take(&mut self, key: &str, value: f64) {
        let whole = value.max(0.0) as u64;
        if key == "Operations" {
            self.operations = Some(whole);
        } else if let Some(class) = key.strip_prefix("Return=") {
            self.returned.insert(class.to_owned(), whole);
        } else if let Some((name, factor)) = latency(key) {
            let ns = value * factor;
            match name {
                "Average" => self.ns.mean = Some(ns),
                "Min" => self.ns.min = Some(ns),
                "Max" => self.ns.max = Some(ns),
                other => drop(percentile(other).map(|percentile| self.ns.set(percentile, ns))),
            }
        }
    }
}

fn is_of_operation(key: &str) -> bool {
    key == "Operations" || key.starts_with("Return=") || latency(key).is_some()
}

/// `95thPercentileLatency(us)` is the `95thPercentile` latency, in units of 1000 ns.
fn latency(key: &str) -> Option<(&str, f64)> {
    let (name, unit) = key.strip_suffix(')')?.split_once("Latency(")?;
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        _ => return None,
    };
    Some((name, factor))
}

/// `95thPercentile` is 95, `99.9Percentile` is 99.9.
fn percentile(name: &str) -> Option<f64> {
    let number = name.strip_suffix("Percentile")?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.parse().ok().filter(|percentile| (0.0..=100.0).contains(percentile))
}

/// Puts sections of the same operation together.
fn operations(sections: BTreeMap<String, Section>, seconds: f64) -> Vec<Operation> {
    let mut operations: BTreeMap<String, Operation> = BTreeMap::new();
    for (name, section) in sections {
        let (bare, since) =
            name.strip_prefix(INTENDED).map_or((name.as_str(), Since::Sent), |bare| (bare, Since::Due));
        let (bare, of) = bare.strip_suffix(FAILED).map_or((bare, Of::Successes), |bare| (bare, Of::Failures));
        let operation = operations.entry(bare.to_owned()).or_default();
        operation.add(section, since, of);
    }
    operations.into_iter().map(|(name, operation)| operation.closed(name, seconds)).collect()
}

impl Operation {
    /// Adds a section of YCSB. The times from due and the times from sent cover the same operations.
    fn add(&mut self, section: Section, since: Since, of: Of) {
        let most = if of == Of::Failures { &mut self.failed } else { &mut self.count };
        *most = section.operations.max(*most);
        let failed = section.returned.into_iter().filter(|(class, _)| !SUCCESSES.contains(&class.as_str()));
        self.errors.extend(failed);
        let ns = Distribution { count: section.operations, ..section.ns };
        self.times.push(Times { since, of, ns });
    }

    /// Adds the failed operations to the count: YCSB counts them separately.
    fn closed(self, name: String, seconds: f64) -> Self {
        let returned = self.errors.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let failed = self.failed.unwrap_or(returned);
        let count = self.count.map(|succeeded| succeeded.saturating_add(failed)).or(self.failed);
        let rate_per_s = count.filter(|_| seconds > 0.0).map(|count| count as f64 / seconds);
        Self { name, count, rate_per_s, failed: Some(failed), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "\
YCSB Client 0.17.0
mongo client connection created with mongodb://localhost:27017/ycsb
[OVERALL], RunTime(ms), 10000
[OVERALL], Throughput(ops/sec), 100.0
[TOTAL_GC_TIME_%], Time(%), 0.5
[READ], Operations, 900
[READ], AverageLatency(us), 250.5
[READ], MinLatency(us), 100
[READ], MaxLatency(us), 9000
[READ], 95thPercentileLatency(us), 500
[READ], 99.9PercentileLatency(us), 8000
[READ], Return=OK, 900
[READ], Return=ERROR, 100
[READ], 0, 899
[READ], >1000, 1
[READ-FAILED], Operations, 100
[READ-FAILED], AverageLatency(us), NaN
[Intended-READ], Operations, 900
[Intended-READ], 99thPercentileLatency(ms), 70
";

    fn parsed(text: &str) -> Result<Foreign, Error> {
        read(Lines::new(text.as_bytes()))
    }

    #[test]
    fn sections_of_an_operation_are_grouped_with_their_start_of_counting() {
        let found = parsed(RESULT).unwrap();
        let [read] = &found.operations[..] else { panic!("{:?}", found.operations) };
        assert_eq!((read.name.as_str(), read.count, read.failed), ("READ", Some(1000), Some(100)));
        assert_eq!((read.rate_per_s, read.errors["ERROR"]), (Some(100.0), 100));
        let times: Vec<_> = read.times.iter().map(|it| (it.since, it.of, it.ns.count)).collect();
        let due = (Since::Due, Of::Successes, Some(900));
        assert_eq!(
            times,
            [due, (Since::Sent, Of::Successes, Some(900)), (Since::Sent, Of::Failures, Some(100))]
        );
        assert_eq!((read.times[0].ns.at(99.0), read.times[1].ns.at(99.9)), (Some(70e6), Some(8e6)));
        assert_eq!((read.times[1].ns.mean, read.times[1].ns.max), (Some(250_500.0), Some(9e6)));
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    }

    #[track_caller]
    fn check(text: &str, error: &str) {
        let found = parsed(text).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }

    #[test]
    fn a_truncated_or_damaged_file_is_reported_with_its_line() {
        check("[OVERALL], RunTime(ms), 10", "line 1: the file ends here, in the middle of a result without");
        check("[OVERALL], RunTime(ms)", "line 1: `[OVERALL]` without a key and a number");
        check("x\n[READ], Operations, many", "line 2: `[READ]` without a key and a number");
        check(&RESULT.repeat(2), "line 22: a second result begins here");
    }
}
