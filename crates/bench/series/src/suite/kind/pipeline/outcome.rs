//! Extracts the outcome and the figures of a pipeline run.

use plimsoll_measure::stream::{Count, Stream};
use plimsoll_measure::suite::Measured;

use crate::suite::kind::Ended;

/// The result of a run, from its summary.
pub fn ended(stream: &Stream) -> Ended {
    let (last, ended) = (&stream.last, stream.ended.as_str());
    let left = last.count(Count::DeadLettered) + last.count(Count::Lost);
    Ended {
        measured: Some(measured(stream)),
        interrupted: ["aborted", "drained"].contains(&ended),
        intact: ["exhausted", "finished"].contains(&ended) && left == 0,
        reasons: stream.failure.iter().cloned().collect(),
    }
}

/// The figures of a run. The rate counts only the time while events moved. Only an audit would know the lost
/// events.
fn measured(stream: &Stream) -> Measured {
    let (last, written) = (&stream.last, stream.last.count(Count::Written));
    let delivery = last.stages.last().filter(|stage| stage.events > 0);
    let moved_ns = stream.moved.map_or(last.elapsed_ns, |moved| moved.span_ns());
    Measured {
        unit: "events".to_owned(),
        rate_per_s: written as f64 * 1e9 / moved_ns.max(1) as f64,
        total: written,
        p50_ns: delivery.map(|stage| stage.p50_ns),
        p99_ns: delivery.map(|stage| stage.p99_ns),
        p99_9_ns: delivery.map(|stage| stage.p999_ns),
        max_ns: delivery.map(|stage| stage.max_ns),
        errors: last.count(Count::DeadLettered) + last.count(Count::Lost),
        lost: None,
        client_cpu_us: (written > 0).then(|| last.process.cpu_ns as f64 / 1e3 / written as f64),
        server_cpu_us: None,
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::stream::{Moved, Process, Second, Stage};

    use super::*;

    #[test]
    fn a_pipeline_measures_its_written_events_and_their_delivery() {
        let counts = [("written_events", 4_000), ("dead_letter_events", 3)];
        let last = Second {
            elapsed_ns: 5_000_000_000,
            counts: counts.map(|(word, count)| (word.to_owned(), count)).into(),
            stages: vec![Stage { name: "delivery".into(), events: 4_000, p50_ns: 5, ..Stage::default() }],
            process: Process { cpu_ns: 8_000_000, ..Process::default() },
            ..Second::default()
        };
        let moved = Some(Moved { from_ns: 1_000_000_000, to_ns: 3_000_000_000 });
        let stream = Stream { ended: "finished".into(), last, moved, ..Stream::default() };
        let whole = ended(&stream);
        let it = whole.measured.unwrap();
        assert_eq!((it.unit.as_str(), it.total, it.errors, it.lost), ("events", 4_000, 3, None));
        assert_eq!((it.rate_per_s, it.p50_ns, it.client_cpu_us), (2_000.0, Some(5), Some(2.0)));
        assert!(!whole.interrupted && !whole.intact && whole.reasons.is_empty(), "there are dead letters");
        assert!(ended(&Stream { ended: "drained".into(), ..stream.clone() }).interrupted);
        assert_eq!(measured(&Stream { moved: None, ..stream }).rate_per_s, 800.0);
        let idle = Stream { ended: "exhausted".into(), ..Stream::default() };
        assert!(ended(&idle).intact);
        let idle = measured(&idle);
        assert_eq!((idle.rate_per_s, idle.p50_ns, idle.client_cpu_us), (0.0, None, None));
    }
}
