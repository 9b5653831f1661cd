//! Makes the missing runs of a series one after the other.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_run::exit::Outcome;

use crate::directory::SeriesDir;

/// A series, as the loop over its runs uses it.
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
    /// When a file cannot be written, or no further run is possible.
    fn make(&mut self, run: usize) -> Outcome<Next>;
}

/// Whether the series continues after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The series continues.
    Continue,
    /// The remaining runs are skipped.
    Stop,
}

/// Makes every missing run. The remains of earlier attempts are put aside first.
///
/// # Errors
/// When a file cannot be written, or a run returns an error.
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
