//! Renders a pipeline's summary at its end.

use plimsoll_measure::stream::{Count, Counts, DeliveryClock, Process, Stage, Stream};

use crate::layout::{Document, Screen, bullets, titled};
use crate::tables::{Cell, Table, Tone};
use crate::units::{bytes, duration, exact, latency, or_dash, reported, three_digits};

/// The files and the continuation of a pipeline's run.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// The directory of the run.
    pub directory: &'a str,
    /// The command that helps most after the run.
    pub next: &'a str,
}

/// The summary of a pipeline for `screen`, with a line feed at its end.
pub fn summary(stream: &Stream, ending: Ending<'_>, screen: Screen) -> String {
    let counts = stream.last.all_counts();
    let seconds = stream.last.elapsed_ns as f64 / 1e9;
    let mut document = Document::new(screen);
    document.title(&stream.name, &[stream.path.join(" → "), stream.guarantee.clone()]);
    document.verdict(
        (&format!("{}{} after {}", failed(stream), stream.ended, duration(seconds)), tone(stream)),
        &stream.failure,
    );
    let events = titled(&events(&counts, seconds), screen);
    document.section(events.into_iter().chain(bullets(&remarks(&counts), screen.width)));
    document.table(&texts(&counts));
    let times = titled(&times(&stream.last.stages), screen);
    document.section(times.into_iter().chain(bullets(&clock_remarks(&counts), screen.width)));
    document.table(&cost(&stream.last.process, stream.last.elapsed_ns, counts.get(Count::Read)));
    let Ending { directory, next } = ending;
    // A path is never cut: the user copies it.
    document.section([format!("Data  {directory}/pipeline.json"), format!("Next  {next}")]);
    document.finish()
}

/// The tone of a pipeline's end.
fn tone(stream: &Stream) -> Tone {
    match stream.ended.as_str() {
        ended if ended == "failed" || stream.is_fruitless() => Tone::Bad,
        "aborted" => Tone::Doubtful,
        _ => Tone::Good,
    }
}

/// The word `FAIL` before the kind of end, if the pipeline ended gracefully without success; otherwise nothing.
fn failed(stream: &Stream) -> &'static str {
    if stream.is_fruitless() { "FAIL, " } else { "" }
}

/// The fates of the events.
fn events(counts: &Counts, seconds: f64) -> Table {
    let fates = [
        ("read", counts.get(Count::Read)),
        ("written", counts.get(Count::Written)),
        ("replayed", counts.get(Count::Replayed)),
        ("filtered out", counts.get(Count::Filtered)),
        ("dead letters", counts.get(Count::DeadLettered)),
        ("lost", counts.get(Count::Lost)),
        ("left to others", counts.get(Count::Left)),
    ];
    let rate = |count: u64| exact((count as f64 / seconds.max(1e-9)).round() as u64);
    Table::of("Events", fates)
        .left("", |(fate, _)| Cell::strong(fate))
        .right("count", |(fate, count)| if fate == "lost" { Cell::fault(count) } else { exact(count).into() })
        .right("events/s", |(_, count)| rate(count))
        .table()
}

/// Sentences about events with an unusual fate.
fn remarks(counts: &Counts) -> Vec<String> {
    let denied = counts.get(Count::Denied);
    let open = counts.get(Count::Read).saturating_sub(counts.settled());
    let denied = (denied > 0)
        .then(|| format!("{} denied by the security stage; they are among the dead letters", exact(denied)));
    let open = (open > 0).then(|| format!("{} not settled: the next run reads them again", exact(open)));
    denied.into_iter().chain(open).collect()
}

/// The fate of embedded texts. Their rate means nothing without their length, and a truncated text has an incomplete vector.
fn texts(counts: &Counts) -> Table {
    let [texts, tokens, cut] = [Count::Texts, Count::Tokens, Count::Truncated].map(|count| counts.get(count));
    let mean = || format!("{} of {:.1} tokens on average", exact(texts), tokens as f64 / texts as f64);
    let share = || {
        format!("{}, {:.2} % were longer than the model reads", exact(cut), 100.0 * cut as f64 / texts as f64)
    };
    let facts =
        vec![("embedded", (texts > 0).then(|| mean().into())), ("cut", (texts > 0).then(|| share().into()))];
    Table::of_facts("Texts", facts)
}

