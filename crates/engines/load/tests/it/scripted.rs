//! Provides a target with scripted answers.

use std::error::Error;
use std::sync::{Arc, Mutex};

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Collector, Second};
use plimsoll_load::mix::scramble;
use plimsoll_load::phase::{Load, Phase};
use plimsoll_load::runtime::{Runtime, Simulated};
use plimsoll_load::stop::Stop;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_load::worker::{self, Backlogs, Control, Ended, Order, Supply};
use plimsoll_measure::clock::Instant;
use plimsoll_measure::interval::{Reply, Tally};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

/// Bytes of an operation, and of its answer.
pub const SENT: u64 = 100;
pub const RECEIVED: u64 = 7;
/// Chooses the slow operations.
const SLOW_SEED: u64 = 5;

/// The behaviour of the scripted server.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The time of each operation.
    pub service_ns: u64,
    /// The time of an exclusive operation, one at a time; zero for parallel operations.
    pub turn_ns: u64,
    /// The time range without answers, in nanoseconds from the start.
    pub frozen: (u64, u64),
    /// The time range in which connections are cut and refused.
    pub down: (u64, u64),
    /// The time of opening a connection within an operation.
    pub handshake_ns: u64,
    /// The time that one operation in 100 takes; zero for none. It follows from the operation's number.
    pub slow_ns: u64,
}

impl Script {
    /// Answers after `service_ns` at any load.
    pub const fn steady(service_ns: u64) -> Self {
        Self { service_ns, turn_ns: 0, frozen: (0, 0), down: (0, 0), handshake_ns: 0, slow_ns: 0 }
    }
}

/// A server of one virtual clock, shared by its lanes.
pub struct Scripted {
    clock: Simulated,
    script: Script,
    free_at: Mutex<Instant>,
    documents_left: Mutex<Option<u64>>,
    /// Plan-wide numbers of the operations in the order they were sent.
    pub sent: Mutex<Vec<u64>>,
    /// The operations with the moments of their sending, in nanoseconds from the start.
    pub moments: Mutex<Vec<(usize, u64)>>,
    /// Operations that were prepared and discarded.
    pub discarded: Mutex<u64>,
    /// Connections opened within operations.
    pub dialled: Mutex<u64>,
}

/// One connection.
#[derive(Default)]
pub struct Lane {
    number: u64,
    operation: usize,
    makes: bool,
    broken: bool,
    hung_up: bool,
}

impl Scripted {
    pub fn new(clock: &Simulated, script: Script) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            script,
            free_at: Mutex::default(),
            documents_left: Mutex::default(),
            sent: Mutex::default(),
            moments: Mutex::default(),
            discarded: Mutex::default(),
            dialled: Mutex::default(),
        })
    }

    fn is_down(&self) -> bool {
        let (from, until) = self.script.down;
        (from..until).contains(&self.clock.now().as_ns())
    }

    fn answer_at(&self, number: u64) -> Instant {
        let now = self.clock.now();
        let mut free_at = self.free_at.lock().unwrap();
        let done = now.max(*free_at) + self.script.turn_ns;
        *free_at = done;
        let is_slow = self.script.slow_ns > 0 && scramble(SLOW_SEED, number).is_multiple_of(100);
        let done = done + if is_slow { self.script.slow_ns } else { self.script.service_ns };
        let (from, until) = self.script.frozen;
        if (from..until).contains(&done.as_ns()) { Instant::from_ns(until) } else { done }
    }
}

impl Target for Scripted {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        *self.documents_left.lock().unwrap() = documents;
    }

    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        if self.is_down() { Err("refused".into()) } else { Ok(Lane::default()) }
    }

    /// Operation 0 makes a document, every other operation uses some.
    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        lane.number = number;
        lane.operation = operation;
        lane.makes = operation == 0;
        if lane.makes {
            let mut left = self.documents_left.lock().unwrap();
            if *left == Some(0) {
                return Prepared::Exhausted;
            }
            *left = left.map(|left| left - 1);
        }
        Prepared::Ready
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        self.sent.lock().unwrap().push(lane.number);
        self.moments.lock().unwrap().push((lane.operation, self.clock.now().as_ns()));
        if std::mem::take(&mut lane.hung_up) {
            self.clock.until(self.clock.now() + self.script.handshake_ns).await;
            if self.is_down() {
                lane.hung_up = true;
                return Reply::failed(Outcome::Rejected(Rejection::NotTried), 1);
            }
            *self.dialled.lock().unwrap() += 1;
        }
        self.clock.until(self.answer_at(lane.number)).await;
        if self.is_down() {
            lane.broken = true;
            return Reply { bytes_sent: SENT, ..Reply::failed(Outcome::Unknown(Doubt::ConnectionLost), 1) };
        }
        Reply { bytes_sent: SENT, bytes_received: RECEIVED, ..Reply::acknowledged(u64::from(lane.makes)) }
    }

    fn discard(&self, lane: &mut Lane) {
        *self.discarded.lock().unwrap() += 1;
        if lane.makes {
            let mut left = self.documents_left.lock().unwrap();
            *left = left.map(|left| left + 1);
        }
    }

    fn carry(&self, lost: &mut Lane, fresh: &mut Lane) -> bool {
        *fresh = Lane { broken: false, ..std::mem::take(lost) };
        true
    }

    fn hang_up(&self, lane: &mut Lane) {
        (lane.hung_up, lane.broken) = (true, false);
    }

    fn tick(&self) {}

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.broken
    }

    async fn settle(&self, _lane: &mut Lane) {}
}

