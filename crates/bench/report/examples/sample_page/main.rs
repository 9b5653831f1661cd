//! Makes pages and terminal summaries from SAMPLE DATA, so that developers can look at them:
//! `cargo run -p plimsoll-report --example sample_page -- DIRECTORY`.

mod sample;

use std::path::PathBuf;
use std::{env, fs, io};

use plimsoll_report::text::{Screen, Style};

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1).map_or_else(env::temp_dir, PathBuf::from);
    fs::create_dir_all(&directory)?;
    let screen = Screen { style: Style::Colour, ..Screen::PIPE };
    let samples = [
        ("sample-load", sample::load(180, &["insert", "find"])),
        ("sample-line", sample::search()),
        ("sample-ladder", sample::ladder()),
        ("sample-broken", sample::broken()),
    ];
    for (name, sample) in samples {
        let path = directory.join(format!("{name}.html"));
        fs::write(&path, plimsoll_report::page(&sample.page()))?;
        println!("{}", plimsoll_report::summary(&sample.run, path.to_str(), screen));
    }
    Ok(())
}
