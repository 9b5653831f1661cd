//! Implements `plimsoll report`: writes the page of a run again.

use plimsoll_measure::matrix::Matrix;

use crate::cli::ReportArgs;
use crate::terminal::print;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir;
use plimsoll_series::directory::write_page;

/// Writes the page of a run and prints its path.
///
/// # Errors
/// The run is missing, or the page cannot be written.
pub fn report(args: &ReportArgs) -> Outcome<Exit> {
    let written = match run_dir::locate_matrix(args.run.as_deref()) {
        Some(path) => write_page::<Matrix>(&path, args.out.as_deref())?,
        None => {
            let path = run_dir::locate(args.run.as_deref()).deserves(Exit::Usage)?;
            run_dir::write_report(&path, args.out.as_deref())?
        }
    };
    print(&format!("{}\n", written.display()));
    Ok(Exit::Held)
}
