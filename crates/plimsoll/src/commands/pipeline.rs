//! `plimsoll pipeline`: runs and checks pipelines.

use plimsoll_measure::clock;
use plimsoll_measure::stream::Count;
use plimsoll_pipeline::Error;
use plimsoll_report::stream::summary;

use crate::cli::{PipelineCommand, PipelineRunArgs};
use crate::exit::{Deserves, Exit, Outcome};
use crate::pipeline::{Dir, Seen, build, drive, read};
use crate::terminal::{print, say};

/// Does what the words say.
///
/// # Errors
/// What went wrong, with the exit code that it deserves.
pub fn pipeline(command: &PipelineCommand) -> Outcome {
    match command {
        PipelineCommand::Run(args) => run(args),
        #[cfg(feature = "kafka")]
        PipelineCommand::Audit(args) => audit(args),
        PipelineCommand::Check(args) => {
            let (file, base) = read(&args.file, &args.overrides).deserves(Exit::Usage)?;
            let built = build(&file, &base).deserves(Exit::Usage)?;
            print(&format!("{}: {}, {}\n", file.name, built.path.join(" → "), built.guarantee));
            Ok(Exit::Held)
        }
    }
}

fn run(args: &PipelineRunArgs) -> Outcome {
    let (file, base) = read(&args.what.file, &args.what.overrides).deserves(Exit::Usage)?;
    let built = build(&file, &base).deserves(Exit::Usage)?;
    let started_ms = clock::wall_ms();
    let mut dir = Dir::create(args.out.as_deref(), &file, started_ms).deserves(Exit::Usage)?;
    if !args.quiet {
        say(&format!("{}: {}, {}", file.name, built.path.join(" → "), built.guarantee));
    }
    let seen = Seen { dir: &mut dir, listen: args.listen, lines: !args.quiet };
    let (stream, failure) = drive(built, started_ms, seen)?;
    dir.conclude(&stream)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&stream).map_err(anyhow::Error::from)?));
    } else if !args.quiet {
        print(&format!("{}\nEverything is in {}\n", summary(&stream), dir.path().display()));
    }
    Ok(match failure {
        Some(error) => {
            say(&format!("plimsoll: {error}"));
            exit_of(&error)
        }
        None if stream.last.count(Count::Lost) > 0 => Exit::Integrity,
        // To be asked to finish is how a service ends: only what was cut short is an interruption.
        None if stream.ended == "aborted" => Exit::Interrupted,
        None => Exit::Held,
    })
}

const fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Settings(_) | Error::Guarantee(_) => Exit::Usage,
        Error::Source(_)
        | Error::Sink(_)
        | Error::Positions(_)
        | Error::Final(_)
        | Error::Exhausted { .. } => Exit::Server,
        Error::Transform(_) | Error::Thread(_) => Exit::Failed,
        Error::NoDeadLetters { .. } | Error::DeadLetters(_) | Error::TooManyDeadLetters(_) => Exit::Integrity,
    }
}

#[cfg(feature = "kafka")]
fn audit(args: &crate::cli::PipelineAuditArgs) -> Outcome {
    let (file, _) = read(&args.what.file, &args.what.overrides).deserves(Exit::Usage)?;
    let question = crate::pipeline::audit::Question::of(&file).deserves(Exit::Usage)?;
    let report = question.answer().deserves(Exit::Server)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&report).map_err(anyhow::Error::from)?));
    } else {
        print(&crate::pipeline::audit::words(&report));
    }
    Ok(if report.holds() { Exit::Held } else { Exit::Integrity })
}
