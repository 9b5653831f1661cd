//! `plimsoll report`: the page of a run again.

use crate::cli::ReportArgs;
use crate::exit::{Deserves, Exit, Outcome};
use crate::matrix::dir::write_page;
use crate::run_dir;
use crate::terminal::print;

/// Writes the page of a run and prints where it is.
///
/// # Errors
/// When there is no such run, or the disk refuses.
pub fn report(args: &ReportArgs) -> Outcome<Exit> {
    let written = match run_dir::locate_matrix(args.run.as_deref()) {
        Some(path) => write_page(&path, args.out.as_deref())?,
        None => {
            let path = run_dir::locate(args.run.as_deref()).deserves(Exit::Usage)?;
            run_dir::write_report(&path, args.out.as_deref())?
        }
    };
    print(&format!("{}\n", written.display()));
    Ok(Exit::Held)
}
