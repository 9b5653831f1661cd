//! Makes the missing runs of a series one after the other.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_run::exit::Outcome;

use crate::directory::SeriesDir;

/// A series, as the loop over its runs sees it.
pub trait Series {
    /// Its directory.
    fn dir(&self) -> &SeriesDir;

    /// Whether the user asked to stop.
    fn flag(&self) -> &AtomicBool;

    /// The missing runs in their order: index and directory.
    fn pending(&self) -> Vec<(usize, String)>;

    /// Makes one run and records its result.
    ///
    /// # Errors
    /// When the disk refuses, or no further run can be made.
    fn make(&mut self, run: usize) -> Outcome<Next>;
}

/// Whether the series continues after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It continues.
    Continue,
    /// The other runs are not made.
    Stop,
}

/// Makes every missing run. The remains of earlier attempts are put aside first.
///
/// # Errors
/// When the disk refuses, or a run says so.
pub fn make_all(series: &mut impl Series) -> Outcome<()> {
    let pending = series.pending();
    for (_, directory) in &pending {
        series.dir().put_aside(directory)?;
    }
    for (run, _) in pending {
        if series.flag().load(Ordering::Relaxed) || series.make(run)? == Next::Stop {
            break;
        }
    }
    Ok(())
}
