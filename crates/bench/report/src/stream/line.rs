//! Renders a pipeline's line of each second.

use plimsoll_measure::stream::{Count, DeliveryClock, Second, Stage};

use crate::layout::{Width, wrap};
use crate::units;

/// The indentation of a part of a line, and of a message below a line.
const CONTINUED: &str = "          ";
/// The blanks between two fields.
const BETWEEN: &str = "  ";

/// The work of a pipeline since `before`: in, processed, out, in flight, load, integrity, loss and delivery time. A loss of
/// zero is printed too, because readers look for it. The line is broken between two fields to fit `width`.
pub fn line(before: &Second, now: &Second, delivery: Option<&Stage>, width: Width) -> String {
    let mut fields = vec![format!("{:>6.0} s", now.elapsed_ns as f64 / 1e9)];
    fields.extend(work(before, now));
    let name = delivery_name(now);
    fields.extend(delivery.filter(|stage| stage.events > 0).into_iter().flat_map(|stage| times(name, stage)));
    fields.extend(exceptions(now));
    broken(&fields, width)
}

/// The failure under retry, if it is new since `before`. It is broken at `width`.
pub fn trouble(before: &Second, now: &Second, width: Width) -> Option<String> {
    let trouble = now.trouble.as_ref().filter(|_| before.trouble != now.trouble)?;
    Some(wrap(&format!("{trouble}; retrying"), CONTINUED, width).join("\n"))
}

/// The fields in as many lines as `width` needs.
fn broken(fields: &[String], width: Width) -> String {
    let mut lines: Vec<String> = Vec::new();
    for field in fields {
        let longer = |line: &str| line.chars().count() + BETWEEN.len() + field.chars().count();
        match lines.last_mut() {
            Some(line) if longer(line) <= width.0 => *line += &format!("{BETWEEN}{field}"),
            Some(_) => lines.push(format!("{CONTINUED}{field}")),
            None => lines.push(field.clone()),
        }
    }
    lines.join("\n")
}

fn work(before: &Second, now: &Second) -> [String; 7] {
    let rate = |count| units::exact(now.rate_since(before, count).round() as u64);
    let counts = now.all_counts();
    [
        format!("in {}/s", rate(Count::Read)),
        format!("processed {}/s", rate(Count::Processed)),
        format!("out {}/s", rate(Count::Written)),
        format!("in flight {} ({:.0} %)", units::exact(now.in_flight_events), 100.0 * now.fill()),
        format!("load {:.0} %", 100.0 * now.load_since(before)),
        format!("integrity {:.2} %", 100.0 * counts.integrity()),
        format!("lost {}", units::exact(counts.get(Count::Lost))),
    ]
}

/// The name of the delivery time, with the clock from which it counts unless that is this machine's.
fn delivery_name(now: &Second) -> &'static str {
    match now.all_counts().delivery_clock() {
        None => "delivery p50",
        Some(DeliveryClock::Producer) => "delivery by producer clock p50",
        Some(DeliveryClock::Source) => "delivery by source clock p50",
        Some(DeliveryClock::Several) => "delivery by several clocks p50",
    }
}

fn times(name: &'static str, delivery: &Stage) -> [String; 5] {
    let Stage { p50_ns, p95_ns, p99_ns, p999_ns, max_ns, .. } = *delivery;
    [(name, p50_ns), ("p95", p95_ns), ("p99", p99_ns), ("p99.9", p999_ns), ("max", max_ns)]
        .map(|(name, ns)| format!("{name} {}", units::latency(ns)))
}

