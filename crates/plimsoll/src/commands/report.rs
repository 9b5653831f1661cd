//! `plimsoll report`: the page of a run again.

use crate::cli::ReportArgs;
use crate::exit::{Deserves, Exit, Outcome};
use crate::run_dir;
use crate::terminal::print;

/// Writes the page of a run and prints where it is.
///
/// # Errors
/// When there is no such run, or the disk refuses.
pub fn report(args: &ReportArgs) -> Outcome<Exit> {
    let path = run_dir::locate(args.run.as_deref()).deserves(Exit::Usage)?;
    let written = run_dir::write_report(&path, args.out.as_deref())?;
    print(&format!("{}\n", written.display()));
    Ok(Exit::Held)
}
