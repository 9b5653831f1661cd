//! Implements `plimsoll serve`: runs a service.

use std::fs;
use std::io::stderr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use plimsoll_deployment::{
    COMMAND_TIMEOUT, check_durable, for_driver, warnings_of_driver, warnings_of_store,
};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Profile, Server, Storage, mongod};
use plimsoll_measure::size::Bytes;
use plimsoll_service::{DatabaseClient, Ending, Product, Running, StartError, State, redact, settings};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{LogLevel, ServeArgs};
use crate::registry::{Registry, Serve};
use crate::terminal::{console, print, say};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::{Choice, RunningServer, StartOptions, cache, install};
use plimsoll_run::signals::Signals;
use plimsoll_scenario::{assigned, of_tree, put, rendered};
use plimsoll_yaml::text_of;

/// The size limit of a settings file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Runs a service until it is stopped.
///
/// # Errors
/// The reason why it did not start.
pub fn serve(args: &ServeArgs, registry: &Registry) -> Outcome {
    let product = registry.products.iter().find(|product| product.name() == args.service);
    let product = product.with_context(|| format!("unknown service `{}`", args.service));
    product.deserves(Exit::Usage)?.serve(args)
}

impl<P: Product> Serve for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn default_settings(&self) -> Value {
        serde_json::to_value(P::Typed::default()).unwrap_or_default()
    }

    fn serve(&self, args: &ServeArgs) -> Outcome {
        product::<P>(args)
    }
}

