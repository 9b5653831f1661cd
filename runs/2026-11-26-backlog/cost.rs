//! Measures the CPU per operation of the engine.
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Progress};
use plimsoll_load::phase::*;
use plimsoll_load::retry::Retry;
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_load::worker::Control;
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::Reply;
use std::error::Error;
use std::sync::Arc;
struct Null;
impl Target for Null {
    type Lane = ();
    fn begin(&self, _: Option<u64>) {}
    async fn open(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
    fn prepare(&self, _: &mut (), _: usize, _: u64) -> Prepared {
        Prepared::Ready
    }
    async fn send(&self, _: &mut ()) -> Reply {
        Reply::acknowledged(1)
    }
    fn discard(&self, _: &mut ()) {}
    fn tick(&self) {}
    fn is_broken(&self, _: &()) -> bool {
        false
    }
    async fn settle(&self, _: &mut ()) {}
}
fn main() {
    let rate: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let connections: u32 = std::env::args().nth(2).unwrap().parse().unwrap();
    let load = Load {
        mix_by: Default::default(),
        name: "l".into(),
        mix: vec![(0, 1.0)],
        arrivals: Arrivals::Poisson { rate, connections },
        connections: Default::default(),
        overdue: Overdue::Send,
        documents: Documents::Made,
        timing: Timing::default(),
        tags: Default::default(),
    };
    let phase = Phase {
        name: "p".into(),
        key: None,
        loads: vec![load],
        stop: Stop { duration: Some(Span::from_secs(5)), ..Stop::default() },
        drain: DRAIN,
        unreachable_for: UNREACHABLE_FOR,
        seed: 1,
        faults: Vec::new(),
        retry: Retry::None,
        limits: Vec::new(),
    };
    for _ in 0..3 {
        let targets = vec![Arc::new(Null), Arc::new(Null)];
        let mut engine = Engine::new(targets, 1, Share::WHOLE, Spin::Off).unwrap();
        let (mut cpu, mut count, mut wait) = (0u64, 0u64, 0u64);
        engine
            .run(&phase, &Control::default(), &mut [], |progress| {
                if let Progress::Second(second) = progress {
                    cpu += second.cpu_ns.iter().sum::<u64>();
                    count += second.tallies.iter().map(|it| it.count).sum::<u64>();
                    wait = wait.max(second.tallies.first().map_or(0, |it| it.wait.at(99.0)));
                }
            })
            .unwrap();
        println!("{} ns CPU an operation, {count} operations, p99 wait {wait} ns", cpu / count);
    }
}