/// The times of events at each stage.
fn times(stages: &[Stage]) -> Table {
    Table::of("Times of events", stages.iter().filter(|stage| stage.events > 0))
        .left("stage", |stage| Cell::strong(stage.name.as_str()))
        .right("p50", |stage| latency(stage.p50_ns))
        .right("p95", |stage| latency(stage.p95_ns))
        .right("p99", |stage| latency(stage.p99_ns))
        .right("p99.9", |stage| latency(stage.p999_ns))
        .right("max", |stage| latency(stage.max_ns))
        .table()
}

/// The clocks between which delivery is measured, if there are two.
fn clock_remarks(counts: &Counts) -> Vec<String> {
    let from = counts.delivery_clock().map(|clock| match clock {
        DeliveryClock::Producer => "the producer's clock (as Kafka's CreateTime)",
        DeliveryClock::Source => "the clock of the source's system (as Kafka's LogAppendTime)",
        DeliveryClock::Several => "several clocks, of producers and of the source's system",
    });
    let clock = from.map(|from| {
        format!("delivery lasts from {from} to this machine's: it is wrong by the difference of these clocks")
    });
    let ahead = Some(counts.get(Count::ClockAhead)).filter(|ahead| *ahead > 0).map(|ahead| {
        format!(
            "warning: {} written events have a later time than their acknowledgement, and count as 0 in delivery: synchronise \
             the clocks, or set message.timestamp.type=LogAppendTime on the topic",
            exact(ahead)
        )
    });
    clock.into_iter().chain(ahead).collect()
}

