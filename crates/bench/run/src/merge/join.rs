//! Adds shards up second by second, and builds the summary as for one run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use plimsoll_ledger::Ledger;
use plimsoll_load::bottlenecks::ObservedLoad;
use plimsoll_load::engine::{Finished, Second};
use plimsoll_load::phase::Phase;
use plimsoll_load::shards::{self, Entry, Record};
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::run::{Joined as Facts, Run, Verdict};
use plimsoll_measure::sample::ServerSample;

use super::account;
use super::check::APART_MS_MAX;
use super::clocks::Clocks;
use super::shard::Shard;
use super::timeline::{OtherEvents, other_events};
use crate::console::Silent;
use crate::event_sinks::EventSinks;
use crate::exit::{Deserves, Exit, Outcome};
use crate::phase_recorder::Log;
use crate::run_dir::{self, RunDir};
use crate::run_summary::{Account, complete, exit, expectations, is_complete};
use crate::session::announcement;
use crate::shard_log::{Began, Reader};
use plimsoll_scenario::Plan;
use plimsoll_scenario::{self as scenario, Loaded};

/// A joined run.
#[derive(Debug)]
pub struct Joined {
    /// Its summary.
    pub run: Run,
    /// Its exit code.
    pub exit: Exit,
    /// Its directory.
    pub path: PathBuf,
}

/// Joins shards into a new run directory. The shards must be complete and sorted.
///
/// # Errors
/// When a shard is damaged, or the result cannot be written.
pub fn join(shards: &[Shard], out: Option<&Path>) -> Outcome<Joined> {
    let first = shards.first().context("name the run directory of every shard").deserves(Exit::Usage)?;
    let file = run_dir::scenario(&first.path).display().to_string();
    let loaded = scenario::load(&file, &[], None).deserves(Exit::Usage)?;
    let plan = Plan::build(&loaded).with_context(|| format!("understand {file}")).deserves(Exit::Usage)?;
    let readers = shards.iter().map(|shard| Reader::open(&shard.path));
    let readers = readers.collect::<anyhow::Result<_>>().deserves(Exit::Usage)?;
    run_dir::check_vacant(out).deserves(Exit::Usage)?;
    let dir = RunDir::create(out, &first.run.scenario.name, first.run.started_ms).deserves(Exit::Failed)?;
    let path = dir.path().to_owned();
    let made = Joint::begin(shards, &loaded, &plan, readers, dir).and_then(Joint::finish);
    made.inspect_err(|_| run_dir::abandon(&path))
}

/// A join in progress.
struct Joint<'a> {
    shards: &'a [Shard],
    plan: &'a Plan,
    inputs: Vec<Reader>,
    sinks: EventSinks,
    control: Control,
    summary: Summary,
    samples: Vec<ServerSample>,
    others: OtherEvents,
    ended: Ended,
    clocks: Clocks,
    /// The largest gaps between the shards' starts, in milliseconds: in the first phase, and in any phase.
    apart_ms: (u64, u64),
    server_cpu_ns: Option<u64>,
}

impl<'a> Joint<'a> {
    fn begin(
        shards: &'a [Shard],
        loaded: &Loaded,
        plan: &'a Plan,
        inputs: Vec<Reader>,
        dir: RunDir,
    ) -> Outcome<Self> {
        let first = &shards[0];
        dir.scenario(&fs::read_to_string(run_dir::scenario(&first.path)).context("read the scenario")?)?;
        let begun: Vec<_> =
            inputs.iter().map(|input| input.phase().map_or(0, |began| began.from_ns)).collect();
        let others = other_events(shards, &delays(&begun))?;
        let mut joint = Self {
            shards,
            plan,
            inputs,
            sinks: EventSinks::new(dir, &Silent),
            control: Control::default(),
            summary: Summary::new(plan.names(), plan.objective.clone()).expecting(&plan.expectations),
            samples: Vec::new(),
            others,
            clocks: Clocks::of(shards),
            ended: Ended::Duration,
            apart_ms: (0, 0),
            server_cpu_ns: None,
        };
        joint.sinks.emit(&announcement(loaded, &first.run), &joint.control);
        for (key, phase) in plan.phases.iter().enumerate() {
            joint.phase(phase, key, &begun).deserves(Exit::Usage)?;
        }
        let ends = joint
            .inputs
            .iter_mut()
            .zip(shards)
            .map(|(input, shard)| input.close().with_context(|| format!("read {}", shard.name)));
        let ends = ends.collect::<anyhow::Result<Vec<_>>>().deserves(Exit::Usage)?;
        joint.server_cpu_ns = ends.first().and_then(|end| end.server_cpu_ns);
        Ok(joint)
    }

