//! Runs one row: starts a pipeline, kills processes, lets the pipeline finish, and audits.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_measure::clock::{self, Instant, SECOND_NS};
use plimsoll_stores::audit::Report;

use super::audit::audit;
use super::changes;
use super::engine::Engine;
use super::feeder::Feeder;
use super::profile::{Profile, Source, Victim, Wanted};
use super::random::Random;
use super::row::{Found, Row};
use super::testbed::Testbed;

/// The time limit for a pipeline to work again, and to write the remaining events, in nanoseconds.
const PATIENCE_NS: u64 = 240 * SECOND_NS;
/// The time without a write, in nanoseconds, after which a row that must lose events expects no further
/// write.
const QUIET_NS: u64 = 15 * SECOND_NS;
/// The longest delay of a kill after the pipeline works, and the longest downtime.
const MOMENT_MS: u64 = 1500;
const DOWN_MS: u64 = 500;
const LOOK: Duration = Duration::from_millis(50);
const AUDIT_EVERY: Duration = Duration::from_secs(1);

/// Runs a row: rounds of kills with an audit after each. A row without a guard ends as soon as an audit
/// notices that the guard is missing. A failure is part of the row.
pub fn run(
    testbed: &mut Testbed,
    profile: &Profile,
    rounds: Vec<Vec<Victim>>,
    random: Random,
    out: &Path,
) -> Row {
    let began = clock::now();
    let mut row = Row::of(profile);
    let made = Trial::begin(testbed, profile, random, out).and_then(|trial| trial.make(rounds, &mut row));
    row.trouble = made.err().map(|error| format!("{error:#}"));
    row.took_s = clock::now().since(began) / SECOND_NS;
    row
}

struct Trial<'a> {
    testbed: &'a mut Testbed,
    profile: &'a Profile,
    dir: PathBuf,
    random: Random,
    engine: Engine,
    /// The documents inserted into a watched collection.
    inserted: u64,
}

impl<'a> Trial<'a> {
    fn begin(
        testbed: &'a mut Testbed,
        profile: &'a Profile,
        random: Random,
        out: &Path,
    ) -> anyhow::Result<Self> {
        testbed.promise(profile.server)?;
        match profile.source {
            Source::Topic => testbed.topic(&format!("{}-in", profile.name))?,
            Source::Changes => changes::make(&testbed.uri(), profile.name)?,
        }
        if profile.writes_a_topic() {
            testbed.topic(&format!("{}-out", profile.name))?;
        }
        let dir = out.join(profile.name);
        fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        let file = dir.join(format!("{}.yaml", profile.name));
        fs::write(&file, profile.text(&testbed.brokers(), &testbed.uri()))
            .with_context(|| format!("write {}", file.display()))?;
        let engine = Engine::start(&dir, profile.name)?;
        let mut trial = Self { testbed, profile, dir, random, engine, inserted: 0 };
        if profile.source == Source::Changes {
            trial.wait("the first position", |trial| changes::is_watched(&trial.testbed.uri(), profile))?;
        }
        Ok(trial)
    }

    fn make(mut self, rounds: Vec<Vec<Victim>>, row: &mut Row) -> anyhow::Result<()> {
        for (part, victims) in rounds.into_iter().enumerate() {
            self.engine.restart_with(&[])?;
            let mut feeder = Feeder::start(self.testbed, self.profile, &self.dir, part, self.inserted)?;
            // Collections exist before the first kill: a kill could leave the embedded server with an
            // incomplete one.
            self.wait_at_work(&mut feeder)?;
            for victim in victims {
                self.strike(victim, &mut feeder)?;
                row.count(victim);
                row.ends = self.engine.ends();
            }
            self.inserted = feeder.stop()?;
            row.found = Found::of(&self.settled()?);
            row.ends = self.engine.ends();
            if row.is_noticed() {
                break;
            }
        }
        let status = self.engine.finish()?;
        let lossy = self.profile.wanted == Wanted::Loss;
        if !lossy && !status.success() {
            bail!("the pipeline's last run ended with {status}");
        }
        row.found = Found::of(&audit(self.testbed, self.profile, &self.dir, self.inserted)?);
        Ok(())
    }

    /// Kills a process at a random moment, and checks that it works again.
    fn strike(&mut self, victim: Victim, feeder: &mut Feeder) -> anyhow::Result<()> {
        // One kill in four may fall into the recovery, while members join and transactions are taken over.
        if self.random.below(4) > 0 {
            self.wait_at_work(feeder)?;
        }
        thread::sleep(Duration::from_millis(self.random.below(MOMENT_MS)));
        self.engine.tend()?;
        let down = Duration::from_millis(self.random.below(DOWN_MS));
        match victim {
            Victim::Engine => self.engine.kill(down)?,
            Victim::Broker => self.testbed.kill_broker(down)?,
            Victim::Server => self.testbed.kill_server(down)?,
        }
        feeder.tend()?;
        self.engine.tend()
    }

    /// Waits until the pipeline has written an event from now on.
    fn wait_at_work(&mut self, feeder: &mut Feeder) -> anyhow::Result<()> {
        let before = self.engine.progress();
        self.wait("the next event", |trial| {
            feeder.tend()?;
            let (run, written, _) = trial.engine.progress();
            Ok(written > if run == before.0 { before.1 } else { 0 })
        })
    }

    fn wait(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = clock::now();
        while !holds(self)? {
            if clock::now().since(began) >= PATIENCE_NS {
                bail!(
                    "timed out waiting for {what}, after {} s: see {}",
                    PATIENCE_NS / SECOND_NS,
                    self.dir.display()
                );
            }
            thread::sleep(LOOK);
            self.engine.tend()?;
        }
        Ok(())
    }

    /// Waits until everything has arrived, or nothing more arrives.
    fn settled(&mut self) -> anyhow::Result<Report> {
        self.engine.restart_with(self.profile.hurry)?;
        let began = clock::now();
        let mut moved = (self.engine.progress(), began);
        loop {
            let report = audit(self.testbed, self.profile, &self.dir, self.inserted)?;
            let now = clock::now();
            let progress = self.engine.progress();
            if progress != moved.0 {
                moved = (progress, now);
            }
            if report.lost() == 0 || self.is_over(began, moved.1, now) {
                return Ok(report);
            }
            thread::sleep(AUDIT_EVERY);
            self.engine.tend()?;
        }
    }

    /// Whether to stop waiting. Events that must not be lost get more time: they may only be late.
    fn is_over(&self, began: Instant, moved: Instant, now: Instant) -> bool {
        let quiet = self.engine.progress().2 == 0 && now.since(moved) >= QUIET_NS;
        now.since(began) >= PATIENCE_NS || (self.profile.wanted == Wanted::Loss && quiet)
    }
}
