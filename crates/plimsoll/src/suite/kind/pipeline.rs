//! A test that runs a pipeline: known by its column, and not to be run by this version.

use std::path::Path;

use anyhow::bail;
use plimsoll_measure::suite;

use super::{Ended, Job, Kind};
use crate::suite::progress::{Nothing, Progress};
use crate::suite::typed::Row;

/// A test that runs a pipeline.
#[derive(Debug)]
pub struct Pipeline;

impl Kind for Pipeline {
    fn kind(&self) -> suite::Kind {
        suite::Kind::Pipeline
    }

    fn named<'a>(&self, row: &'a Row) -> Option<&'a str> {
        row.pipeline.as_deref()
    }

    fn settled(&self, row: Row, _: &Path) -> Row {
        row
    }

    fn prepare(&self, row: &Row) -> anyhow::Result<Job> {
        bail!(
            "pipeline {}: this version runs no pipelines; name a scenario instead, or leave the test out with --only",
            row.pipeline.as_deref().unwrap_or_default()
        )
    }

    fn progress(&self, _: &Path) -> Box<dyn Progress> {
        Box::new(Nothing)
    }

    fn ended(&self, _: &Path) -> Option<Ended> {
        None
    }
}