    /// Adds up one phase of all shards that reached it. Times count from the first shard's start.
    fn phase(&mut self, phase: &Phase, key: usize, begun: &[u64]) -> anyhow::Result<()> {
        let came = |input: &Reader| input.phase().filter(|began| began.key == Some(key));
        let began: Vec<Option<Began>> = self.inputs.iter().map(came).collect();
        let moved = |(began, own): (&Option<Began>, &u64)| {
            Some((began.as_ref()?.from_ns + begun[0]).saturating_sub(*own))
        };
        let Some(from_ns) = began.iter().zip(begun).filter_map(moved).min() else { return Ok(()) };
        let walls =
            || began.iter().enumerate().filter_map(|(shard, began)| Some((shard, began.as_ref()?.began_ms)));
        let first_ms = walls().map(|(_, wall_ms)| wall_ms).min().unwrap_or(0);
        self.note_apart(self.clocks.gap(walls()).map_or(0, |gap| gap.ms));
        let event = crate::session::phase_event(phase, from_ns);
        self.sinks.emit(&event, &self.control);
        let mut log = Log {
            names: self.plan.names(),
            summary: &mut self.summary,
            sinks: &mut self.sinks,
            samples: &mut self.samples,
            observer: None,
            control: &self.control,
            from_ns,
            began_ms: None,
            watched: ObservedLoad::default(),
        };
        log.began(phase, from_ns, first_ms);
        let mut sink = |log: &mut Log<'_>, second: Second| {
            self.others.emit_until(log, from_ns + second.to_ns);
            log.second(phase, &second);
        };
        let finished = add_up(self.shards, &mut self.inputs, &began, |second| sink(&mut log, second))?;
        self.others.emit_until(&mut log, from_ns + finished.to_ns);
        self.summary.end(phase, &finished, from_ns);
        self.ended = self.ended.max(finished.ended);
        Ok(())
    }

    fn note_apart(&mut self, apart_ms: u64) {
        if self.summary.phases().is_empty() {
            self.apart_ms.0 = apart_ms;
        }
        self.apart_ms.1 = self.apart_ms.1.max(apart_ms);
    }

    /// Builds the summary as a run does, and writes it.
    fn finish(mut self) -> Outcome<Joined> {
        let mut log = Log {
            names: self.plan.names(),
            summary: &mut self.summary,
            sinks: &mut self.sinks,
            samples: &mut self.samples,
            observer: None,
            control: &self.control,
            from_ns: 0,
            began_ms: None,
            watched: ObservedLoad::default(),
        };
        self.others.emit_until(&mut log, u64::MAX);
        save_ledger(self.shards, &self.sinks.dir.ledger())?;
        let run = self.conclude();
        let exit = exit(&run, self.ended, false);
        if let Some(error) = self.sinks.disk.take() {
            return Err(error.into());
        }
        let path = self.sinks.dir.finish(&run)?;
        Ok(Joined { run, exit, path })
    }

    fn conclude(&self) -> Run {
        let joined = Facts {
            apart_s: self.apart_ms.0 as f64 / 1000.0,
            phases_apart_s: self.apart_ms.1 as f64 / 1000.0,
            clock_bound_ms: self.clocks.bound_ms,
            shards: account::facts(self.shards),
        };
        let mut known = account::known(self.shards, joined);
        known.expectations = expectations(
            &self.summary,
            known.integrity.as_ref(),
            &known.answers,
            false,
            is_complete(self.ended, false),
        );
        let runs = || self.shards.iter().map(|shard| &shard.run);
        let mut run = complete(Account {
            known,
            summary: &self.summary,
            samples: &self.samples,
            plan: self.plan,
            ended: self.ended,
            stopped: false,
            server_cpu_ns: self.server_cpu_ns,
            tells_bytes: runs().any(|run| run.client.wire_bytes_per_document.is_some()),
            limited: runs().any(|run| run.client.limited),
        });
        self.say(&mut run);
        run
    }

    /// Adds the notes about the join to the summary.
    fn say(&self, run: &mut Run) {
        let (apart_ms, worst_ms) = self.apart_ms;
        let names: Vec<_> =
            self.shards.iter().map(|shard| format!("{} ({})", shard.name, shard.part())).collect();
        run.conclusions.push(format!(
            "Joined from {} shards, which began within {apart_ms} ms ({}): {}.",
            names.len(),
            self.clocks.words(),
            names.join(", ")
        ));
        if worst_ms > APART_MS_MAX {
            let reason = format!(
                "the shards began a later phase {:.1} s apart, so its seconds do not line up",
                worst_ms as f64 / 1000.0
            );
            run.verdict = if run.verdict == Verdict::Fail { Verdict::Fail } else { Verdict::Invalid };
            run.reasons.push(reason);
        }
    }
}

