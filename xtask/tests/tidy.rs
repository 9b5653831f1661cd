//! Checks the layout of the workspace: allowed dependencies, the form of every file, and the language of
//! comments.
//!
//! Each test is one rule and lists every breach at once, with its remedy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "tidy/cycles.rs"]
mod cycles;

/// The crates of the workspace and their allowed dependencies. A new line or name is a decision: add it to
/// ARCHITECTURE.md too.
const EDGES: &[(&str, &[&str])] = &[
    ("measure", &[]),
    ("element", &[]),
    ("document", &["measure", "element"]),
    ("ledger", &["measure"]),
    ("net", &[]),
    ("wire", &["element", "net"]),
    ("yaml", &[]),
    ("jq", &[]),
    ("install", &[]),
    ("process", &[]),
    ("load", &["measure"]),
    ("consistency", &["measure"]),
    ("host", &["measure", "element", "wire", "install", "process"]),
    ("deployment", &["measure", "wire"]),
    ("mongo", &["measure", "element", "document", "ledger", "wire", "load", "consistency", "deployment"]),
    ("http", &["measure", "element", "document", "ledger", "net", "load"]),
    ("pipeline", &["measure", "jq"]),
    ("workflow", &["measure", "yaml", "jq"]),
    ("kafka", &["measure", "pipeline", "install", "process"]),
    ("postgres", &["measure", "net", "workflow", "install", "process"]),
    ("onnx", &["measure", "pipeline", "install"]),
    ("stores", &["measure", "element", "ledger", "wire", "pipeline", "workflow", "deployment"]),
    ("service", &["yaml"]),
    ("telemetry", &["service"]),
    ("workflow-service", &["measure", "net", "workflow", "stores", "postgres", "service"]),
    ("catalogue", &["net", "service"]),
    ("report", &["measure"]),
    (
        "series",
        &[
            "measure",
            "document",
            "ledger",
            "yaml",
            "wire",
            "load",
            "process",
            "host",
            "deployment",
            "mongo",
            "pipeline",
            "kafka",
            "stores",
            "report",
            "scenario",
            "run",
            "systems",
            "stream",
        ],
    ),
    (
        "stream",
        &[
            "measure",
            "document",
            "ledger",
            "wire",
            "process",
            "host",
            "deployment",
            "mongo",
            "pipeline",
            "kafka",
            "onnx",
            "stores",
            "report",
            "scenario",
            "run",
        ],
    ),
    (
        "run",
        &[
            "measure",
            "ledger",
            "wire",
            "load",
            "process",
            "host",
            "deployment",
            "mongo",
            "report",
            "scenario",
        ],
    ),
    (
        "systems",
        &[
            "measure",
            "document",
            "ledger",
            "wire",
            "load",
            "consistency",
            "process",
            "host",
            "deployment",
            "mongo",
            "http",
            "scenario",
            "run",
        ],
    ),
    ("scenario", &["measure", "document", "ledger", "yaml", "load", "host", "mongo", "http"]),
    (
        "workflow-load",
        &[
            "measure",
            "wire",
            "load",
            "install",
            "process",
            "host",
            "deployment",
            "workflow",
            "postgres",
            "stores",
            "scenario",
            "run",
            "systems",
        ],
    ),
    (
        "selftest",
        &[
            "measure",
            "ledger",
            "wire",
            "load",
            "consistency",
            "host",
            "deployment",
            "mongo",
            "report",
            "scenario",
            "run",
            "systems",
        ],
    ),
    ("telemetry-load", &["measure", "http", "scenario", "run", "systems"]),
    ("catalogue-load", &["measure", "http", "scenario", "run", "systems"]),
    (
        "plimsoll",
        &[
            "measure",
            "document",
            "ledger",
            "yaml",
            "wire",
            "load",
            "host",
            "deployment",
            "mongo",
            "http",
            "report",
            "scenario",
            "run",
            "systems",
            "selftest",
            "stream",
            "series",
            "service",
            "telemetry",
            "telemetry-load",
            "catalogue",
            "catalogue-load",
            "workflow",
            "workflow-load",
            "workflow-service",
            "pipeline",
            "stores",
            "kafka",
            "onnx",
            "install",
            "process",
        ],
    ),
    ("xtask", &["install"]),
];

/// The largest number of code lines of the binary crate, which keeps only the words of commands, the registry
/// and exit codes.
const BINARY_LINES_MAX: usize = 5_000;

/// The crate that every crate's tests may use; the tests of `plimsoll` may use all.
const TEST_CRATE: &str = "host";

