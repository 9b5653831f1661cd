//! A pipeline's line of each second.

use plimsoll_measure::stream::{Count, Second, Stage};

use crate::units;

/// What a pipeline did since `before`: in, processed, out, in flight, load, integrity, and how long delivery took.
pub fn line(before: &Second, now: &Second, delivery: Option<&Stage>) -> String {
    let rate = |count| units::exact(now.rate_since(before, count).round() as u64);
    let counts = now.all_counts();
    let mut words = format!(
        "{:>6.0} s  in {}/s  processed {}/s  out {}/s  in flight {} ({:.0} %)  load {:.0} %  integrity {:.2} %",
        now.elapsed_ns as f64 / 1e9,
        rate(Count::Read),
        rate(Count::Processed),
        rate(Count::Written),
        units::exact(now.in_flight_events),
        100.0 * now.fill(),
        100.0 * now.load_since(before),
        100.0 * counts.integrity(),
    );
    if let Some(stage) = delivery.filter(|stage| stage.events > 0) {
        words +=
            &format!("  delivery p50 {} p99 {}", units::latency(stage.p50_ns), units::latency(stage.p99_ns));
    }
    for (count, word) in [
        (Count::DeadLettered, "dead letters"),
        (Count::Denied, "denied"),
        (Count::Lost, "lost"),
        (Count::Replayed, "replayed"),
        (Count::Retries, "retries"),
    ] {
        if counts.get(count) > 0 {
            words += &format!("  {word} {}", units::exact(counts.get(count)));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrity_falls_below_100_percent_while_what_was_admitted_is_not_acknowledged() {
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
