//! The ceiling of what is in flight binds, exactly.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_pipeline::{Control, Ended, Executor, Limits, Parts, Pipeline, Settings};

use crate::scripted::{Counting, Scripted};

#[test]
fn exactly_as_many_events_are_in_flight_as_the_ceiling_says() {
    for (ceiling, batch) in [(1800, 50), (1801, 50), (7, 50), (1, 1)] {
        let sink = Scripted::writing();
        sink.set_open(false);
        let parts = Parts {
            sources: vec![Box::new(Counting::new(10_000, batch))],
            transforms: Vec::new(),
            sink: Box::new(sink.clone()),
            dead_letters: None,
            positions: None,
        };
        let limits = Limits { events_max: ceiling, batch_events_max: batch, ..Limits::default() };
        let settings = Settings { limits, executor: Executor::Pool(3), ..Settings::default() };
        let pipeline = Pipeline::build(parts, settings, Arc::new(Control::default())).unwrap();
        let budget = pipeline.budget();
        let running = std::thread::spawn(move || pipeline.run().unwrap());
        while budget.in_flight().events < ceiling {
            std::thread::yield_now();
        }
        // The sink is shut: nothing may come in any more, however long the source tries.
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(budget.in_flight().events, ceiling);
        sink.set_open(true);
        assert_eq!(running.join().unwrap(), Ended::Exhausted);
        assert_eq!((budget.in_flight().events, budget.most().events), (0, ceiling));
        assert_eq!(sink.written().len(), 10_000);
    }
}
