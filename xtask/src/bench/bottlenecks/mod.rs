//! Injects one known cause at a time into an embedded server, searches for its load line, and counts which bottleneck the search
//! names: a confusion matrix of causes and names.
//!
//! All searches take hours, so results are kept: the same command continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

mod cause;
mod cgroup;
mod delay;
mod matrix;
mod server;

use cause::Cause;
use cgroup::Cgroup;
use delay::Proxy;
use server::Server;

use crate::command::{self, cargo};

/// Options of the injections.
#[derive(Args)]
pub(crate) struct Bottlenecks {
    /// The number of searches of each cause.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only these causes.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    only: Vec<String>,
    /// The time of each search.
    #[arg(long, value_name = "TIME", default_value = "90s")]
    budget: String,
    /// The directory of the results; existing results are kept.
    #[arg(long, value_name = "DIR", default_value = "target/bench-bottlenecks")]
    out: PathBuf,
    /// The program; by default an optimised build of these sources.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Makes the missing searches, prints each result, and then the matrix.
pub(crate) fn run(bench: &Bottlenecks) -> Result<()> {
    let out = command::root().join(&bench.out);
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    let (binary, causes) = (program(bench)?, chosen(&bench.only)?);
    let mut rows = Vec::new();
    // Rounds interleave the causes, so that a slow change of the machine affects all alike.
    for round in 1..=bench.rounds {
        for cause in &causes {
            let row = one(bench, &binary, &out, round, *cause)?;
            println!("{}", matrix::line(&row));
            rows.push(row);
        }
    }
    let table = matrix::table(&causes, &rows);
    fs::write(out.join("matrix.txt"), &table).with_context(|| format!("write into {}", out.display()))?;
    println!("\n{table}");
    Ok(())
}

fn program(bench: &Bottlenecks) -> Result<PathBuf> {
    if let Some(binary) = &bench.binary {
        return binary.canonicalize().with_context(|| format!("find {}", binary.display()));
    }
    command::run(cargo().args(["build", "--release", "--package", "plimsoll"]))?;
    Ok(command::root().join("target/release/plimsoll"))
}

fn chosen(only: &[String]) -> Result<Vec<Cause>> {
    let names = Cause::ALL.map(Cause::name);
    let unknown: Vec<_> = only.iter().filter(|name| !names.contains(&name.as_str())).cloned().collect();
    ensure!(unknown.is_empty(), "--only {}: name some of {}", unknown.join(","), names.join(", "));
    let is_chosen = |cause: &Cause| only.is_empty() || only.iter().any(|name| name == cause.name());
    Ok(Cause::ALL.into_iter().filter(is_chosen).collect())
}

/// Makes one search, unless its result exists.
fn one(bench: &Bottlenecks, binary: &Path, out: &Path, round: u32, cause: Cause) -> Result<Value> {
    let kept = out.join(format!("{round:03}-{}.json", cause.name()));
    if let Ok(text) = fs::read_to_string(&kept) {
        return serde_json::from_str(&text).with_context(|| format!("understand {}", kept.display()));
    }
    let home = out.join(format!("{round:03}-{}", cause.name()));
    match fs::remove_dir_all(&home) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", home.display()));
        }
        _ => fs::create_dir_all(&home).with_context(|| format!("make {}", home.display()))?,
    }
    let found = search(bench, binary, &home, cause).with_context(|| format!("inject {}", cause.name()))?;
    let row = json!({"round": round, "cause": cause.name(), "line": found});
    fs::write(&kept, format!("{row}\n")).with_context(|| format!("write {}", kept.display()))?;
    fs::remove_dir_all(&home).with_context(|| format!("remove {}", home.display()))?;
    Ok(row)
}

/// Starts the server, injects the cause, searches, and returns the line.
fn search(bench: &Bottlenecks, binary: &Path, home: &Path, cause: Cause) -> Result<Value> {
    let server = Server::start(&home.join("data"), cause.server_args())?;
    let limits = Cgroup::around(server.pid(), &cause.server_limits(), home)?;
    let proxy = cause.delay().map(|delay| Proxy::start(server.port(), delay)).transpose()?;
    let port = proxy.as_ref().map_or(server.port(), Proxy::port);
    let scenario = home.join("scenario.yaml");
    fs::write(&scenario, cause.scenario()).context("write the scenario")?;
    let mut command = Command::new(binary);
    command.args(["line", "--quiet", "--no-calibration", "--budget", &bench.budget]).arg(&scenario);
    command.args(["--server", &format!("mongodb://127.0.0.1:{port}"), "--out"]).arg(home.join("run"));
    let log = fs::File::create(home.join("plimsoll.txt")).context("make the log")?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut client = command.spawn().context("run `plimsoll line`")?;
    let throttled = Cgroup::around(client.id(), &cause.client_limits(), home);
    let status = client.wait().context("wait for `plimsoll line`")?;
    drop((throttled?, limits, proxy));
    let file = home.join("run").join("run.json");
    let text = fs::read_to_string(&file).with_context(|| {
        format!("`plimsoll line` ended with {status}: see {}", home.join("plimsoll.txt").display())
    })?;
    let run: Value = serde_json::from_str(&text).context("understand run.json")?;
    ensure!(run["line"].is_object(), "run.json has no line");
    let keys = ["rate", "low", "high", "unit", "bottlenecks", "unmoved", "unchecked", "notes"];
    Ok(keys.into_iter().map(|key| (key.to_owned(), run["line"][key].clone())).collect())
}
