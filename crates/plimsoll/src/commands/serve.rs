//! `plimsoll serve`: runs a service.

use std::fs;
use std::io::stderr;
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Server, Storage, mongod};
use plimsoll_measure::size::Bytes;
use plimsoll_telemetry::serve::{self, Ending, Running};
use plimsoll_telemetry::settings::Typed;
use serde::Deserialize;
use serde_json::Value;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{LogLevel, ServeCommand, TelemetryArgs};
use crate::terminal::{console, print, say};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::{Choice, cache, install};
use plimsoll_run::signals::Signals;
use plimsoll_scenario::{assigned, of_tree, put};

/// No settings file is larger, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Runs a service until it is asked to end.
///
/// # Errors
/// What went wrong.
pub fn serve(command: &ServeCommand) -> Outcome {
    match command {
        ServeCommand::Telemetry(args) => telemetry(args),
    }
}

fn telemetry(args: &TelemetryArgs) -> Outcome {
    let mut typed = typed(args).deserves(Exit::Usage)?;
    if args.print_settings {
        print(&serde_saphyr::to_string(&typed.shown()).context("write the settings as YAML")?);
        return Ok(Exit::Held);
    }
    let choice: Choice = match &args.server {
        Some(server) => server.parse().deserves(Exit::Usage)?,
        None => Choice::Uri(typed.database.uri.clone()),
    };
    let base = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    // Everything that cannot be meant is refused before a server is started.
    typed.clone().build(base).deserves(Exit::Usage)?;
    log_to_stderr(args.log);
    let server = start_server(&choice, args)?;
    typed.database.uri = match (&server, choice) {
        (Some(server), _) => format!("mongodb://{}/?directConnection=true", server.address()),
        (None, Choice::Uri(uri)) => uri,
        (None, _) => return Err(anyhow!("--server: name one server")).deserves(Exit::Usage),
    };
    let settings = typed.build(base).deserves(Exit::Usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .context("start the runtime")?;
    let exit = runtime.block_on(async {
        let mut signals = Signals::listen().context("listen to signals")?;
        let service = match serve::start(settings).await {
            Ok(service) => service,
            // It says itself what lies below it.
            Err(error) => return Err(anyhow!("{error}")).deserves(exit_of(&error)),
        };
        print(&format!("{}\n", service.url()));
        signals.next().await;
        end(service, &mut signals).await
    });
    drop(server);
    exit
}

/// Batches are read on threads of their own; more would only take the processors from those who answer.
const BLOCKING_THREADS_MAX: usize = 8;

fn exit_of(error: &serve::Error) -> Exit {
    match error {
        serve::Error::Listen { .. } => Exit::Failed,
        _ => Exit::Server,
    }
}

/// Finishes what was accepted; a second signal does not wait for it.
async fn end(service: Running, signals: &mut Signals) -> Outcome {
    tokio::select! {
        ending = service.stop() => Ok(match ending {
            Ending::Drained => Exit::Held,
            Ending::Cut { connections } => {
                say(&format!("plimsoll: {connections} connections were cut off: they were not done in time"));
                Exit::Failed
            }
        }),
        _ = signals.next() => {
            say("plimsoll: ended at once; what was not acknowledged may not be stored");
            Ok(Exit::Interrupted)
        }
    }
}

/// The settings of the file, changed by `--set` and by the options that have names of their own.
fn typed(args: &TelemetryArgs) -> anyhow::Result<Typed> {
    let file = args.config.as_deref();
    let text = file.map(read).transpose()?.unwrap_or_default();
    // A file that cannot be read is told with its line; with `--set` that is lost.
    let of = || format!("--config {}", file.map_or_else(String::new, |file| file.display().to_string()));
    let mut typed = Typed::read(&text).with_context(of)?;
    if !args.overrides.is_empty() {
        let mut tree = serde_json::to_value(&typed).context("write the settings as a tree")?;
        for assignment in &args.overrides {
            set(&mut tree, assignment)?;
        }
        typed = Typed::deserialize(&tree).map_err(|error| anyhow!("--set: {}", of_tree(&error, &tree)))?;
    }
    if let Some(listen) = args.listen {
        typed.listen = listen;
    }
    Ok(typed)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let size = fs::metadata(path).with_context(|| format!("read --config {}", path.display()))?.len();
    if size > FILE_BYTES_MAX {
        bail!("--config {}: larger than {FILE_BYTES_MAX} bytes, which no settings are", path.display());
    }
    fs::read_to_string(path).with_context(|| format!("read --config {}", path.display()))
}

fn set(tree: &mut Value, assignment: &str) -> anyhow::Result<()> {
    let (path, value) = assigned(assignment, "readings.design=bucket")?;
    put(tree, path, value).with_context(|| format!("--set {path}"))
}

/// The server that we start, if one is to be started. It ends with the value.
fn start_server(choice: &Choice, args: &TelemetryArgs) -> Outcome<Option<Server>> {
    let storage = args.storage.clone().map_or(Storage::Temporary, Storage::At);
    let cache_bytes = args.cache.map(Bytes::get);
    let server = match choice {
        Choice::Uri(_) => return leave_as_it_is(args).map(|()| None).deserves(Exit::Usage),
        Choice::Embedded(profile) => {
            install(console(false)).deserves(Exit::Failed)?;
            let options = Options { profile: *profile, storage, cache_bytes, ..Options::default() };
            let server = embedded::start(&cache()?, &options);
            server.context("start the embedded server").deserves(Exit::Server)?
        }
        Choice::Mongod => {
            let options = mongod::Options { storage, cache_bytes, ..mongod::Options::default() };
            mongod::start(&options).context("start mongod").deserves(Exit::Server)?
        }
        Choice::Any | Choice::Several(_) => {
            return Err(anyhow!("--server: name one server")).deserves(Exit::Usage);
        }
    };
    if args.storage.is_none() {
        tracing::warn!(
            "everything lies in a temporary directory and is gone when this service ends: say --storage DIR to keep it"
        );
    }
    Ok(Some(server))
}

/// A server that runs has its storage and its cache already.
fn leave_as_it_is(args: &TelemetryArgs) -> anyhow::Result<()> {
    for (word, is_said) in [("--storage", args.storage.is_some()), ("--cache", args.cache.is_some())] {
        ensure!(!is_said, "{word}: a server with a URI has its own; say --server embedded");
    }
    Ok(())
}

fn log_to_stderr(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt().with_writer(stderr).with_max_level(level).with_target(false);
    // A second subscriber is no reason to stop: the first one has the lines.
    lines.try_init().unwrap_or_default();
}
