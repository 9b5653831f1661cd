//! Renders a pipeline's line of each second.

use plimsoll_measure::stream::{Count, Second, Stage};

use crate::units;

/// The work of a pipeline since `before`: in, processed, out, in flight, load, integrity, loss and delivery time. A loss of
/// zero is printed too, because readers look for it.
pub fn line(before: &Second, now: &Second, delivery: Option<&Stage>) -> String {
    let rate = |count| units::exact(now.rate_since(before, count).round() as u64);
    let counts = now.all_counts();
    let mut words = format!(
        "{:>6.0} s  in {}/s  processed {}/s  out {}/s  in flight {} ({:.0} %)  load {:.0} %  integrity {:.2} %  lost {}",
        now.elapsed_ns as f64 / 1e9,
        rate(Count::Read),
        rate(Count::Processed),
        rate(Count::Written),
        units::exact(now.in_flight_events),
        100.0 * now.fill(),
        100.0 * now.load_since(before),
        100.0 * counts.integrity(),
        units::exact(counts.get(Count::Lost)),
    );
    if let Some(stage) = delivery.filter(|stage| stage.events > 0) {
        words += &times(stage);
    }
    for (count, word) in [
        (Count::DeadLettered, "dead letters"),
        (Count::Denied, "denied"),
        (Count::Replayed, "replayed"),
        (Count::Retries, "retries"),
    ] {
        if counts.get(count) > 0 {
            words += &format!("  {word} {}", units::exact(counts.get(count)));
        }
    }
    words
}

fn times(delivery: &Stage) -> String {
    let Stage { p50_ns, p95_ns, p99_ns, p999_ns, max_ns, .. } = *delivery;
    let [p50, p95, p99, p999, max] = [p50_ns, p95_ns, p99_ns, p999_ns, max_ns].map(units::latency);
    format!("  delivery p50 {p50} p95 {p95} p99 {p99} p99.9 {p999} max {max}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_rates_load_integrity_loss_and_every_quantile_of_delivery() {
        let counts = [
            ("read_events", 55_300),
            ("processed_events", 55_200),
            ("written_events", 55_100),
            ("admitted_events", 55_300),
            ("acknowledged_events", 55_300),
            ("worker_busy_ns", 3),
            ("worker_idle_ns", 1),
        ];
        let second = Second {
            elapsed_ns: 1_000_000_000,
            in_flight_events: 6_000,
            in_flight_events_max: 18_000,
            counts: counts.map(|(word, count)| (word.to_owned(), count)).into(),
            ..Second::default()
        };
        let delivery = Stage {
            events: 1,
            p50_ns: 1_000,
            p95_ns: 2_000,
            p99_ns: 3_000,
            p999_ns: 16_000,
            max_ns: 15_000_000,
            ..Stage::default()
        };
        let said = line(&Second::default(), &second, Some(&delivery));
        let times = [1_000, 2_000, 3_000, 16_000, 15_000_000].map(units::latency);
        let [p50, p95, p99, p999, max] = &times;
        let expected = format!(
            "1 s  in 55,300/s  processed 55,200/s  out 55,100/s  in flight 6,000 (33 %)  load 75 %  integrity 100.00 %  lost 0  \
             delivery p50 {p50} p95 {p95} p99 {p99} p99.9 {p999} max {max}"
        );
        assert_eq!(said.trim_start(), expected);
    }

    #[test]
    fn integrity_is_below_100_percent_while_admitted_events_are_not_acknowledged() {
        let second = |acknowledged: u64| {
            let counts =
                [("read_events", 110), ("admitted_events", 100), ("acknowledged_events", acknowledged)];
            let counts = counts.into_iter().map(|(word, count)| (word.to_owned(), count)).collect();
            Second {
                elapsed_ns: 1_000_000_000,
                in_flight_events: 100 - acknowledged,
                counts,
                ..Second::default()
            }
        };
        let said = |acknowledged| line(&Second::default(), &second(acknowledged), None);
        assert!(said(75).contains("integrity 75.00 %"), "{}", said(75));
        assert!(said(100).contains("integrity 100.00 %"), "{}", said(100));
    }
}
