//! Implements `plimsoll report`: writes the page of a run again.

use plimsoll_measure::matrix::Matrix;
use plimsoll_measure::suite::Suite;

use crate::cli::ReportArgs;
use crate::terminal::print;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir::{self, Named, Whole};
use plimsoll_series::directory::write_page;

/// Writes the page of a run and prints its path.
///
/// # Errors
/// The run is missing, or the page cannot be written.
pub fn report(args: &ReportArgs) -> Outcome<Exit> {
    let (named, out) = (args.run.as_deref(), args.out.as_deref());
    let written = match run_dir::locate_run_or_matrix(named).deserves(Exit::Usage)? {
        Named::Whole(Whole::Matrix, path) => write_page::<Matrix>(&path, out)?,
        Named::Whole(Whole::Suite, path) => write_page::<Suite>(&path, out)?,
        _ => run_dir::write_report(&run_dir::locate(named).deserves(Exit::Usage)?, out)?,
    };
    print(&format!("{}\n", written.display()));
    Ok(Exit::Held)
}
