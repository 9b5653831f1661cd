//! Fills a source continuously.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::changes::Changes;
use super::engine::Engine;
use super::profile::{Feed, Profile, Source};
use super::testbed::{PARTITIONS, Testbed};

/// The feeder of a source.
pub enum Feeder {
    /// A pipeline of generated events into a topic; the topic's contents count.
    Topic(Engine),
    /// Documents that this process inserts.
    Changes(Changes),
}

impl Feeder {
    /// Begins the part with this number, whose events differ from those of all other parts.
    pub fn start(
        testbed: &Testbed,
        profile: &Profile,
        dir: &Path,
        part: usize,
        done: u64,
    ) -> anyhow::Result<Self> {
        Ok(match profile.source {
            Source::Changes => Self::Changes(Changes::start(&testbed.uri(), profile.name, done)?),
            Source::Topic => {
                let name = format!("{}-feed-{part}", profile.name);
                fs::write(file(dir, &name), made_up(&testbed.brokers(), profile, part))
                    .with_context(|| format!("write into {}", dir.display()))?;
                Self::Topic(Engine::start(dir, &name)?)
            }
        })
    }

    /// Checks that it still runs.
    pub fn tend(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Topic(engine) => engine.tend(),
            Self::Changes(changes) => changes.check(),
        }
    }

    /// Ends it after its current work; returns the inserted documents of all parts.
    pub fn stop(self) -> anyhow::Result<u64> {
        match self {
            Self::Topic(engine) => engine.finish().map(|_| 0),
            Self::Changes(changes) => changes.stop(),
        }
    }
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.yaml"))
}

fn made_up(brokers: &str, profile: &Profile, part: usize) -> String {
    // The seeds of two parts are far apart; the generators of one part have adjacent seeds.
    let (seed, name, Feed { rate, event }) = ((part + 1) * 1000, profile.name, profile.feed);
    format!(
        "guarantee: at-most-once\n\
         source: {{generator: {{partitions: {PARTITIONS}, rate: {rate}, {event}, seed: {seed}}}}}\n\
         sink: {{kafka: {{brokers: '{brokers}', topic: {name}-in, placing: same}}}}\n"
    )
}
