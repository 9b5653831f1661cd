//! Implements `plimsoll merge`: joins the shards of one run.

use anyhow::Context;

use crate::cli::MergeArgs;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::merge::{Shard, check, join};

/// Joins shards and prints the result.
///
/// # Errors
/// The shards are incomplete, belong to different runs, or are damaged.
pub fn merge(args: &MergeArgs) -> Outcome<Exit> {
    let shards = args.shards.iter().map(|path| Shard::open(path));
    let mut shards = shards.collect::<anyhow::Result<Vec<_>>>().deserves(Exit::Usage)?;
    check(&mut shards).deserves(Exit::Usage)?;
    let joined = join(&shards, args.out.as_deref())?;
    if args.json {
        let text = serde_json::to_string_pretty(&joined.run).context("write run.json")?;
        print(&format!("{text}\n"));
    } else if !args.quiet {
        let path = joined.path.display().to_string();
        print(&plimsoll_report::summary(&joined.run, Some(&path), screen()));
    }
    Ok(args.strictness.exit(joined.exit, joined.run.verdict))
}