/// The resources of the process.
fn cost(process: &Process, elapsed_ns: u64, read: u64) -> Table {
    let cores = three_digits(process.cpu_ns as f64 / elapsed_ns.max(1) as f64);
    let each = (read > 0).then(|| process.cpu_ns as f64 / read as f64);
    let memory = Some(process.resident_bytes).filter(|bytes| *bytes > 0);
    let facts = vec![
        ("CPU", Some(format!("{cores} cores").into())),
        ("CPU/event", Some(or_dash(each, |ns| latency(ns.round() as u64)).into())),
        ("memory", Some(reported(memory, bytes).into())),
    ];
    Table::of_facts("Cost", facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_fits;

    const ENDING: Ending<'static> =
        Ending { directory: "plimsoll-runs/a", next: "plimsoll pipeline audit orders.yaml" };

    fn stage(name: &str, p50_ns: u64) -> Stage {
        let [p95_ns, p99_ns, p999_ns, max_ns] = [2, 4, 8, 10].map(|times| p50_ns * times);
        Stage { name: name.into(), events: 1_010, p50_ns, p95_ns, p99_ns, p999_ns, max_ns }
    }

    fn moved() -> Stream {
        let mut stream = Stream {
            name: "orders".into(),
            path: ["kafka", "security", "mongodb_insert"].map(str::to_owned).into(),
            guarantee: "effectively-once".into(),
            ended: "finished".into(),
            ..Stream::default()
        };
        for (count, value) in [
            (Count::Read, 1_010),
            (Count::Written, 993),
            (Count::Denied, 12),
            (Count::DeadLettered, 12),
            (Count::Replayed, 3),
        ] {
            stream.last.counts.insert(count.word().into(), value);
        }
        stream.last.elapsed_ns = 2_000_000_000;
        stream.last.stages = vec![stage("queue", 50_000), stage("delivery", 1_270_000), Stage::default()];
        stream.last.process = Process { cpu_ns: 500_000_000, resident_bytes: 41_943_040, threads: 7 };
        stream
    }

    #[test]
    fn a_pipeline_is_summed_up() {
        let expected = "\
orders
kafka → security → mongodb_insert · effectively-once

finished after 2.00 s

Events
                  count  events/s
  read            1,010       505
  written           993       497
  replayed            3         2
  filtered out        0         0
  dead letters       12         6
  lost                0         0
  left to others      0         0
  • 12 denied by the security stage; they are among the dead letters
  • 5 not settled: the next run reads them again

Times of events
  stage         p50      p95      p99    p99.9      max
  queue     50.0 µs   100 µs   200 µs   400 µs   500 µs
  delivery  1.27 ms  2.54 ms  5.08 ms  10.2 ms  12.7 ms

Cost
  CPU        0.25 cores
  CPU/event  495 µs
  memory     40.0 MiB

Data  plimsoll-runs/a/pipeline.json
Next  plimsoll pipeline audit orders.yaml
";
        let found = summary(&moved(), ENDING, Screen::PIPE);
        assert_eq!(found, expected, "found:\n{found}");
    }

    #[test]
    fn delivery_names_its_clock_and_warns_of_events_from_the_future() {
        let said = |pairs: &[(Count, u64)]| {
            let mut stream = moved();
            for (count, value) in pairs {
                stream.last.counts.insert(count.word().into(), *value);
            }
            summary(&stream, ENDING, Screen::PIPE)
        };
        let producer = said(&[(Count::ProducerClock, 993)]);
        assert!(producer.contains("12.7 ms\n  • delivery lasts from the producer's clock"), "{producer}");
        assert!(!producer.contains("warning"), "{producer}");
        let source = said(&[(Count::SourceClock, 993)]);
        assert!(source.contains("from the clock of the source's system"), "{source}");
        let ahead = said(&[(Count::ProducerClock, 993), (Count::ClockAhead, 12)]);
        assert!(ahead.contains("  • warning: 12 written events have a later time"), "{ahead}");
        assert!(!said(&[]).contains("clock"), "one clock needs no remark");
    }

    #[test]
    fn a_failure_stands_under_the_end_of_the_pipeline() {
        let failure = Some("the sink is away".to_owned());
        let failed = Stream { ended: "failed".into(), failure, ..moved() };
        let found = summary(&failed, ENDING, Screen::PIPE);
        assert!(found.contains("\nfailed after 2.00 s\n  • the sink is away\n"), "{found}");
    }

    #[test]
    fn a_pipeline_without_a_success_fails() {
        let mut stream = moved();
        for count in [Count::Written, Count::Filtered] {
            stream.last.counts.insert(count.word().into(), 0);
        }
        let found = summary(&stream, ENDING, Screen::PIPE);
        assert!(found.contains("\nFAIL, finished after 2.00 s\n"), "{found}");
    }

    #[test]
    fn a_summary_fits_every_screen() {
        let mut stream = moved();
        for count in Count::ALL {
            stream.last.counts.insert(count.word().into(), 1_234_567_890);
        }
        stream.path =
            ["mongodb_change_stream", "security", "filter", "map", "embed", "mongodb_transactional"]
                .map(str::to_owned)
                .into();
        stream.failure =
            Some("the sink failed for good: 10 attempts to write to shop.orders_of_the_year failed".into());
        stream.last.stages.push(stage("a transform with a long name", 90_000_000_000));
        assert_fits(|screen| summary(&stream, ENDING, screen));
    }

    #[test]
    fn the_summary_has_the_length_of_texts_and_the_share_of_cut_ones() {
        let mut stream = Stream { name: "vectors".into(), ..Stream::default() };
        let said = |stream: &Stream| summary(stream, ENDING, Screen::PIPE);
        assert!(!said(&stream).contains("tokens"), "a pipeline without texts has no such section");
        for (word, count) in [("embedded_texts", 1000), ("embedded_tokens", 16_500), ("truncated_texts", 25)]
        {
            stream.last.counts.insert(word.into(), count);
        }
        let said = said(&stream);
        assert!(said.contains("1,000 of 16.5 tokens on average"), "{said}");
        assert!(said.contains("25, 2.50 % were longer than the model reads"), "{said}");
    }
}
