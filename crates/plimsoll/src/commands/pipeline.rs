//! Implements `plimsoll pipeline`: runs, replays, audits, demonstrates and checks pipelines.

use std::path::PathBuf;
#[cfg(feature = "kafka")]
use std::sync::atomic::AtomicBool;

#[cfg(feature = "kafka")]
use anyhow::Context;
use plimsoll_measure::clock;
use plimsoll_measure::stream::Count;
use plimsoll_pipeline::Error;
use plimsoll_report::stream::{Ending, summary};
use plimsoll_report::text::hanging;

#[cfg(feature = "kafka")]
use super::inspect::tell_unused_read_options;
use crate::cli::{PipelineArgs, PipelineCommand, PipelineRunArgs};
#[cfg(feature = "kafka")]
use crate::cli::{PipelineDemoArgs, Victim};
use crate::terminal::{console, print, say, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
#[cfg(feature = "kafka")]
use plimsoll_stream::demo::{Kill, Settings, demo};
use plimsoll_stream::{Built, Dir, End, Outputs, PipelineFile, build, drive, next, read, replay};

/// Executes the subcommand.
///
/// # Errors
/// The failure and its exit code.
pub fn pipeline(command: &PipelineCommand) -> Outcome {
    match command {
        PipelineCommand::Run(args) => {
            let (file, base) = read_as(&args.what)?;
            let built = build(&file, &base).deserves(Exit::Usage)?;
            warn(&file);
            if !args.quiet {
                caution(&file);
            }
            await_servers(&file)?;
            run(args, &file, built)
        }
        PipelineCommand::Replay(args) => {
            let (file, base) = read_as(&args.run.what)?;
            let built = replay::build(&file, &base, args.limit).deserves(Exit::Usage)?;
            warn(&file);
            await_servers(&file)?;
            run(&args.run, &file, built)
        }
        #[cfg(feature = "kafka")]
        PipelineCommand::Audit(args) => audit(args),
        #[cfg(feature = "kafka")]
        PipelineCommand::Demo(args) => {
            let flag = plimsoll_run::lifecycle::signals("start the demonstration again")
                .context("listen to signals")?;
            demonstrate(args, &flag)
        }
        #[cfg(not(feature = "kafka"))]
        PipelineCommand::Audit(_) | PipelineCommand::Demo(_) => {
            Err(anyhow::anyhow!(plimsoll_stream::missing::NO_KAFKA)).deserves(Exit::Usage)
        }
        PipelineCommand::Check(args) => {
            let (file, base) = read_as(args)?;
            let built = build(&file, &base).deserves(Exit::Usage)?;
            warn(&file);
            caution(&file);
            print(&format!("{}: {}, {}\n", file.name, built.path.join(" → "), built.guarantee));
            Ok(Exit::Held)
        }
    }
}

#[cfg(feature = "kafka")]
fn demonstrate(args: &PipelineDemoArgs, flag: &AtomicBool) -> Outcome {
    let kill = args.kill.map(|victim| match victim {
        Victim::Server => Kill::Server,
        Victim::Broker => Kill::Broker,
    });
    let settings = Settings { length: args.length, rate: args.rate, kill, out: args.out.clone() };
    let (exit, text) = demo(&settings, flag, console(false))?;
    print_wrapped(&text);
    Ok(exit)
}

/// Reads the pipeline, redirected to the servers of the arguments.
fn read_as(args: &PipelineArgs) -> Outcome<(PipelineFile, PathBuf)> {
    let (mut file, base) = read(&args.file, &args.overrides).deserves(Exit::Usage)?;
    file.point(args.server.as_deref(), args.brokers.as_deref());
    Ok((file, base))
}

/// Names the options of the servers' addresses that have no effect.
fn warn(file: &PipelineFile) {
    file.uri_warnings().iter().for_each(|warning| console(false).warn(warning));
}

/// Waits for the servers whose addresses say how long.
fn await_servers(file: &PipelineFile) -> Outcome<()> {
    file.await_servers(&mut |line| console(true).warn(&line)).deserves(Exit::Server)
}

fn caution(file: &PipelineFile) {
    if let Some(words) = file.caution() {
        say(&hanging(&words, "", console(false).line_width()));
    }
}

fn run(args: &PipelineRunArgs, file: &PipelineFile, built: Built) -> Outcome {
    let started_ms = clock::wall_ms();
    let mut dir = Dir::create(args.out.as_deref(), file, started_ms).deserves(Exit::Usage)?;
    if !args.quiet {
        let title = format!("{}: {}, {}", file.name, built.path.join(" → "), built.guarantee);
        say(&hanging(&title, "", console(false).line_width()));
    }
    let outputs = Outputs {
        dir: &mut dir,
        listen: args.listen,
        console: console(false),
        lines: !args.quiet,
        end: End { after: args.time, events: args.events },
    };
    let (stream, failure) = drive(built, started_ms, outputs)?;
    dir.conclude(&stream)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&stream).map_err(anyhow::Error::from)?));
    } else if !args.quiet {
        let (directory, next) = (dir.path().display().to_string(), next(file, &stream, &args.what.words()));
        print(&summary(&stream, Ending { directory: &directory, next: &next }, screen()));
    }
    Ok(match failure {
        Some(error) => {
            say(&format!("plimsoll: {error}"));
            exit_of(&error)
        }
        None if stream.last.count(Count::Lost) > 0 => Exit::Integrity,
        // A service ends by finishing its work: only aborted work counts as an interruption.
        None if stream.ended == "aborted" => Exit::Interrupted,
        None if stream.is_fruitless() => {
            stream.failure.iter().for_each(|reason| say(&format!("plimsoll: {reason}")));
            Exit::Expectation
        }
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
    let (file, _) = read_as(&args.what)?;
    warn(&file);
    file.clone().uris().iter().for_each(|uri| tell_unused_read_options(uri));
    let question = plimsoll_stream::audit::Question::of(&file).deserves(Exit::Usage)?;
    if let Some(words) = question.caution() {
        say(&hanging(&words, "", console(false).line_width()));
    }
    let question = question.with_ledgers(&args.produced).deserves(Exit::Usage)?;
    await_servers(&file)?;
    let report = question.answer().deserves(Exit::Server)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&report).map_err(anyhow::Error::from)?));
    } else {
        print_wrapped(&plimsoll_stream::audit::words(&report));
    }
    Ok(if report.holds() { Exit::Held } else { Exit::Integrity })
}

/// Prints lines, each broken at the width of the screen below its first word.
#[cfg(feature = "kafka")]
fn print_wrapped(text: &str) {
    for line in text.lines() {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        print(&format!("{}\n", hanging(words, indent, screen().width)));
    }
}
