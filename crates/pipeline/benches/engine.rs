//! What the engine itself costs: events a second from a generator to nowhere, by batch and payload.
//!
//! Goal: 5 million events a second and core. Not a goal: what a source or a sink of the outside costs. Cores are CPU time of
//! the process ÷ wall time, so a result does not hide behind a second thread. Run small with `--test`.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::sink::Noop;
use plimsoll_pipeline::source::{Generator, GeneratorSettings, Stop};
use plimsoll_pipeline::{Executor, Limits, Partition, Parts, Pipeline, Settings};

const ROUNDS: usize = 5;

fn main() {
    let small = std::env::args().any(|word| word == "--test");
    let (rounds, time) =
        if small { (1, Duration::from_millis(50)) } else { (ROUNDS, Duration::from_secs(2)) };
    println!("generator to noop, one source and one worker thread; median (least to most) of {rounds}");
    println!("{:>8} {:>8} {:>34} {:>28}", "batch", "payload", "million events/s", "million events/s/core");
    for (batch, payload) in [(1000, 64), (1000, 512), (5000, 64), (100, 64)] {
        let results: Vec<_> = (0..rounds).map(|_| measure(batch, payload, time)).collect();
        let wall = spread(results.iter().map(|(wall, _)| *wall).collect());
        let core = spread(results.iter().map(|(_, core)| *core).collect());
        println!("{batch:>8} {payload:>8} {wall:>34} {core:>28}");
    }
}

/// Millions of events a second, and a second and core.
fn measure(batch: usize, payload_bytes: usize, time: Duration) -> (f64, f64) {
    let generator = Generator::new(GeneratorSettings {
        partition: Partition::new("bench", 0),
        payload_bytes,
        key: None,
        rate_per_s: None,
        stop: Stop::Time(time),
        resumes: false,
        seed: 1,
    });
    let parts = Parts {
        sources: vec![Box::new(generator)],
        transforms: Vec::new(),
        sink: Box::new(Noop),
        dead_letters: None,
        positions: None,
    };
    let limits = Limits { batch_events_max: batch, events_max: 20 * batch, ..Limits::default() };
    let settings = Settings {
        guarantee: Guarantee::AtMostOnce,
        limits,
        executor: Executor::Pool(1),
        ..Settings::default()
    };
    let pipeline = Pipeline::build(parts, settings, Arc::default()).expect("the parts fit");
    let meter = pipeline.meter();
    let (begun, cpu) = (clock::now(), clock::process_cpu_ns());
    pipeline.run().expect("nothing can fail");
    let (wall_ns, cpu_ns) = (clock::now().since(begun), clock::process_cpu_ns() - cpu);
    let events = meter.counts().get(Count::Written) as f64;
    assert!(events > 0.0, "events were moved");
    (events * 1000.0 / wall_ns as f64, events * 1000.0 / cpu_ns as f64)
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    format!("{median:.2} ({:.2} to {:.2})", values[0], values[values.len() - 1])
}
