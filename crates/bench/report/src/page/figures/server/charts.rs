//! Defines the charts of a server's counters.

use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::sample::{ServerSample, checkpoints};

use super::series::{each, gauge, per_second};
use crate::chart::{Axis, Point, Series, Stroke};

/// Nanoseconds in a microsecond, for counters of microseconds.
const US_PER_MS: f64 = 1e3;

/// A chart that may have nothing to draw.
pub(super) struct Draft {
    /// Its title.
    pub title: &'static str,
    /// How to read it.
    pub caption: &'static str,
    /// Its lines; those without a value are not drawn.
    pub series: Vec<Series>,
    /// The vertical axis up to a largest value.
    pub y: fn(f64) -> Axis,
}

/// Every chart in the order of possible bottlenecks: from the processor to the disk, then the clients.
pub(super) fn drafts(samples: &[ServerSample]) -> Vec<Draft> {
    let parts = [processor, cache, tickets, checkpoint, journal, replication, disk, clients];
    parts.iter().flat_map(|part| part(samples)).collect()
}

fn processor(samples: &[ServerSample]) -> Vec<Draft> {
    vec![
        Draft {
            title: "CPU",
            caption: "Of the server's process.",
            series: vec![per_second(samples, "server", 0, |it| it.cpu_ns, SECOND_NS as f64)],
            y: |high| Axis::amount(high, "cores"),
        },
        Draft {
            title: "Memory",
            caption: "Of the process, and of the cache.",
            series: vec![
                gauge(samples, "resident", 0, |it| number(it.rss_bytes)),
                gauge(samples, "cache", 1, |it| number(it.cache_bytes)),
            ],
            y: |high| Axis::bytes(high, "bytes"),
        },
    ]
}

fn cache(samples: &[ServerSample]) -> Vec<Draft> {
    vec![
        Draft {
            title: "Cache",
            caption: "From 20 % dirty on, clients' threads evict.",
            series: vec![
                gauge(samples, "dirty", 0, |it| of_cache(it, it.cache_dirty_bytes)),
                gauge(samples, "used", 1, |it| of_cache(it, it.cache_bytes)),
            ],
            y: |high| Axis::amount(high, "% of the cache"),
        },
        Draft {
            title: "Pages evicted",
            caption: "By threads that should serve clients.",
            series: vec![per_second(samples, "pages", 0, |it| it.cache_application_evictions, 1.0)],
            y: |high| Axis::amount(high, "pages a second"),
        },
        Draft {
            title: "Clients' threads at work on pages",
            caption: "Time not spent on clients, all threads.",
            series: vec![
                per_second(samples, "waiting for room", 0, |it| it.cache_application_wait_us, US_PER_MS),
                per_second(samples, "reading", 1, |it| it.cache_application_read_us, US_PER_MS),
                per_second(samples, "writing", 2, |it| it.cache_application_write_us, US_PER_MS),
            ],
            y: |high| Axis::amount(high, "ms a second"),
        },
        Draft {
            title: "Into and out of the cache",
            caption: "",
            series: vec![
                per_second(samples, "read into", 0, |it| it.cache_read_bytes, 1.0),
                per_second(samples, "written from", 1, |it| it.cache_written_bytes, 1.0),
            ],
            y: |high| Axis::bytes(high, "bytes a second"),
        },
    ]
}

fn tickets(samples: &[ServerSample]) -> Vec<Draft> {
    let waiting = vec![
        gauge(samples, "for a write ticket", 0, |it| number(it.write_tickets_waiting)),
        gauge(samples, "for a read ticket", 1, |it| number(it.read_tickets_waiting)),
    ];
    vec![
        Draft {
            title: "Tickets in use",
            caption: "Operations inside the storage engine.",
            series: vec![
                gauge(samples, "write", 0, |it| number(it.write_tickets_out)),
                gauge(samples, "read", 1, |it| number(it.read_tickets_out)),
                gauge(samples, "write, at most", 3, |it| number(it.write_tickets_max)),
            ],
            y: |high| Axis::amount(high, "tickets"),
        },
        Draft {
            title: "Waiting for tickets",
            caption: "",
            series: waiting,
            y: |high| Axis::amount(high, "operations"),
        },
    ]
}

