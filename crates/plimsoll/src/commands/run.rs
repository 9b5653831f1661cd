//! Implements `plimsoll run`: runs the phases of a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use plimsoll_measure::clock;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::Run;
use plimsoll_report::foreign::k6;
use plimsoll_report::foreign::k6::export::Shape;

use super::{closing, matrix};
use crate::cli::{OnceArgs, RunArgs};
use crate::registry::Registry;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle;
use plimsoll_run::session::Session;
use plimsoll_run::start_at;
use plimsoll_scenario::{self as scenario, Loaded};
use plimsoll_series::dry_run;

/// Runs a scenario and audits its writes; for a matrix runs every requested cell.
///
/// # Errors
/// When the run cannot be done.
pub fn run(args: &RunArgs, registry: &Registry) -> Outcome<Exit> {
    let load = &args.once.load;
    let loaded = scenario::load(&args.scenario, &load.overrides, load.seed).deserves(Exit::Usage)?;
    if loaded.scenario.matrix.is_some() {
        check_exports_of_matrix(args).deserves(Exit::Usage)?;
        check_start_of_matrix(args).deserves(Exit::Usage)?;
        return matrix::run(&loaded, args, registry);
    }
    check_words(&loaded, args).deserves(Exit::Usage)?;
    once(&args.scenario, loaded, &args.once, registry)
}

/// Runs a scenario without a matrix, or prints its dry run. `name` is its name on the command line.
///
/// # Errors
/// When the run cannot be done.
pub fn once(name: &str, loaded: Loaded, args: &OnceArgs, registry: &Registry) -> Outcome<Exit> {
    let start = args.start_at.as_deref().map(|text| start_at::read(text, clock::wall_ms()));
    let start = start.transpose().deserves(Exit::Usage)?;
    check_exports(args).deserves(Exit::Usage)?;
    let options = args.load.options(registry.systems);
    let checked = lifecycle::check(name, loaded, &options, start)?;
    if args.dry_run {
        let described = dry_run::of_run(&checked).deserves(Exit::Usage)?;
        described.warnings.iter().for_each(|warning| options.console.warn(warning));
        print(&described.text(screen().width));
        return Ok(Exit::Held);
    }
    let session = lifecycle::open_at(checked, &options, start)?;
    send(session, args)
}

/// Runs every phase of a session, and closes it.
fn send(mut session: Session, args: &OnceArgs) -> Outcome<Exit> {
    for phase in session.plan.phases.clone() {
        if session.is_over() {
            break;
        }
        if let Err(failure) = lifecycle::one_phase(&mut session, &phase) {
            if session.began_ms.is_none() {
                lifecycle::forget(session);
            }
            return Err(failure);
        }
    }
    let tallies = session.summary.tallies().map(|(name, tally)| (name.to_owned(), tally.clone())).collect();
    let closed = lifecycle::finish(session, "run", None)?;
    let exported = export(args, &closed.run, &tallies);
    let exit = closing::settle(closed, &args.load)?;
    exported?;
    Ok(exit)
}

/// The files for k6's forms of the result.
fn exports(args: &OnceArgs) -> impl Iterator<Item = (&Path, Shape)> {
    let files = [(&args.summary_export, Shape::Summary), (&args.summary_export_legacy, Shape::Legacy)];
    files.into_iter().filter_map(|(file, shape)| Some((file.as_deref()?, shape)))
}

/// Refuses an unwritable file before the load, not after it.
fn check_exports(args: &OnceArgs) -> anyhow::Result<()> {
    for (file, _) in exports(args) {
        let directory =
            file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        ensure!(
            directory.is_dir() && !file.is_dir(),
            "{}: name a file in an existing directory for --summary-export",
            file.display()
        );
    }
    let places: Vec<_> = exports(args).map(|(file, _)| place(file)).collect();
    if let [one, other] = places.as_slice() {
        ensure!(
            one != other,
            "--summary-export and --summary-export-legacy both name {}, which the second would overwrite: name two files",
            one.display()
        );
    }
    Ok(())
}