/// The nanoseconds to add to each shard's times, so that the first phases and their seconds start at the same time.
fn delays(begun: &[u64]) -> Vec<i64> {
    begun.iter().map(|own_ns| begun[0].cast_signed() - own_ns.cast_signed()).collect()
}

/// A shard's log. Its errors name the shard.
struct Named<'a> {
    name: &'a str,
    reader: &'a mut Reader,
}

impl<'a> Named<'a> {
    fn enter(shard: &'a Shard, reader: &'a mut Reader) -> anyhow::Result<Self> {
        let mut named = Self { name: &shard.name, reader };
        named.read(Reader::enter)?;
        Ok(named)
    }

    fn read<T>(&mut self, what: impl FnOnce(&mut Reader) -> anyhow::Result<T>) -> anyhow::Result<T> {
        what(self.reader).with_context(|| format!("read {}", self.name))
    }
}

impl Record for Named<'_> {
    type Error = anyhow::Error;

    fn second(&mut self) -> anyhow::Result<Option<Second>> {
        self.read(Reader::second)
    }

    fn rest(&mut self) -> anyhow::Result<Option<Second>> {
        self.read(Reader::rest)
    }

    fn leave(&mut self) -> anyhow::Result<Finished> {
        self.read(Reader::leave)
    }
}

/// Adds up a phase of the shards that began it, second by second. Returns the end of the phase.
fn add_up(
    shards: &[Shard],
    inputs: &mut [Reader],
    began: &[Option<Began>],
    sink: impl FnMut(Second),
) -> anyhow::Result<Finished> {
    let parts = shards.iter().zip(inputs).zip(began);
    let entries = parts.map(|((shard, reader), began)| -> anyhow::Result<_> {
        let record = match began {
            Some(_) => Some(Named::enter(shard, reader)?),
            None => None,
        };
        Ok(Entry { workers: shard.run.client.workers as usize, record })
    });
    shards::join(&mut entries.collect::<anyhow::Result<Vec<_>>>()?, sink)
}

/// Joins the ledgers of the shards that have one.
fn save_ledger(shards: &[Shard], to: &Path) -> anyhow::Result<()> {
    let mut whole: Option<Ledger> = None;
    for shard in shards {
        let from = run_dir::ledger(&shard.path);
        if !from.is_dir() {
            continue;
        }
        let ledger =
            plimsoll_ledger::load(&from).with_context(|| format!("read the ledger of {}", shard.name))?;
        match &mut whole {
            Some(whole) => {
                whole.merge(ledger).with_context(|| format!("join the ledger of {}", shard.name))?
            }
            None => whole = Some(ledger),
        }
    }
    whole.map_or(Ok(()), |whole| plimsoll_ledger::save(to, &whole).context("save the ledger"))
}