/// An outside crate that only some crates may use.
struct Restricted {
    name: &'static str,
    crates: &'static [&'static str],
    /// Crates whose tests may use it as well.
    tests: &'static [&'static str],
}

const RESTRICTED: &[Restricted] = &[
    // The tests of `wire` compare it with the driver.
    Restricted {
        name: "mongodb",
        crates: &["deployment", "mongo", "stores", "telemetry", "catalogue"],
        tests: &["wire"],
    },
    Restricted { name: "rustls", crates: &["net", "service"], tests: &["telemetry"] },
    // The tests of `http` and `telemetry` speak TLS themselves.
    Restricted { name: "tokio-rustls", crates: &["net", "service"], tests: &["http", "telemetry"] },
    Restricted { name: "clap", crates: &["plimsoll", "xtask"], tests: &[] },
    Restricted {
        name: "anyhow",
        crates: &[
            "scenario",
            "run",
            "systems",
            "selftest",
            "telemetry-load",
            "catalogue-load",
            "workflow-load",
            "series",
            "stream",
            "plimsoll",
            "xtask",
        ],
        tests: &[],
    },
    Restricted { name: "mimalloc", crates: &["plimsoll"], tests: &[] },
    Restricted {
        name: "axum",
        crates: &["service", "telemetry", "catalogue", "workflow-service", "stream"],
        tests: &["plimsoll"],
    },
    Restricted { name: "ort", crates: &["onnx"], tests: &[] },
    Restricted { name: "tokenizers", crates: &["onnx"], tests: &[] },
    Restricted { name: "rdkafka", crates: &["kafka"], tests: &[] },
    Restricted { name: "tokio-postgres", crates: &["postgres"], tests: &[] },
];

/// Words that mark unfinished code, in two parts so that this file contains none.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("db", "g!")];
const ALLOW: &str = concat!("#[al", "low(");
const UNSAFE: &str = concat!("un", "safe");
const SAFETY: &str = "// SAFETY:";
/// Openings of a doc comment that hide its subject.
const QUESTIONS: &[&str] = &["What ", "Who ", "Of ", "Which "];
/// The number of lines above the keyword in which its reason may begin.
const SAFETY_LINES: usize = 6;

#[test]
fn a_crate_knows_only_what_the_table_of_edges_allows() {
    let breaches = dependencies().into_iter().filter_map(|edge| {
        let to = short_name(&edge.to).filter(|_| edge.ours)?;
        let allowed = EDGES.iter().find(|(from, _)| *from == edge.from).map_or(&[][..], |(_, to)| to);
        let in_tests = edge.test && (to == TEST_CRATE || edge.from == "plimsoll");
        (!allowed.contains(&to) && !in_tests).then(|| {
            format!("{} → {to}: move the code to the right crate; a new edge needs a decision", edge.from)
        })
    });
    report(breaches);
}

#[test]
fn the_table_of_edges_names_every_crate_and_no_other() {
    let (crates, table) = (crates(), EDGES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let missing = crates.iter().filter(|name| !table.contains(&name.as_str()));
    let stale = table.iter().filter(|name| !crates.iter().any(|known| known == *name));
    report(
        missing
            .map(|name| format!("{name}: add its allowed dependencies to EDGES in xtask/tests/tidy.rs"))
            .chain(stale.map(|name| format!("{name}: no such crate exists, remove it from EDGES"))),
    );
}

#[test]
fn an_outside_crate_is_used_only_where_allowed() {
    let breaches = dependencies().into_iter().filter_map(|edge| {
        let restricted = RESTRICTED.iter().find(|restricted| restricted.name == edge.to)?;
        let from = edge.from.as_str();
        let allowed = restricted.crates.contains(&from) || (edge.test && restricted.tests.contains(&from));
        (!allowed).then(|| {
            format!("{from} → {}: only {:?} may use it; go through them", edge.to, restricted.crates)
        })
    });
    report(breaches);
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    let breaches = packages().into_iter().flat_map(|package| {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        let src = manifest.parent().unwrap().join("src");
        let paths = files(&src, "rs", Depth::Tree);
        let texts: Vec<String> = paths.iter().map(|path| read(path)).collect();
        let sources: Vec<_> = paths
            .iter()
            .zip(&texts)
            .map(|(path, text)| (path.strip_prefix(&src).unwrap(), text.as_str()))
            .collect();
        let found = cycles::cycles(&sources).into_iter();
        found
            .map(|(parent, cycle)| {
                format!(
                    "{name}: in {parent}, {} import each other: move the shared item down",
                    cycle.join(", ")
                )
            })
            .collect::<Vec<_>>()
    });
    report(breaches);
}

#[test]
fn the_binary_stays_small() {
    let lines = |path: &PathBuf| code_lines(&read(path));
    let all: usize = files(&root().join("crates/plimsoll/src"), "rs", Depth::Tree).iter().map(lines).sum();
    assert!(all <= BINARY_LINES_MAX, "{all} code lines: move what is not a command's words to another crate");
}

#[test]
fn every_crate_has_a_row_of_one_sentence_in_architecture_md() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let breaches = crates().into_iter().filter_map(|name| match sentence(&text, &name) {
        None => Some(format!("{name}: add the row | `{name}` | its purpose, in one sentence. | … |")),
        Some(sentence) if is_one_sentence(sentence) => None,
        Some(sentence) => Some(format!("{name}: write one sentence with a full stop, not {sentence:?}")),
    });
    report(breaches);
}

