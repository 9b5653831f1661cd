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
        100.0 * integrity_of_settled(now),
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

/// The share of the settled events that are durable: what is in flight is neither lost nor kept yet.
fn integrity_of_settled(now: &Second) -> f64 {
    let counts = now.all_counts();
    let durable = counts.get(Count::Written) + counts.get(Count::DeadLettered);
    let settled = durable + counts.get(Count::Lost);
    if settled == 0 { 1.0 } else { durable as f64 / settled as f64 }
}