/// Runs one service, fills its database, or prints its settings, as the arguments request.
///
/// # Errors
/// The reason why it did not start.
fn product<P: Product>(args: &ServeArgs) -> Outcome {
    let mut typed = typed::<P>(args).deserves(Exit::Usage)?;
    if args.print_settings {
        return print_settings::<P>(typed);
    }
    let base = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    // Invalid settings are refused before a server is started.
    P::build(typed.clone(), base).deserves(Exit::Usage)?;
    if args.check {
        return print_settings::<P>(typed);
    }
    log_to_stderr(args.log);
    let server = match P::database_uri(&mut typed) {
        Some(uri) => open_database(uri, args, P::DATABASE_CLIENT)?,
        None => without_database(args).map(|()| None).deserves(Exit::Usage)?,
    };
    let settings = P::build(typed, base).deserves(Exit::Usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .context("start the runtime")?;
    let exit = match &args.fill {
        Some(order) => runtime.block_on(fill::<P>(settings, order)),
        None => runtime.block_on(run::<P>(settings, server.as_ref())),
    };
    drop(server);
    exit
}

fn print_settings<P: Product>(typed: P::Typed) -> Outcome {
    print(&shown::<P>(typed)?);
    Ok(Exit::Held)
}

/// The settings as YAML, with the passwords in URIs redacted. They hold API keys only as hashes, and other secrets only as
/// file names.
fn shown<P: Product>(mut typed: P::Typed) -> anyhow::Result<String> {
    for uri in P::uris(&mut typed) {
        *uri = redact::uri(uri);
    }
    serde_saphyr::to_string(&typed).context("write the settings as YAML")
}

/// Finds the server that the arguments or the settings name, or else starts one, and sets the URI to it.
fn open_database(
    uri: &mut Option<String>,
    args: &ServeArgs,
    client: DatabaseClient,
) -> Outcome<Option<Server>> {
    let choice: Choice = match (&args.server, uri.take()) {
        (Some(server), _) => server.parse().deserves(Exit::Usage)?,
        (None, Some(named)) => Choice::Uri(named),
        (None, None) => Choice::Any,
    };
    if let Choice::Uri(named) = &choice {
        leave_as_it_is(args).deserves(Exit::Usage)?;
        *uri = Some(reachable(named, client)?);
        return Ok(None);
    }
    let server = start_server(&choice, args)?;
    *uri = Some(format!("mongodb://{}/?directConnection=true", server.address()));
    Ok(Some(server))
}

/// Finds a running server as every other command does, with the same messages, before the service listens. Returns its URI as the
/// service's client takes it.
fn reachable(uri: &str, client: DatabaseClient) -> Outcome<String> {
    let runtime = plimsoll_deployment::runtime().deserves(Exit::Failed)?;
    let start = StartOptions { console: console(false), ..StartOptions::quiet(COMMAND_TIMEOUT) };
    let warnings = match client {
        DatabaseClient::Driver => warnings_of_driver(uri),
        DatabaseClient::Lean => {
            check_durable(uri).deserves(Exit::Usage)?;
            warnings_of_store(uri)
        }
    };
    warnings.iter().for_each(|warning| start.console.warn(warning));
    RunningServer::open(&Choice::Uri(uri.to_owned()), start, &runtime)?;
    match client {
        DatabaseClient::Driver => for_driver(uri).deserves(Exit::Usage),
        DatabaseClient::Lean => Ok(uri.to_owned()),
    }
}

fn without_database(args: &ServeArgs) -> anyhow::Result<()> {
    for (word, is_given) in [
        ("--server", args.server.is_some()),
        ("--storage", args.storage.is_some()),
        ("--cache", args.cache.is_some()),
    ] {
        ensure!(!is_given, "{word}: the service `{}` has no database", args.service);
    }
    Ok(())
}

async fn run<P: Product>(settings: P::Settings, server: Option<&Server>) -> Outcome {
    let mut signals = Signals::listen().context("listen to signals")?;
    let service = match P::start(settings).await {
        Ok(service) => service,
        // The message already contains the causes.
        Err(error) => return Err(anyhow!("{error}")).deserves(exit_of(&error)),
    };
    print(&format!("{}\n", service.url()));
    tokio::select! {
        _ = signals.next() => end(service, &mut signals).await,
        reason = death(server) => {
            service.stop().await;
            Err(anyhow!(reason)).deserves(Exit::Server)
        }
        reason = service.failure() => {
            service.stop().await;
            Err(anyhow!(reason)).deserves(Exit::Failed)
        }
    }
}

/// The interval at which a managed server is watched.
const WATCH: Duration = Duration::from_millis(500);

/// Waits for the death of the server that this process started. Without one, waits for ever.
async fn death(server: Option<&Server>) -> String {
    let Some(server) = server else { return std::future::pending().await };
    while server.is_running() {
        tokio::time::sleep(WATCH).await;
    }
    let log = fs::read_to_string(server.log()).unwrap_or_default();
    let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    format!("the database died, so the service ends; the last line of its log: {last}")
}

async fn fill<P: Product>(settings: P::Settings, order: &str) -> Outcome {
    let filled = P::fill(settings, order, &mut |message| print(&format!("{message}\n"))).await;
    filled.map_err(|reason| anyhow!(reason)).deserves(Exit::Server)?;
    Ok(Exit::Held)
}

/// The largest number of threads for CPU-bound work, such as parsing batches. More threads would only slow
/// down the answers.
const BLOCKING_THREADS_MAX: usize = 8;

const fn exit_of(error: &StartError) -> Exit {
    match error {
        StartError::Listen(_) => Exit::Failed,
        StartError::Storage(_) => Exit::Server,
    }
}

/// Finishes accepted requests; a second signal aborts them.
async fn end<S: State>(service: Running<S>, signals: &mut Signals) -> Outcome {
    tokio::select! {
        ending = service.stop() => Ok(match ending {
            Ending::Drained => Exit::Held,
            Ending::Cut { connections } => {
                say(&format!("plimsoll: {connections} connections were cut off: they did not finish in time"));
                Exit::Failed
            }
        }),
        _ = signals.next() => {
            say("plimsoll: aborted; unacknowledged writes may not be stored");
            Ok(Exit::Interrupted)
        }
    }
}

/// The settings of the file, changed by `--set` and by options such as `--listen`.
fn typed<P: Product>(args: &ServeArgs) -> anyhow::Result<P::Typed> {
    let file = args.config.as_deref();
    let text = file.map(read).transpose()?.unwrap_or_default();
    // The file is parsed before `--set` is applied: only then an error can name the line.
    let of = || format!("--config {}", file.map_or_else(String::new, |file| file.display().to_string()));
    let mut typed: P::Typed = if args.check {
        // A run wrote the text, not a user: an error names its line, but no file.
        plimsoll_yaml::value(&text).map_err(|slip| anyhow!(rendered(&slip, &text, "settings")))?
    } else {
        settings::read(&text).with_context(of)?
    };
    if !args.overrides.is_empty() {
        let before = serde_json::to_value(&typed).context("write the settings as a tree")?;
        let all: Vec<_> = args.overrides.iter().collect();
        let tree = changed(&before, &all)?;
        typed = P::Typed::deserialize(&tree).map_err(|error| {
            let path = cause::<P::Typed>(&before, &all).map(|path| format!(" {path}")).unwrap_or_default();
            anyhow!("--set{path}: {}", of_tree(&error, &tree))
        })?;
    }
    if let Some(listen) = args.listen {
        *P::listen(&mut typed) = listen;
    }
    Ok(typed)
}

/// The settings with these assignments.
fn changed(before: &Value, assignments: &[&String]) -> anyhow::Result<Value> {
    let mut tree = before.clone();
    assignments.iter().try_for_each(|assignment| set(&mut tree, assignment))?;
    Ok(tree)
}

/// The path of the assignment without which the others are valid.
fn cause<T: DeserializeOwned>(before: &Value, assignments: &[&String]) -> Option<String> {
    let is_valid_without = |left_out: usize| {
        let rest = assignments.iter().enumerate().filter(|(index, _)| *index != left_out);
        let rest: Vec<_> = rest.map(|(_, assignment)| *assignment).collect();
        changed(before, &rest).is_ok_and(|tree| T::deserialize(&tree).is_ok())
    };
    let index = (0..assignments.len()).find(|index| is_valid_without(*index))?;
    assignments[index].split_once('=').map(|(path, _)| path.to_owned())
}

fn read(path: &Path) -> anyhow::Result<String> {
    text_of(path, FILE_BYTES_MAX).context("--config")
}

fn set(tree: &mut Value, assignment: &str) -> anyhow::Result<()> {
    let (path, value) = assigned(assignment, "readings.design=bucket")?;
    put(tree, path, value).with_context(|| format!("--set {path}"))
}

/// Starts a server, which ends with the value.
fn start_server(choice: &Choice, args: &ServeArgs) -> Outcome<Server> {
    let storage = args.storage.clone().map_or(Storage::Temporary, Storage::At);
    let cache_bytes = args.cache.map(Bytes::get);
    let server = match choice {
        Choice::Any => return start_any_server(args),
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
        Choice::Uri(_) | Choice::Several(_) => {
            return Err(anyhow!("--server: name one server")).deserves(Exit::Usage);
        }
    };
    if args.storage.is_none() {
        tracing::warn!(
            "all data lies in a temporary directory and is removed when this service ends: use --storage DIR to keep it"
        );
    }
    Ok(server)
}

/// Starts the server that a run without `--server` starts, and says which one.
fn start_any_server(args: &ServeArgs) -> Outcome<Server> {
    let (choice, name) = match mongod::find() {
        Some(_) => (Choice::Mongod, "a mongod from the PATH"),
        None => (Choice::Embedded(Profile::Journaled), "the embedded server"),
    };
    let server = start_server(&choice, args)?;
    let lasts = match &args.storage {
        Some(dir) => format!("its data lie in {}", dir.display()),
        None => "its data last only as long as the service, unless --storage DIR names a directory".into(),
    };
    say(&format!("plimsoll: no server is named, so the service starts {name}; {lasts}"));
    Ok(server)
}

/// Refuses `--storage` and `--cache` for a running server, which has its own.
fn leave_as_it_is(args: &ServeArgs) -> anyhow::Result<()> {
    for (word, is_said) in [("--storage", args.storage.is_some()), ("--cache", args.cache.is_some())] {
        ensure!(!is_said, "{word}: a running server has its own; use --server embedded");
    }
    Ok(())
}

pub(super) fn log_to_stderr(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt().with_writer(stderr).with_max_level(level).with_target(false);
    // A second subscriber is ignored: the first one keeps logging.
    lines.try_init().unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use plimsoll_telemetry::serve::Telemetry;
    use plimsoll_telemetry::settings::Typed;

    use super::*;

    #[test]
    fn printed_settings_hold_no_password() {
        let text = "database: {uri: 'mongodb://ann:hunter2@h:1/?proxyPassword=hunter2', name: a}";
        let shown = shown::<Telemetry>(Typed::read(text).unwrap()).unwrap();
        assert!(shown.contains("ann:***@h:1") && !shown.contains("hunter2"), "{shown}");
    }
}
