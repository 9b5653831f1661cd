//! Runs `cargo xtask dist`: packs the release binary, its pages, completions, units and licences as an
//! archive and as a Debian package.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::command::{self, cargo, root};
use crate::notices;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Each shell, and the path of its completions below the root of the archive and below `usr` in the package.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/plimsoll"),
    ("zsh", "share/zsh/vendor-completions/_plimsoll"),
    ("fish", "share/fish/vendor_completions.d/plimsoll.fish"),
];
const UNITS: [&str; 2] = ["plimsoll-serve@.service", "plimsoll-pipeline@.service"];
/// The profile of the packed binary.
const PROFILE: &str = "release-lto";
/// Packs the table of relocations, which saves a megabyte. Needs glibc 2.36.
const RELOCATIONS: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";
/// The symbols that stay for backtraces: functions of this workspace.
const KEPT_SYMBOLS: &str = "*plimsoll*";
const DOCS: &str = "share/doc/plimsoll";

/// Options of the package.
#[derive(Args)]
pub(crate) struct Dist {
    /// Pack this binary; by default a build optimised as a whole, with the features kafka and embedding.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The directory that receives the archive and the package.
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
}

/// The packed files.
pub(crate) struct Packed {
    /// `plimsoll-VERSION-ARCH-linux.tar.gz`
    pub(crate) archive: PathBuf,
    /// `plimsoll_VERSION_ARCH.deb`
    pub(crate) package: PathBuf,
}

/// Packs, checks the result, and prints the paths.
pub(crate) fn run(dist: &Dist) -> Result<()> {
    let out = root().join(&dist.out);
    let binary = match &dist.binary {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let packed = pack(&binary, &out)?;
    check(&packed, &out)?;
    println!("{}\n{}", packed.archive.display(), packed.package.display());
    Ok(())
}

fn build() -> Result<PathBuf> {
    command::run(cargo().args([
        "rustc",
        "--profile",
        PROFILE,
        "--locked",
        "--package",
        "plimsoll",
        "--bin",
        "plimsoll",
        "--features",
        "full",
        "--",
        RELOCATIONS,
    ]))?;
    Ok(command::target()?.join(PROFILE).join("plimsoll"))
}

/// Packs a binary into `out`, which is emptied first.
pub(crate) fn pack(binary: &Path, out: &Path) -> Result<Packed> {
    let _ = fs::remove_dir_all(out);
    let name = format!("plimsoll-{VERSION}-{ARCH}-linux");
    let tree = out.join(&name);
    stage(binary, &tree)?;
    let archive = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    command::run(tar.arg(&archive).arg("--directory").arg(out).arg(&name))?;
    let package = debian(&tree, out)?;
    Ok(Packed { archive, package })
}

/// Lays out all files as below `/usr`.
fn stage(binary: &Path, tree: &Path) -> Result<()> {
    let program = tree.join("bin/plimsoll");
    copy(binary, &program)?;
    let strip = ["--wildcard", "--strip-unneeded", "--keep-symbol", KEPT_SYMBOLS];
    command::run(Command::new("strip").args(strip).arg(&program))?;
    for (shell, path) in COMPLETIONS {
        write(&tree.join(path), &output(&program, &["completions", shell])?)?;
    }
    let pages = tree.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    command::run(Command::new(&program).arg("man").arg(&pages))?;
    for unit in UNITS {
        copy(&root().join("deploy/systemd").join(unit), &tree.join("lib/systemd/system").join(unit))?;
    }
    for page in ["README.md", "CHANGELOG.md", "LICENSE", "THIRD-PARTY.md"] {
        copy(&root().join(page), &tree.join(DOCS).join(page))?;
    }
    notices::copy_licences(&tree.join(DOCS).join("licences"))
}

/// Creates a Debian package of the tree.
fn debian(tree: &Path, out: &Path) -> Result<PathBuf> {
    let (root, architecture) = (out.join("debian"), architecture()?);
    fs::create_dir_all(&root)?;
    command::run(Command::new("cp").arg("-a").arg(tree).arg(root.join("usr")))?;
    let documents = root.join("usr").join(DOCS);
    fs::rename(documents.join("LICENSE"), documents.join("copyright"))
        .context("name the licence `copyright`")?;
    write(&root.join("DEBIAN/control"), control(architecture, kibibytes(&root)?).as_bytes())?;
    let package = out.join(format!("plimsoll_{VERSION}_{architecture}.deb"));
    command::run(
        Command::new("dpkg-deb").args(["--root-owner-group", "-Zgzip", "--build"]).arg(&root).arg(&package),
    )?;
    fs::remove_dir_all(&root)?;
    Ok(package)
}

fn control(architecture: &str, kibibytes: u64) -> String {
    format!(
        "Package: plimsoll\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: The Plimsoll authors <plimsoll@localhost>\n\
         Installed-Size: {kibibytes}\n\
         Depends: libc6 (>= 2.36), libgcc-s1\n\
         Section: database\n\
         Priority: optional\n\
         Description: the load line of a MongoDB deployment\n \
         Finds how much load a MongoDB deployment, a service before it or a pipeline into it\n \
         takes, at what latency, and proves that no acknowledged write was lost.\n"
    )
}

/// Debian's name of this machine's architecture.
fn architecture() -> Result<&'static str> {
    match ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no Debian package for {other}: supported are x86_64 and aarch64"),
    }
}