/// Counters that are usually zero.
fn exceptions(now: &Second) -> impl Iterator<Item = String> {
    let counts = [
        (Count::DeadLettered, "dead letters"),
        (Count::Denied, "denied"),
        (Count::Replayed, "replayed"),
        (Count::Retries, "retries"),
        (Count::ClockAhead, "ahead of this clock"),
    ];
    let counts = counts.map(|(count, word)| (now.count(count), word));
    counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{word} {}", units::exact(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of a busy pipeline, and its delivery times.
    fn busy() -> (Second, Stage) {
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
        (second, delivery)
    }

    #[test]
    fn the_line_has_rates_load_integrity_loss_and_every_quantile_of_delivery() {
        let (second, delivery) = busy();
        let said = line(&Second::default(), &second, Some(&delivery), Width::ENDLESS);
        let times = [1_000, 2_000, 3_000, 16_000, 15_000_000].map(units::latency);
        let [p50, p95, p99, p999, max] = &times;
        let expected = format!(
            "1 s  in 55,300/s  processed 55,200/s  out 55,100/s  in flight 6,000 (33 %)  load 75 %  integrity 100.00 %  lost 0  \
             delivery p50 {p50}  p95 {p95}  p99 {p99}  p99.9 {p999}  max {max}"
        );
        assert_eq!(said.trim_start(), expected);
    }

    #[test]
    fn delivery_names_the_clock_from_which_it_counts_and_events_from_the_future_are_counted() {
        let (mut second, delivery) = busy();
        second.counts.extend([("producer_clock_events", 55_100), ("clock_ahead_events", 7)].map(owned));
        let said = line(&Second::default(), &second, Some(&delivery), Width::ENDLESS);
        assert!(said.contains("delivery by producer clock p50 1.00 µs"), "{said}");
        assert!(said.ends_with("ahead of this clock 7"), "{said}");
    }

    fn owned((word, count): (&str, u64)) -> (String, u64) {
        (word.to_owned(), count)
    }

    #[test]
    fn on_a_terminal_the_line_is_broken_between_fields() {
        let (mut second, delivery) = busy();
        let expected = "     1 s  in 55,300/s  processed 55,200/s  out 55,100/s
          in flight 6,000 (33 %)  load 75 %
          integrity 100.00 %  lost 0  delivery p50 1.00 µs
          p95 2.00 µs  p99 3.00 µs  p99.9 16.0 µs
          max 15.0 ms";
        assert_eq!(line(&Second::default(), &second, Some(&delivery), Width(60)), expected);
        for count in Count::ALL {
            second.counts.insert(count.word().into(), 1_234_567_890);
        }
        for width in [60, 80, 100, 140] {
            let said = line(&Second::default(), &second, Some(&delivery), Width(width));
            assert!(said.lines().all(|line| line.chars().count() <= width), "{width}: {said}");
            let whole = line(&Second::default(), &second, Some(&delivery), Width::ENDLESS);
            assert_eq!(
                said.split_whitespace().collect::<Vec<_>>(),
                whole.split_whitespace().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_failure_is_printed_once_with_its_reason_and_fits_the_terminal() {
        let reason =
            "group \"archive\" has not assigned partitions of \"orders\" yet: it waits for its other members";
        let second =
            |trouble: Option<&str>| Second { trouble: trouble.map(str::to_owned), ..Second::default() };
        let (quiet, waiting) = (second(None), second(Some(reason)));
        assert_eq!(trouble(&quiet, &waiting, Width::ENDLESS), Some(format!("          {reason}; retrying")));
        assert_eq!(trouble(&waiting, &waiting, Width::ENDLESS), None);
        assert_eq!(trouble(&waiting, &quiet, Width::ENDLESS), None);
        let said = trouble(&quiet, &waiting, Width(60)).unwrap();
        assert!(
            said.lines().all(|line| line.chars().count() <= 60 && line.starts_with("          ")),
            "{said}"
        );
        assert!(said.ends_with("retrying"), "{said}");
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
        let said = |acknowledged| line(&Second::default(), &second(acknowledged), None, Width::ENDLESS);
        assert!(said(75).contains("integrity 75.00 %"), "{}", said(75));
        assert!(said(100).contains("integrity 100.00 %"), "{}", said(100));
    }
}