/// A phase of one load.
pub fn phase(arrivals: Arrivals, stop: Stop) -> Phase {
    Phase::new(Load::new("load", arrivals), stop)
}

/// The results of a simulated phase.
pub struct Outcomes {
    pub whole: Tally,
    pub seconds: Vec<Second>,
    pub ended: Ended,
    pub to_ns: u64,
    pub target: Arc<Scripted>,
}

/// Runs one worker's share of a phase on a virtual clock.
pub fn simulate(phase: Phase, script: Script, share: Share) -> Outcomes {
    simulate_with(phase, script, share, Control::default(), None)
}

/// As [`simulate`], with a stop at `stop_at`.
pub fn simulate_with(
    phase: Phase,
    script: Script,
    share: Share,
    control: Control,
    stop_at: Option<Instant>,
) -> Outcomes {
    let clock = Simulated::default();
    let target = Scripted::new(&clock, script);
    let (supply, backlogs) = (Arc::new(Supply::of(1)), alone(&phase, share));
    let (phase, start) = (Arc::new(phase), Instant::default());
    let order = Order { phase, operations: 1, share, start, supply, backlogs };
    let slices = Arc::new(Mutex::new(Vec::new()));
    let (sink, inside, shared) = (slices.clone(), clock.clone(), target.clone());
    let end = clock.run(async move {
        if let Some(at) = stop_at {
            let (clock, control) = (inside.clone(), control.clone());
            inside.spawn(async move {
                clock.until(at).await;
                control.stop();
            });
        }
        worker::run(inside, shared, Vec::new(), order, control, move |slice| sink.lock().unwrap().push(slice))
            .await
    });
    let mut collector = Collector::new(1);
    let mut seconds = Vec::new();
    for slice in std::mem::take(&mut *slices.lock().unwrap()) {
        collector.add(0, slice);
        seconds.extend(collector.complete());
    }
    seconds.extend(collector.finish());
    let mut whole = Tally::default();
    seconds.iter().flat_map(|second| &second.tallies).for_each(|tally| whole.merge(tally));
    Outcomes { whole, seconds, ended: end.ended, to_ns: end.to_ns, target }
}

/// The backlogs of a process with one worker.
pub fn alone(phase: &Phase, share: Share) -> Arc<Backlogs> {
    Arc::new(Backlogs::shared(phase, [share].into_iter()))
}

/// Runs the shares of `workers` workers in parallel on one virtual clock; returns the results of each
/// operation, and the reason and time of each worker's end.
pub fn simulate_all(
    phase: Phase,
    script: Script,
    workers: u64,
    operations: usize,
) -> (Vec<Tally>, Vec<(Ended, u64)>) {
    let clock = Simulated::default();
    let phase = Arc::new(phase);
    let shares: Vec<_> = (0..workers).map(|index| Share { index, of: workers }).collect();
    let suppliers = shares.iter().filter(|share| worker::is_supplier(&phase, **share)).count();
    let supply = Arc::new(Supply::of(suppliers));
    let backlogs = Arc::new(Backlogs::shared(&phase, shares.iter().copied()));
    let whole = Arc::new(Mutex::new(vec![Tally::default(); operations]));
    let ends = Arc::new(Mutex::new(Vec::new()));
    let (inside, sum, ended) = (clock.clone(), whole.clone(), ends.clone());
    clock.run(async move {
        let work = shares.into_iter().map(|share| {
            let target = Scripted::new(&inside, script);
            let order = Order {
                phase: phase.clone(),
                operations,
                share,
                start: Instant::default(),
                supply: supply.clone(),
                backlogs: backlogs.clone(),
            };
            let sum = sum.clone();
            worker::run(inside.clone(), target, Vec::new(), order, Control::default(), move |slice| {
                sum.lock().unwrap().iter_mut().zip(&slice.tallies).for_each(|(sum, part)| sum.merge(part));
            })
        });
        let done = futures_util::future::join_all(work).await;
        ended.lock().unwrap().extend(done.into_iter().map(|end| (end.ended, end.to_ns)));
    });
    let tallies = std::mem::take(&mut *whole.lock().unwrap());
    let ends = std::mem::take(&mut *ends.lock().unwrap());
    (tallies, ends)
}
