//! Measures a generator without a real sink: the cost of the engine itself.

use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::sink::Noop;
use plimsoll_pipeline::source::{Generator, GeneratorSettings, Stop};
use plimsoll_pipeline::{Partition, Pipeline};

use crate::Failure;
use crate::plan::Plan;
use crate::row::{Bound, Goal, Of, Row, Turn};
use crate::running::{p999, parts, settings};
use crate::testbed::Testbed;

/// Events of a batch, and bytes of a payload.
const SHAPES: [(usize, usize); 4] = [(1000, 64), (1000, 512), (5000, 64), (100, 64)];

pub(crate) fn row(_: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let time = Duration::from_millis(plan.generator_ms);
    let goal = Goal {
        subject: 0,
        peer: 0,
        words: "5,000,000 events a second and core",
        of: Of::PerCpuS,
        bound: Bound::Least(5e6),
    };
    let row = Row::new("Generator → nowhere", "one source and one worker thread, at most once").goal(goal);
    let add = |row: Row, (batch, payload): (usize, usize)| {
        let name = format!("batches of {batch}, payloads of {payload} bytes");
        row.subject(name, move || measure(batch, payload, time))
    };
    Ok(Some(SHAPES.into_iter().fold(row, add)))
}

/// Measures a generator that stops by the clock, from its start to its end.
fn measure(batch: usize, payload_bytes: usize, time: Duration) -> Result<Turn, Failure> {
    let generator = generator(payload_bytes, Stop::Time(time));
    let parts = parts(generator, Vec::new(), Noop);
    let pipeline = Pipeline::build(parts, settings(Guarantee::AtMostOnce, batch), std::sync::Arc::default())?;
    let meter = pipeline.meter();
    let (begun, cpu_ns) = (clock::now(), clock::process_cpu_ns());
    pipeline.run()?;
    let (wall_ns, cpu_ns) = (clock::now().since(begun), clock::process_cpu_ns() - cpu_ns);
    let events = meter.counts().get(Count::Written);
    if events == 0 {
        Err("no event was moved".into())
    } else {
        Ok(Turn { events, wall_ns, cpu_ns, p999: p999(&meter), ..Turn::default() })
    }
}

/// A generator at full speed.
pub(crate) fn generator(payload_bytes: usize, stop: Stop) -> Generator {
    Generator::new(GeneratorSettings {
        partition: Partition::new("generated", 0),
        payload_bytes,
        key: None,
        rate_per_s: None,
        stop,
        resumes: false,
        seed: 1,
    })
}