fn kibibytes(directory: &Path) -> Result<u64> {
    let text = output(Path::new("du"), &["--summarize", "--block-size=1K", &directory.to_string_lossy()])?;
    let text = String::from_utf8(text)?;
    text.split_whitespace()
        .next()
        .and_then(|size| size.parse().ok())
        .context("read the size that `du` prints")
}

/// Unpacks archive and package into `out` and runs the program in each; checks that every page and unit
/// exists.
pub(crate) fn check(packed: &Packed, out: &Path) -> Result<()> {
    let (archive, package) = (out.join("from-archive"), out.join("from-package"));
    fs::create_dir_all(&archive)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]).arg(&packed.archive);
    command::run(tar.arg("--directory").arg(&archive))?;
    command::run(Command::new("dpkg-deb").arg("--extract").arg(&packed.package).arg(&package))?;
    for usr in [archive.clone(), package.join("usr")] {
        complete(&usr)?;
    }
    fs::remove_dir_all(archive)?;
    Ok(fs::remove_dir_all(package)?)
}

fn complete(usr: &Path) -> Result<()> {
    let version = String::from_utf8(output(&usr.join("bin/plimsoll"), &["--version"])?)?;
    ensure!(version.trim() == format!("plimsoll {VERSION}"), "the packed program says {version:?}");
    let files = COMPLETIONS.map(|(_, path)| path.to_owned()).into_iter();
    let files = files.chain(UNITS.map(|unit| format!("lib/systemd/system/{unit}")));
    let pages = ["plimsoll", "plimsoll-run", "plimsoll-serve", "plimsoll-pipeline-run"];
    for file in files.chain(pages.map(|page| format!("share/man/man1/{page}.1"))) {
        ensure!(
            usr.join(&file).metadata().is_ok_and(|it| it.len() > 0),
            "{file} is missing or empty in the package"
        );
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("copy into a directory")?)?;
    fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn write(to: &Path, text: &[u8]) -> Result<()> {
    fs::create_dir_all(to.parent().context("write into a directory")?)?;
    fs::write(to, text).with_context(|| format!("write {}", to.display()))
}

/// The output of a program. An error unless it succeeds.
fn output(program: &Path, words: &[&str]) -> Result<Vec<u8>> {
    let output =
        Command::new(program).args(words).output().with_context(|| format!("run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "`{} {}` failed ({})",
        program.display(),
        words.join(" "),
        output.status
    );
    Ok(output.stdout)
}