#[test]
fn every_rust_file_opens_with_its_purpose() {
    report(
        sources().into_iter().filter(|source| !source.text.starts_with("//! ")).map(|source| {
            format!("{}: open it with `//!` and a sentence that names its purpose", source.name)
        }),
    );
}

#[test]
fn unsafe_code_has_a_safety_comment() {
    report(sources().iter().flat_map(unsound));
}

#[test]
fn a_doc_comment_opens_with_its_subject() {
    report(sources().iter().flat_map(unnamed));
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    let what = "fix the code, or use #[expect(…, reason = \"…\")]";
    report(sources().iter().flat_map(|source| source.lines_with(ALLOW, what)));
}

#[test]
fn no_code_is_unfinished() {
    let breaches = sources().into_iter().flat_map(|source| {
        let lines = |word: &&str| source.lines_with(word, "finish it, or name the gap in docs");
        UNFINISHED.iter().flat_map(lines).collect::<Vec<_>>()
    });
    report(breaches);
}

#[test]
fn every_relative_link_in_the_docs_leads_to_a_file() {
    let mut pages = files(&root(), "md", Depth::Flat);
    pages.extend(files(&root().join("docs"), "md", Depth::Tree));
    let breaches = pages.iter().flat_map(|page| {
        let text = read(page);
        let dead = links(&text).filter(|link| !target_exists(page, link)).map(str::to_owned);
        dead.map(|link| format!("{}: {link} does not exist: fix the link", name(page))).collect::<Vec<_>>()
    });
    report(breaches);
}

