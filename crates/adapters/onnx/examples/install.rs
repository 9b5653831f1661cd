//! Installs the model and ONNX Runtime for tests and benchmarks into the named cache.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_onnx::model::{Progress, Step, install};

fn main() -> ExitCode {
    let Some(cache) = env::args_os().nth(1) else {
        eprintln!("name the directory of the cache");
        return ExitCode::FAILURE;
    };
    match install(Path::new(&cache), &mut tell) {
        Ok(installed) => {
            println!("{}", installed.directory().display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(progress: Progress) {
    let seconds = progress.elapsed_ns / 1_000_000_000;
    match progress.step {
        Step::Waiting => eprintln!("{seconds:>3} s  waiting for another installation of the model"),
        Step::Fetching { package, bytes } => {
            eprintln!("{seconds:>3} s  fetching {package}, {} MB", bytes / 1_000_000)
        }
        Step::Building(precision) => eprintln!("{seconds:>3} s  building the model in {precision:?}"),
        Step::Installed => {}
    }
}