/// The canonical path of an existing or future file.
fn place(file: &Path) -> PathBuf {
    let whole = file.canonicalize().or_else(|_| {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok::<_, std::io::Error>(parent.canonicalize()?.join(file.file_name().unwrap_or_default()))
    });
    whole.unwrap_or_else(|_| file.to_owned())
}

fn check_start_of_matrix(args: &RunArgs) -> anyhow::Result<()> {
    ensure!(
        args.once.start_at.is_none(),
        "--start-at applies to one load, and {} is a matrix of runs: omit it",
        args.scenario
    );
    Ok(())
}

fn check_exports_of_matrix(args: &RunArgs) -> anyhow::Result<()> {
    ensure!(
        exports(&args.once).next().is_none(),
        "--summary-export writes one run, and {} is a matrix of runs: run the scenario.yaml in the run directory of \
         the cell to export",
        args.scenario
    );
    Ok(())
}

fn export(args: &OnceArgs, run: &Run, tallies: &BTreeMap<String, Tally>) -> anyhow::Result<()> {
    for (file, shape) in exports(args) {
        let text = k6::export::export(run, tallies, shape);
        std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

/// Refuses arguments that only a matrix uses.
fn check_words(loaded: &Loaded, args: &RunArgs) -> anyhow::Result<()> {
    ensure!(
        args.only.is_empty() && !args.list && args.resume.is_none(),
        "--only, --list and --resume are for a scenario with a `matrix`, and {} has none",
        loaded.name
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_run::console::Silent;
    use plimsoll_run::exit::explained;
    use plimsoll_run::options::LoadOptions;
    use plimsoll_scenario::{Builtin, Text, builtins, load_text};
    use serde_json::{Value, json};

    use super::*;
    use crate::registry::SHIPPED;

    /// Words of Rust and of its libraries, which no message repeats.
    const FOREIGN: [&str; 14] = [
        "expected struct",
        "invalid type",
        "invalid value",
        "invalid length",
        "u32",
        "u64",
        "i64",
        "f64",
        "usize",
        "unknown field",
        "unknown variant",
        "missing field",
        "untagged",
        "ident ",
    ];

    /// The JSON pointers of all values below `value`.
    fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
            }
            Value::Array(list) => {
                list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
            }
            _ => Vec::new(),
        };
        for (key, child) in children {
            let pointer = format!("{at}/{key}");
            all.push(pointer.clone());
            pointers(child, &pointer, all);
        }
    }

    /// The message about a scenario; empty if it is valid.
    fn said(builtin: &Builtin, tree: &Value) -> String {
        let options = LoadOptions::on(None, SHIPPED.systems, &Silent);
        let text = serde_saphyr::to_string(tree).unwrap();
        let source = Text { name: builtin.name.into(), origin: builtin.path.into(), text, base: ".".into() };
        let checked = load_text(source, &[], None)
            .deserves(Exit::Usage)
            .and_then(|loaded| lifecycle::check(builtin.name, loaded, &options, None));
        checked.err().map(|failure| explained(&failure.error)).unwrap_or_default()
    }

    #[test]
    fn no_wrong_value_in_a_scenario_brings_up_words_of_a_library() {
        let wrong = [json!(null), json!(-1), json!([1, 2]), json!({"zz": 1}), json!("zzz")];
        let mut turn = 0;
        let mut foreign = Vec::new();
        for builtin in builtins() {
            let tree: Value = serde_saphyr::from_str(builtin.text).unwrap();
            let mut all = Vec::new();
            pointers(&tree, "", &mut all);
            for pointer in all {
                turn += 1;
                let mut broken = tree.clone();
                *broken.pointer_mut(&pointer).unwrap() = wrong[turn % wrong.len()].clone();
                let said = said(builtin, &broken);
                let message = said.lines().next().unwrap_or_default();
                if let Some(word) = FOREIGN.iter().find(|word| message.contains(*word)) {
                    foreign.push(format!(
                        "{} {pointer} = {}: `{word}` in: {message}",
                        builtin.name,
                        wrong[turn % wrong.len()]
                    ));
                }
            }
        }
        assert!(turn > 1000, "{turn}");
        assert!(foreign.is_empty(), "{} messages:\n{}", foreign.len(), foreign.join("\n"));
    }
}
