//! Simulates servers of several shapes with a known load line: a queue in steps of ten milliseconds.

use std::f64::consts::TAU;

use plimsoll_measure::random::Random;

use super::trial::{Block, Trial};
use super::{Search, Settings, UNJUDGED_S};

/// The length of a step, in seconds.
const STEP_S: f64 = 0.01;
/// Steps in a second.
const STEPS: usize = 100;
/// The bound on response times, in seconds, and the share of operations that may exceed it: p99 < 50 ms.
const BOUND_S: f64 = 0.05;
const SHARE: f64 = 0.01;
/// The steady capacity, in operations per second.
pub const CAPACITY: f64 = 10_000.0;
/// The middle of a search of the default budget, and its end, in seconds.
pub const MIDDLE_S: f64 = 95.0;
pub const END_S: f64 = 185.0;
/// The unjudged seconds at the start of a trial.
const SETTLE: usize = 1;

/// The behaviour of a simulated server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Latency rises steeply near the capacity, which varies a little.
    Knee,
    /// As the knee, and the server stands still now and then.
    Stalls,
    /// As the knee, and the capacity falls by an eighth during the search.
    Drift,
    /// As the knee, and for 4 s of each minute the server has three quarters of its capacity.
    Checkpoints,
    /// As the knee, and six operations in a thousand are slow at any rate.
    Bimodal,
    /// As the knee, and service times have a Pareto tail that gets heavier with the load.
    HeavyTail,
    /// Every operation above a rate fails, none below.
    Cliff,
}

impl Shape {
    pub const ALL: [Self; 7] = [
        Self::Knee,
        Self::Stalls,
        Self::Drift,
        Self::Checkpoints,
        Self::Bimodal,
        Self::HeavyTail,
        Self::Cliff,
    ];
}

/// A simulated server.
pub struct Server {
    shape: Shape,
    random: Random,
    now_s: f64,
    backlog: f64,
    noise: f64,
    stalled_until_s: f64,
    next_stall_s: f64,
    /// The phase of its checkpoints, in seconds.
    phase_s: f64,
    /// The moment whose capacity a drifting server keeps, if it is frozen.
    frozen_at_s: Option<f64>,
}

impl Server {
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let phase_s = random.unit() * 60.0;
        let next_stall_s = exponential(&mut random, 30.0);
        Self {
            shape,
            random,
            now_s: 0.0,
            backlog: 0.0,
            noise: 0.0,
            stalled_until_s: 0.0,
            next_stall_s,
            phase_s,
            frozen_at_s: None,
        }
    }

    /// A trial of one rate, which begins with an empty queue.
    pub fn trial(&mut self, rate: f64, seconds: usize) -> Trial {
        self.backlog = 0.0;
        let blocks = (0..SETTLE + seconds).map(|_| {
            let at_ns = (self.now_s * 1e9) as u64;
            Block { at_ns, excess: vec![self.second(rate) / SHARE] }
        });
        let blocks: Vec<_> = blocks.collect();
        self.now_s += UNJUDGED_S - SETTLE as f64;
        Trial { rate, blocks: blocks.into_iter().skip(SETTLE).collect(), is_slow_throughout: false }
    }

    /// The share of one second's operations over the bound.
    fn second(&mut self, rate: f64) -> f64 {
        (0..STEPS).map(|_| self.step(rate)).sum::<f64>() / STEPS as f64
    }

    fn step(&mut self, rate: f64) -> f64 {
        if self.shape == Shape::Cliff {
            self.now_s += STEP_S;
            return if rate > CAPACITY { 1.0 } else { 0.0 };
        }
        // Noise with a memory of 0.3 s.
        let memory = (-STEP_S / 0.3f64).exp();
        self.noise = self.noise * memory + normal(&mut self.random) * (1.0 - memory * memory).sqrt();
        let capacity = self.capacity() * (0.08 * self.noise).exp();
        let stall_s = (self.stalled_until_s - self.now_s).max(0.0);
        let arrived = (rate * STEP_S + (rate * STEP_S).sqrt() * normal(&mut self.random)).max(0.0);
        let served = if stall_s > 0.0 { 0.0 } else { capacity * STEP_S };
        self.backlog = (self.backlog + arrived - served).max(0.0);
        self.now_s += STEP_S;
        self.over(rate, stall_s + self.backlog / capacity)
    }

    fn capacity(&mut self) -> f64 {
        match self.shape {
            Shape::Stalls if self.now_s >= self.next_stall_s => {
                self.stalled_until_s = self.now_s + 0.1 + 0.2 * self.random.unit();
                self.next_stall_s = self.now_s + exponential(&mut self.random, 30.0);
                CAPACITY
            }
            Shape::Drift => CAPACITY * (1.0 - 0.125 * self.frozen_at_s.unwrap_or(self.now_s) / 190.0),
            Shape::Checkpoints if (self.now_s + self.phase_s) % 60.0 < 4.0 => CAPACITY * 0.75,
            _ => CAPACITY,
        }
    }

    /// The share of the operations over the bound that wait this long in the queue.
    fn over(&self, rate: f64, wait_s: f64) -> f64 {
        let left_s = BOUND_S - wait_s;
        match self.shape {
            _ if left_s <= 0.0 => 1.0,
            Shape::Bimodal => 0.006 + 0.994 * (-left_s / 0.004).exp(),
            Shape::HeavyTail => {
                let scale_s = 0.0008 / (1.05 - rate / CAPACITY).max(0.05);
                (scale_s / left_s).powf(1.5).min(1.0)
            }
            _ => (-left_s / 0.004).exp(),
        }
    }
}

fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (TAU * random.unit()).cos()
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * (1.0 - random.unit()).ln()
}

/// The true load line: the rate at which the share of operations over the bound, over a long time, is the allowed share. Found
/// by bisection with the same random numbers at each rate.
pub fn line_of(shape: Shape, seconds: usize) -> f64 {
    line_at(shape, seconds, MIDDLE_S)
}

/// The true load line of the server as it is at one moment of the search.
pub fn line_at(shape: Shape, seconds: usize, at_s: f64) -> f64 {
    let (mut low, mut high) = (CAPACITY * 0.4, CAPACITY * 1.2);
    for _ in 0..14 {
        let rate = (low * high).sqrt();
        let mut server = Server::new(shape, 1);
        server.frozen_at_s = Some(at_s);
        let share = (0..seconds).map(|_| server.second(rate)).sum::<f64>() / seconds as f64;
        (low, high) = if share < SHARE { (rate, high) } else { (low, rate) };
    }
    (low * high).sqrt()
}

/// A whole search on a simulated server.
pub fn search(shape: Shape, seed: u64, budget_s: f64) -> Search {
    let mut server = Server::new(shape, seed);
    let start = CAPACITY * (0.25 + 0.2 * Random::new(!seed).unit());
    let mut search = Search::new(Settings { start, budget_s, seed });
    while let Some(attempt) = search.next() {
        let trial = server.trial(attempt.rate, attempt.window_s as usize);
        search.record(&attempt, trial);
    }
    search
}
