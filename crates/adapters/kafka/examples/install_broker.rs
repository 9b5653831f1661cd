//! Installs the tests' broker into the cache, unless it is installed.

use std::process::ExitCode;

use plimsoll_install::Cache;
use plimsoll_kafka::broker::{self, Step};

fn main() -> ExitCode {
    let mut tell = |progress: broker::Progress| {
        if progress.step != Step::Installed {
            eprintln!("{:>6.1} s  {:?}", progress.elapsed_ns as f64 / 1e9, progress.step);
        }
    };
    let installed = Cache::locate()
        .map_err(|error| error.to_string())
        .and_then(|cache| broker::install(cache.root(), &mut tell).map_err(|error| error.to_string()));
    match installed {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
