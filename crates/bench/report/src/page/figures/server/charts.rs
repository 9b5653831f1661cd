//! Defines the charts of a server's counters.

use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::sample::{ServerSample, checkpoints};

use crate::chart::{Axis, Point, Series, Stroke};

/// Microseconds in a millisecond.
const US_PER_MS: f64 = 1e3;
/// The stroke of each line, so that lines differ without colour.
const STROKES: [Stroke; 5] = [Stroke::Solid, Stroke::Dashed, Stroke::Dotted, Stroke::Thin, Stroke::Dashed];

/// A counter of a sample.
type Counter = fn(&ServerSample) -> Option<u64>;

/// Part of the list of charts.
enum Part {
    /// A chart with its title, its caption and its vertical axis. The lines below belong to it.
    Chart(&'static str, &'static str, Scale),
    /// A line with its name, its colour and its source.
    Line(&'static str, usize, Source),
}

/// A vertical axis, with the name of its values.
enum Scale {
    Amount(&'static str),
    Bytes(&'static str),
    Share(&'static str),
    Span(&'static str),
}

/// The source of a line.
enum Source {
    /// The value of every sample.
    Gauge(Counter),
    /// A number of bytes as a percentage of the cache.
    OfCache(Counter),
    /// The rise of a counter per second, divided by the number (the unit). A gap where the counter fell,
    /// because a restart resets it.
    Rate(Counter, f64),
    /// The rise of the first counter ÷ the rise of the second ÷ the number (the unit). A gap where the second
    /// counter did not rise.
    Mean(Counter, Counter, f64),
    /// Each checkpoint from its start to its end; its height is its duration.
    Checkpoints,
}

use Part::{Chart, Line};
use Scale::{Amount, Bytes, Share, Span};
use Source::{Checkpoints, Gauge, Mean, OfCache, Rate};

/// Every chart in the order of possible bottlenecks: from the processor to the disk, then the clients.
const PARTS: &[Part] = &[
    Chart("CPU", "Of the server's process.", Amount("cores")),
    Line("server", 0, Rate(|it| it.cpu_ns, SECOND_NS as f64)),
    Chart("Memory", "Of the process, and of the cache.", Bytes("bytes")),
    Line("resident", 0, Gauge(|it| it.rss_bytes)),
    Line("cache", 1, Gauge(|it| it.cache_bytes)),
    Chart("Cache", "From 20 % dirty on, clients' threads evict.", Amount("% of the cache")),
    Line("dirty", 0, OfCache(|it| it.cache_dirty_bytes)),
    Line("used", 1, OfCache(|it| it.cache_bytes)),
    Chart("Pages evicted", "By application threads.", Amount("pages a second")),
    Line("pages", 0, Rate(|it| it.cache_application_evictions, 1.0)),
    Chart(
        "Client threads working on pages",
        "Time not spent on commands, over all threads.",
        Amount("ms a second"),
    ),
    Line("waiting for cache space", 0, Rate(|it| it.cache_application_wait_us, US_PER_MS)),
    Line("reading", 1, Rate(|it| it.cache_application_read_us, US_PER_MS)),
    Line("writing", 2, Rate(|it| it.cache_application_write_us, US_PER_MS)),
    Chart("Into and out of the cache", "", Bytes("bytes a second")),
    Line("read into", 0, Rate(|it| it.cache_read_bytes, 1.0)),
    Line("written from", 1, Rate(|it| it.cache_written_bytes, 1.0)),
    Chart("Tickets in use", "Operations inside the storage engine.", Amount("tickets")),
    Line("write", 0, Gauge(|it| it.write_tickets_out)),
    Line("read", 1, Gauge(|it| it.read_tickets_out)),
    Line("write, at most", 3, Gauge(|it| it.write_tickets_max)),
    Chart("Waiting for tickets", "", Amount("operations")),
    Line("for a write ticket", 0, Gauge(|it| it.write_tickets_waiting)),
    Line("for a read ticket", 1, Gauge(|it| it.read_tickets_waiting)),
    Chart("Checkpoints", "Width and height: the duration.", Span("duration")),
    Line("checkpoint", 0, Checkpoints),
    Chart("Journal syncs", "", Amount("syncs a second")),
    Line("syncs", 0, Rate(|it| it.journal_syncs, 1.0)),
    Chart("Mean journal sync", "A write with j: true waits for one.", Span("duration")),
    Line("mean sync", 0, Mean(|it| it.journal_sync_us, |it| it.journal_syncs, 1e-3)),
    Chart("Flow control", "Time that writes waited, all threads.", Amount("ms a second")),
    Line("waiting", 0, Rate(|it| it.flow_control_us, US_PER_MS)),
    Line("engaged", 1, Rate(|it| it.flow_control_lagged_us, US_PER_MS)),
    Chart("Replication lag", "The majority's lag, in whole seconds.", Span("behind the primary")),
    Line("lag", 0, Gauge(|it| Some(it.replication_lag_ms? * MILLISECOND_NS))),
    Chart("Written to disk", "By the engine, its journal, the process.", Bytes("bytes a second")),
    Line("storage engine", 0, Rate(|it| it.disk_written_bytes, 1.0)),
    Line("journal", 1, Rate(|it| it.journal_bytes, 1.0)),
    Line("process", 2, Rate(|it| it.process_written_bytes, 1.0)),
    Chart("Read from disk", "By the engine, and by the process.", Bytes("bytes a second")),
    Line("storage engine", 0, Rate(|it| it.disk_read_bytes, 1.0)),
    Line("process", 2, Rate(|it| it.process_read_bytes, 1.0)),
    Chart("Disk busy", "By any process.", Share("% of the time")),
    Line("busy", 0, Rate(|it| it.disk_busy_ms, 10.0)),
    Chart("Connections", "Open, this tool's own included.", Amount("connections")),
    Line("open", 0, Gauge(|it| it.connections)),
    Chart("Network", "", Bytes("bytes a second")),
    Line("received", 0, Rate(|it| it.network_in_bytes, 1.0)),
    Line("sent", 1, Rate(|it| it.network_out_bytes, 1.0)),
    Chart("Operations", "As the server counts them.", Amount("a second")),
    Line("inserts", 0, Rate(|it| it.inserts, 1.0)),
    Line("queries", 1, Rate(|it| it.queries, 1.0)),
    Line("updates", 2, Rate(|it| it.updates, 1.0)),
    Line("deletes", 3, Rate(|it| it.deletes, 1.0)),
    Line("commands", 4, Rate(|it| it.commands, 1.0)),
];

/// A chart that may have nothing to draw.
pub(super) struct Draft {
    pub title: &'static str,
    pub caption: &'static str,
    /// The lines; those without a value are not drawn.
    pub series: Vec<Series>,
    scale: &'static Scale,
}

/// Every chart with its lines.
pub(super) fn drafts(samples: &[ServerSample]) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for part in PARTS {
        match (part, drafts.last_mut()) {
            (Chart(title, caption, scale), _) => {
                drafts.push(Draft { title, caption, series: Vec::new(), scale });
            }
            (Line(name, hue, source), Some(draft)) => draft.series.push(source.line(name, *hue, samples)),
            (Line(..), None) => {}
        }
    }
    drafts
}

impl Draft {
    /// The vertical axis up to a largest value.
    pub(super) fn axis(&self, high: f64) -> Axis {
        match self.scale {
            Amount(name) => Axis::amount(high, name),
            Bytes(name) => Axis::bytes(high, name),
            Share(name) => Axis::amount(high.min(100.0), name),
            Span(name) => Axis::span(high, name),
        }
    }
}

impl Source {
    fn line(&self, name: &str, hue: usize, samples: &[ServerSample]) -> Series {
        let stroke = if matches!(self, Checkpoints) { Stroke::Bold } else { STROKES[hue % STROKES.len()] };
        Series::line(name, hue, stroke, self.points(samples))
    }

    fn points(&self, samples: &[ServerSample]) -> Vec<Point> {
        let each = |value: &dyn Fn(&ServerSample) -> Option<f64>| {
            samples.iter().map(|it| Point { x: at_s(it), y: value(it) }).collect()
        };
        let between = |value: &dyn Fn(&[ServerSample]) -> Option<f64>| {
            samples.windows(2).map(|pair| Point { x: at_s(&pair[1]), y: value(pair) }).collect()
        };
        match *self {
            Gauge(read) => each(&|it| read(it).map(|value| value as f64)),
            OfCache(read) => each(&|it| {
                let most = it.cache_bytes_max.filter(|most| *most > 0)?;
                Some(read(it)? as f64 / most as f64 * 100.0)
            }),
            Rate(read, unit) => between(&|pair| {
                let seconds = at_s(&pair[1]) - at_s(&pair[0]);
                (seconds > 0.0).then_some(risen(pair, read)? / unit / seconds)
            }),
            Mean(sum, count, unit) => between(&|pair| {
                let count = risen(pair, count).filter(|count| *count > 0.0)?;
                Some(risen(pair, sum)? / count / unit)
            }),
            Checkpoints => checkpoint_points(samples),
        }
    }
}

fn checkpoint_points(samples: &[ServerSample]) -> Vec<Point> {
    let found = checkpoints(samples).into_iter().flat_map(|it| {
        let ns = it.took_ms.map_or(it.to_ns - it.from_ns, |ms| ms * MILLISECOND_NS) as f64;
        let [from, to] = [it.from_ns, it.to_ns].map(|at_ns| at_ns as f64 / SECOND_NS as f64);
        [Point::new(from, ns), Point::new(to, ns), Point::gap(to)]
    });
    let points: Vec<_> = found.collect();
    let is_zero = points.is_empty() && samples.iter().any(|it| it.checkpoints.is_some());
    if is_zero { vec![Point::new(0.0, 0.0)] } else { points }
}

fn risen(pair: &[ServerSample], read: Counter) -> Option<f64> {
    Some(read(&pair[1])?.checked_sub(read(&pair[0])?)? as f64)
}

fn at_s(sample: &ServerSample) -> f64 {
    sample.at_ns as f64 / SECOND_NS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, count: Option<u64>, sum: Option<u64>) -> ServerSample {
        ServerSample {
            at_ns: second * SECOND_NS,
            journal_syncs: count,
            journal_sync_us: sum,
            ..ServerSample::default()
        }
    }

    #[test]
    fn a_counter_becomes_a_rate_and_a_restart_a_gap() {
        let samples = [(0, Some(0)), (2, Some(3000)), (3, Some(5)), (4, None)];
        let samples = samples.map(|(second, sum)| sample(second, None, sum));
        let points = Rate(|it| it.journal_sync_us, 1e3).points(&samples);
        assert_eq!(points, [Point::new(2.0, 1.5), Point::gap(3.0), Point::gap(4.0)]);
    }

    #[test]
    fn a_mean_of_nothing_is_a_gap() {
        let samples = [(0, 0, 0), (1, 10, 5000), (2, 10, 5000), (3, 12, 9000)];
        let samples = samples.map(|(second, count, sum)| sample(second, Some(count), Some(sum)));
        let points = Mean(|it| it.journal_sync_us, |it| it.journal_syncs, 1e3).points(&samples);
        assert_eq!(points, [Point::new(1.0, 0.5), Point::gap(2.0), Point::new(3.0, 2.0)]);
    }
}