#[test]
fn these_rules_find_breaches() {
    let source = |text: &str| Source { name: "x.rs".into(), text: text.into() };
    let bare = format!("{UNSAFE} {{ f() }}");
    assert_eq!(unsound(&source(&bare)).len(), 1);
    assert_eq!(unsound(&source(&format!("{SAFETY} f is sound.\n{bare}"))).len(), 0);
    assert_eq!(unsound(&source(&format!("// never {UNSAFE}\nlet {UNSAFE}_ = 1;"))).len(), 0);
    assert_eq!(source(&format!("a\n{ALLOW}dead_code)]")).lines_with(ALLOW, "no"), ["x.rs:2: no"]);

    let comments = source("/// What it is.\n/// Which one.\nfn f() {}\n    //! Of all.\n/// The one.");
    assert_eq!(unnamed(&comments).len(), 2);

    let page =
        "[a](b.md#c) `[no](x)` ![d](e.svg \"title\")\n```\n[no](y)\n```\n[web](https://z) [here](#top)";
    assert_eq!(links(page).collect::<Vec<_>>(), ["b.md", "e.svg"]);

    assert_eq!(code_lines("//! A page.\n\nfn f() {\n    // Why.\n}\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);

    let table = "| crate | purpose |\n| [`wire`](crates/base/wire) | The lean client. | — |";
    assert_eq!(sentence(table, "wire"), Some("The lean client."));
    assert_eq!(sentence(table, "load"), None);
    assert!(is_one_sentence("The lean client.") && !is_one_sentence("The lean client. It is fast."));
}

/// Doc comments that open with a question word: they do not name their subject.
fn unnamed(source: &Source) -> Vec<String> {
    let opening = |line: &str| {
        let text = line.trim_start();
        text.strip_prefix("/// ").or(text.strip_prefix("//! ")).map(str::to_owned)
    };
    let texts: Vec<_> = source.text.lines().map(opening).collect();
    let opens = |index: usize| index == 0 || texts[index - 1].is_none();
    let found = texts.iter().enumerate().filter(|(index, text)| {
        let question = |text: &String| QUESTIONS.iter().any(|word| text.starts_with(word));
        opens(*index) && text.as_ref().is_some_and(question)
    });
    found
        .map(|(index, _)| format!("{}:{}: name the subject, then say what it does", source.name, index + 1))
        .collect()
}

/// Fails with all breaches of a rule, one a line.
fn report(breaches: impl Iterator<Item = impl Display>) {
    let breaches: Vec<String> = breaches.map(|breach| format!("\n  {breach}")).collect();
    assert!(breaches.is_empty(), "{}", breaches.concat());
}

/// One dependency of a workspace crate, as its Cargo.toml declares it.
struct Edge {
    from: String,
    to: String,
    /// Whether it belongs to this workspace.
    ours: bool,
    /// Whether only tests, benchmarks and examples use it.
    test: bool,
}

fn dependencies() -> Vec<Edge> {
    let edge = |from: &str, to: &Value| Edge {
        from: short_name(from).unwrap_or(from).to_owned(),
        to: to["name"].as_str().unwrap_or_default().to_owned(),
        ours: to["path"].is_string(),
        test: to["kind"] == "dev",
    };
    let of_package = |package: &Value| {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let list = package["dependencies"].as_array().cloned().unwrap_or_default();
        list.iter().map(|to| edge(&name, to)).collect::<Vec<_>>()
    };
    packages().iter().flat_map(of_package).collect()
}

fn crates() -> Vec<String> {
    let name = |package: &Value| short_name(package["name"].as_str()?).map(str::to_owned);
    packages().iter().filter_map(name).collect()
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The short name of a package: `plimsoll-wire` is `wire`.
fn short_name(package: &str) -> Option<&str> {
    match package {
        "plimsoll" | "xtask" => Some(package),
        _ => package.strip_prefix("plimsoll-"),
    }
}

/// The second cell of the row that begins with a crate's name.
fn sentence<'a>(architecture: &'a str, name: &str) -> Option<&'a str> {
    let quoted = format!("`{name}`");
    let cells = |line: &'a str| {
        let mut cells = line.trim().strip_prefix('|')?.split('|');
        Some((cells.next()?, cells.next()?.trim()))
    };
    architecture
        .lines()
        .filter_map(cells)
        .find(|(first, _)| first.contains(&quoted))
        .map(|(_, sentence)| sentence)
}

fn is_one_sentence(sentence: &str) -> bool {
    sentence.ends_with('.') && !sentence.contains(". ")
}

/// A Rust file of the workspace.
struct Source {
    name: String,
    text: String,
}

impl Source {
    /// A breach for each line that contains the word.
    fn lines_with(&self, word: &str, what: &str) -> Vec<String> {
        let found = self.text.lines().enumerate().filter(|(_, line)| line.contains(word));
        found.map(|(index, _)| format!("{}:{}: {what}", self.name, index + 1)).collect()
    }
}

fn sources() -> Vec<Source> {
    let source = |path: PathBuf| Source { name: name(&path), text: read(&path) };
    let directories = ["crates", "xtask"].map(|directory| files(&root().join(directory), "rs", Depth::Tree));
    directories.into_iter().flatten().map(source).collect()
}

/// The lines before the tests, without comments and blank lines.
fn code_lines(text: &str) -> usize {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Uses of the keyword without a reason in the lines above.
fn unsound(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let excused = |index: usize| {
        lines[index.saturating_sub(SAFETY_LINES)..=index].iter().any(|line| line.contains(SAFETY))
    };
    let found = lines.iter().enumerate().filter(|(index, line)| contains_unsafe(line) && !excused(*index));
    found.map(|(index, _)| format!("{}:{}: say why under {SAFETY}", source.name, index + 1)).collect()
}

/// Whether a line contains the keyword outside of a comment.
fn contains_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == UNSAFE)
}

/// The targets of a page's links to files, without their anchors. Code is skipped.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let prose = page.split("```").step_by(2).flat_map(|prose| prose.split('`').step_by(2));
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets
        .filter_map(|target| target.split([' ', '#']).next())
        .filter(|path| !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:"))
}

fn target_exists(page: &Path, link: &str) -> bool {
    page.parent().is_some_and(|directory| directory.join(link).exists())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Flat,
    Tree,
}

/// The files with an extension, in order, without cargo's build directories.
fn files(directory: &Path, extension: &str, depth: Depth) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() && depth == Depth::Tree && !path.ends_with("target") {
            found.extend(files(&path, extension, depth));
        } else if path.extension().is_some_and(|its| its == extension) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A path relative to the root.
fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).unwrap().to_owned()
}
