//! Installs the tests' PostgreSQL into the cache, unless it is installed.

use std::process::ExitCode;

use plimsoll_install::Cache;
use plimsoll_postgres::server;

fn main() -> ExitCode {
    let installed = Cache::locate().map_err(|error| error.to_string()).and_then(|cache| {
        let tell = &mut |step| eprintln!("PostgreSQL {}: {step:?}", server::VERSION);
        server::install(cache.root(), tell).map_err(|error| error.to_string())
    });
    match installed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