/// Each checkpoint from its start to its end, as high as it is long.
fn checkpoint(samples: &[ServerSample]) -> Vec<Draft> {
    let reported = samples.iter().any(|it| it.checkpoints.is_some());
    let found = checkpoints(samples).into_iter().flat_map(|it| {
        let ns = it.took_ms.map_or(it.to_ns - it.from_ns, |ms| ms * MILLISECOND_NS) as f64;
        let [from, to] = [it.from_ns, it.to_ns].map(|at_ns| at_ns as f64 / SECOND_NS as f64);
        [Point::new(from, ns), Point::new(to, ns), Point::gap(to)]
    });
    let mut points: Vec<_> = found.collect();
    if points.is_empty() && reported {
        points.push(Point::new(0.0, 0.0));
    }
    vec![Draft {
        title: "Checkpoints",
        caption: "As wide and as high as they are long.",
        series: vec![Series::line("checkpoint", 0, Stroke::Bold, points)],
        y: |high| Axis::span(high, "duration"),
    }]
}

fn journal(samples: &[ServerSample]) -> Vec<Draft> {
    let mean = each(samples, "mean sync", 0, (|it| it.journal_sync_us, |it| it.journal_syncs), 1e-3);
    vec![
        Draft {
            title: "Journal syncs",
            caption: "",
            series: vec![per_second(samples, "syncs", 0, |it| it.journal_syncs, 1.0)],
            y: |high| Axis::amount(high, "syncs a second"),
        },
        Draft {
            title: "Mean journal sync",
            caption: "A write with j: true waits for one.",
            series: vec![mean],
            y: |high| Axis::span(high, "duration"),
        },
    ]
}

fn replication(samples: &[ServerSample]) -> Vec<Draft> {
    let lag = gauge(samples, "lag", 0, |it| number(it.replication_lag_ms.map(|ms| ms * MILLISECOND_NS)));
    vec![
        Draft {
            title: "Flow control",
            caption: "Time that writes waited, all threads.",
            series: vec![
                per_second(samples, "waiting", 0, |it| it.flow_control_us, US_PER_MS),
                per_second(samples, "engaged", 1, |it| it.flow_control_lagged_us, US_PER_MS),
            ],
            y: |high| Axis::amount(high, "ms a second"),
        },
        Draft {
            title: "Replication lag",
            caption: "Of the majority, in whole seconds.",
            series: vec![lag],
            y: |high| Axis::span(high, "behind the primary"),
        },
    ]
}

fn disk(samples: &[ServerSample]) -> Vec<Draft> {
    let busy = per_second(samples, "busy", 0, |it| it.disk_busy_ms, 10.0);
    vec![
        Draft {
            title: "Written to disk",
            caption: "By the engine, its journal, the process.",
            series: vec![
                per_second(samples, "storage engine", 0, |it| it.disk_written_bytes, 1.0),
                per_second(samples, "journal", 1, |it| it.journal_bytes, 1.0),
                per_second(samples, "process", 2, |it| it.process_written_bytes, 1.0),
            ],
            y: |high| Axis::bytes(high, "bytes a second"),
        },
        Draft {
            title: "Read from disk",
            caption: "By the engine, and by the process.",
            series: vec![
                per_second(samples, "storage engine", 0, |it| it.disk_read_bytes, 1.0),
                per_second(samples, "process", 2, |it| it.process_read_bytes, 1.0),
            ],
            y: |high| Axis::bytes(high, "bytes a second"),
        },
        Draft {
            title: "Disk busy",
            caption: "Whoever kept it busy.",
            series: vec![busy],
            y: |high| Axis::amount(high.min(100.0), "% of the time"),
        },
    ]
}

fn clients(samples: &[ServerSample]) -> Vec<Draft> {
    vec![
        Draft {
            title: "Connections",
            caption: "Open, this tool's own included.",
            series: vec![gauge(samples, "open", 0, |it| number(it.connections))],
            y: |high| Axis::amount(high, "connections"),
        },
        Draft {
            title: "Network",
            caption: "",
            series: vec![
                per_second(samples, "received", 0, |it| it.network_in_bytes, 1.0),
                per_second(samples, "sent", 1, |it| it.network_out_bytes, 1.0),
            ],
            y: |high| Axis::bytes(high, "bytes a second"),
        },
        Draft {
            title: "Operations",
            caption: "As the server counts them.",
            series: vec![
                per_second(samples, "inserts", 0, |it| it.inserts, 1.0),
                per_second(samples, "queries", 1, |it| it.queries, 1.0),
                per_second(samples, "updates", 2, |it| it.updates, 1.0),
                per_second(samples, "deletes", 3, |it| it.deletes, 1.0),
                per_second(samples, "commands", 4, |it| it.commands, 1.0),
            ],
            y: |high| Axis::amount(high, "a second"),
        },
    ]
}

fn number(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// Bytes as a percentage of the cache.
fn of_cache(sample: &ServerSample, bytes: Option<u64>) -> Option<f64> {
    let most = sample.cache_bytes_max.filter(|most| *most > 0)?;
    Some(bytes? as f64 / most as f64 * 100.0)
}
