//! Tests files that a command cannot read, and files and directories of other commands: each message names
//! the remedy.

use std::fs;
use std::path::Path;

use crate::program::{inserts, plimsoll_with, scenario, shared, stderr};

/// Words of the YAML library, of serde and of Rust that no message repeats.
const FOREIGN: [&str; 12] = [
    "Option<",
    "untagged",
    "budget",
    "variant",
    "struct ",
    "unknown field",
    "deserialize",
    "invalid type",
    "scalar",
    "u32",
    "sequence",
    "while parsing",
];

/// Runs a command on a file and checks that it ends with exit code 2 and a message with these parts. The result
/// is the message.
#[track_caller]
fn check(args: &[&str], parts: &[&str]) -> String {
    let output = plimsoll_with(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "`{part}` is not in: {said}"));
    FOREIGN.iter().for_each(|word| assert!(!said.contains(word), "`{word}` is in: {said}"));
    said
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A command, the text of its file, a part of that text, the slip in its place, and parts of the answer.
type Slip<'a> = (&'a [&'a str], &'a str, &'a str, &'a str, &'a [&'a str]);

/// Writes each file with its slip, and checks that the command refuses it in our words.
fn check_slips(slips: &[Slip<'_>]) {
    let dir = tempfile::tempdir().unwrap();
    for (command, text, typed, slip, parts) in slips {
        let file = write(dir.path(), "file.yaml", text.replacen(typed, slip, 1).as_bytes());
        check(&[command, &[file.as_str()][..]].concat(), &[parts, &[file.as_str()][..]].concat());
    }
}

#[test]
fn a_slip_in_a_scenario_is_answered_in_our_words() {
    let scenario = &inserts("slips", 10, "{documents: 10}");
    let long = format!("{{title: {}, titel: b}}\n#", "x".repeat(70));
    check_slips(&[
        (
            &["run"],
            scenario,
            "title: test",
            "title: null",
            &["line 1, column 8: found no value: write a text"],
        ),
        (
            &["run"],
            scenario,
            "title: test",
            "title: [a]",
            &["line 1, column 8: found a list: write a single value"],
        ),
        (&["run"], scenario, "{w: 1, j: true}", "{w: [1]}", &["w: write a number of members, majority"]),
        (
            &["run"],
            scenario,
            "writers: 2",
            "writers: 5_000_000_000",
            &["write a whole number from 0 to 4294967295"],
        ),
        (&["run"], scenario, "title: test", "title: test\ntitle: b", &["line 2, column 1", "appears twice"]),
        (&["run"], scenario, "title: test", "title: 'test", &["the quote is not closed"]),
        (&["run"], scenario, "title: test", "\ttitle: test", &["indent with spaces"]),
        (
            &["run"],
            scenario,
            "stop: {documents: 10}",
            "stop: {documents: 10}\n---\ntitle: b",
            &["a second document begins here"],
        ),
        (
            &["run"],
            scenario,
            "title: test",
            &long,
            &["line 1, column 81: unknown key `titel`: did you mean `title`?", "--> ", ":1:81\n"],
        ),
        (
            &["run"],
            scenario,
            "bytes: 40",
            "bytez: 40",
            &["line 3, column 45: document.text.$text: unknown setting \"bytez\"; did you mean \"bytes\"?"],
        ),
        (
            &["run", "--set", "title=b"],
            scenario,
            "bytes: 40",
            "bytez: 40",
            &["line 3, column 45: document.text.$text: unknown setting \"bytez\"; did you mean \"bytes\"?"],
        ),
    ]);
}

/// The texts of scenarios with templates in their operations, cells and requests.
struct Templates {
    /// An update named `bump` and a search named `seek`.
    operations: String,
    /// A matrix of one cell named `big`.
    matrix: String,
    /// A request named `send`.
    request: &'static str,
    /// The number of lines before the first operation and before the matrix.
    lines: usize,
}

fn templates() -> Templates {
    let inserts = inserts("slips", 5, "{documents: 10}");
    let update = "  - load:\n      bump:\n        operation: {update: {update: {$inc: {a: {$int: {max: 9}}}}}}\n        \
                  arrivals: {closed: {writers: 2}}\n    stop: {operations: 10}\n";
    let find = update
        .replace("bump", "seek")
        .replace("{update: {update: {$inc: {a: {$int", "{find: {filter: {b: {c: {$int");
    Templates {
        operations: format!("{inserts}{update}{find}"),
        matrix: format!(
            "{inserts}matrix:\n  axes:\n  - name: size\n    values:\n      big: {{document.text: {{$text: {{bytes: 80}}}}}}\n"
        ),
        request: "title: t\nhttp: {url: 'http://127.0.0.1:9'}\nphases:\n  - load:\n      send:\n        request: {post: /a, body: {n: \
                  {$number: {}}, text: {$text: {bytes: 40}}}}\n        arrivals: {closed: {writers: 2}}\n    stop: {operations: 4}\n",
        lines: inserts.lines().count(),
    }
}

#[test]
fn a_slip_in_a_template_inside_a_scenario_is_answered_with_its_place() {
    let Templates { operations, matrix, request, lines } = &templates();
    let [bump, seek] = [lines + 3, lines + 8].map(|line| format!("line {line}, column "));
    let cell = format!("line {}, column 37", lines + 5);
    check_slips(&[
        (
            &["run"],
            operations,
            "$int: {max: 9}}}}}}",
            "$int: {mx: 9}}}}}}",
            &[&format!("{bump}57: "), "unknown setting \"mx\"", "bump"],
        ),
        (
            &["run"],
            operations,
            "{c: {$int: {max: 9",
            "{c: {$int: {mx: 9",
            &[&format!("{seek}52: "), "unknown setting \"mx\"", "seek"],
        ),
        (&["run"], matrix, "bytes: 80", "bytez: 80", &[&cell, "unknown setting \"bytez\"", "the cell big"]),
        (&["run"], request, "bytes: 40", "bytez: 40", &["line 6, column 69: ", "unknown setting \"bytez\""]),
    ]);
}

#[test]
fn a_slip_in_a_template_is_answered_with_the_override_or_the_line_that_has_it() {
    let Templates { operations, matrix, request, lines } = &templates();
    let innocent = "phases.1.load.bump.arrivals.closed.writers=3";
    let line = format!("line {}, column 57: ", lines + 3);
    let filter = "phases.2.load.seek.operation.find.filter={b: {c: {$int: {mx: 9}}}}";
    let body = "phases.0.load.send.request.body.text={$text: {bytez: 4}}";
    let cell = "matrix.axes.0.values.big={document.text: {$text: {bytez: 80}}}";
    let dir = tempfile::tempdir().unwrap();
    for (text, typed, slip, sets, part, absent) in [
        (operations.as_str(), "{max: 9}}}}}}\n", "{mx: 9}}}}}}\n", [innocent, "seed=1"], &*line, "--set"),
        (operations, "", "", [innocent, filter], &format!("--set {filter}: "), "line "),
        (request, "", "", [body, "seed=1"], &format!("--set {body}: "), "line "),
        (matrix, "", "", [cell, "document.text={$text: {bytes: 4}}"], &format!("--set {cell}: "), "line "),
    ] {
        let file = write(dir.path(), "file.yaml", text.replacen(typed, slip, 1).as_bytes());
        let [first, second] = sets;
        let args = ["run", &file, "--set", first, "--set", second];
        let said = check(&args, &[part, "unknown setting "]);
        assert!(!said.contains(absent), "`{absent}` is in: {said}");
    }
}

#[test]
fn a_slip_in_any_other_file_is_answered_in_the_same_words() {
    let pipeline = "guarantee: at-most-once\nsource: {generator: {events: 1}}\nsink: {noop: {}}\n";
    let suite = "tests:\n  - {name: a, scenario: bulk-baseline}\n";
    let settings = "listen: 127.0.0.1:0\nlimits: {connections_max: 10}\n";
    check_slips(&[
        (
            &["pipeline", "run"],
            pipeline,
            "events: 1",
            "events: one",
            &["line 2, column 30", "found `one`: write a whole number"],
        ),
        (&["pipeline", "check"], pipeline, "noop: {}}", "noop: {}", &["`{` is not closed: write `}`"]),
        (
            &["suite"],
            suite,
            "name: a",
            "naem: a",
            &["line 2, column 6: unknown key `naem`: did you mean `name`?"],
        ),
        (
            &["serve", "telemetry", "--config"],
            settings,
            "max: 10",
            "max: ten",
            &["line 2, column 27: `connections_max`: write a whole number"],
        ),
        (
            &["serve", "telemetry", "--config"],
            settings,
            "limits",
            "limit",
            &["unknown key `limit`: did you mean `limits`?"],
        ),
    ]);
}

#[test]
fn a_file_that_holds_no_text_to_read_is_refused_by_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let latin = write(dir.path(), "latin.yaml", b"title: t\nquestion: caf\xe9\n");
    let empty = write(dir.path(), "empty.yaml", b"# nothing\n");
    let large = write(dir.path(), "large.yaml", &vec![b'#'; (4 << 20) + 1]);
    for command in [&["run"][..], &["pipeline", "run"], &["suite"], &["serve", "telemetry", "--config"]] {
        check(&[command, &[&latin]].concat(), &["latin.yaml: line 2, column 14: the byte 0xe9 is not UTF-8"]);
        check(&[command, &[&large]].concat(), &["large.yaml has more than", "make it smaller"]);
        if command[0] != "serve" {
            check(&[command, &[&empty]].concat(), &["empty.yaml", "the file is empty"]);
        }
    }
}

#[test]
fn a_file_or_directory_of_another_command_is_named_with_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().to_str().unwrap();
    let pipeline = write(dir.path(), "p.yaml", b"source: {generator: {}}\nsink: {noop: {}}\n");
    let load = write(dir.path(), "s.yaml", inserts("other", 10, "{documents: 10}").as_bytes());
    let table = write(dir.path(), "t.csv", b"name,scenario\na,bulk-baseline\n");
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("events.ndjson"), "").unwrap();
    let run = run.to_str().unwrap();
    for command in [&["run"][..], &["line"], &["pipeline", "run"], &["suite"]] {
        check(
            &[command, &[directory]].concat(),
            &[directory, "is a directory: name the file of a", "p.yaml`"],
        );
        check(&[command, &[run]].concat(), &["is the directory of a run", &format!("`plimsoll show {run}`")]);
    }
    for (command, file, part) in [
        (&["run"][..], &pipeline, format!("is a pipeline: run it with `plimsoll pipeline run {pipeline}`")),
        (&["suite"], &pipeline, format!("`plimsoll pipeline run {pipeline}`")),
        (&["pipeline", "run"], &load, format!("is a scenario: run it with `plimsoll run {load}`")),
        (&["run"], &table, format!("is a suite: run it with `plimsoll suite {table}`")),
        (&["run"], &"generator-to-noop".to_owned(), "`plimsoll pipeline run generator-to-noop`".to_owned()),
        (&["pipeline", "run"], &"bulk-baseline".to_owned(), "`plimsoll run bulk-baseline`".to_owned()),
    ] {
        check(&[command, &[file]].concat(), &[&part]);
    }
}

#[test]
fn a_used_directory_and_an_invalid_name_are_refused_before_a_server_is_contacted() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("vacant", 10, "{documents: 10}");
    let file = scenario(dir.path(), &text);
    let matrix =
        format!("{text}matrix: {{axes: [{{name: seed, values: {{one: {{seed: 1}}, two: {{seed: 2}}}}}}]}}\n");
    let matrix = write(dir.path(), "matrix.yaml", matrix.as_bytes());
    let pipeline = write(
        dir.path(),
        "p.yaml",
        b"guarantee: at-most-once\nsource: {generator: {events: 1}}\nsink: {noop: {}}\n",
    );
    let (out, file) = (dir.path().to_str().unwrap(), file.to_str().unwrap());
    // No server listens there: a command that contacts it first ends with exit code 3.
    let nobody = "mongodb://127.0.0.1:1/?directConnection=true";
    for command in [&["run", file][..], &["line", file], &["run", &matrix], &["ab", file, "--same"]] {
        check(&[command, &["--server", nobody, "--out", out]].concat(), &[out, "is not empty", "with --out"]);
    }
    check(&["pipeline", "run", &pipeline, "--out", out], &["is not empty", "with --out"]);
    check(&["run", file, "--server", nobody, "--out", file], &["scenario.yaml is a file", "with --out"]);
    let long = format!("collection=a.{}", "b".repeat(254));
    let database = format!("collection={}.c", "a".repeat(64));
    for (set, part) in [
        (long.as_str(), "it has 256 bytes: shorten it to 255 or fewer"),
        (&database, "the name of the database has 64 bytes: shorten it to 63 or fewer"),
        ("collection=a b.c", "the name of the database contains ` `"),
        ("collection=shop.system.views", "`system.` is for the server's own collections"),
        ("collection=shop.a$b", "the name of the collection contains `$`"),
        ("collection=\"shop.a\\0b\"", "the name of the collection contains `\\0`"),
    ] {
        check(&["run", file, "--server", nobody, "--set", set], &[part]);
    }
    let long = format!("collection=a.{}", "b".repeat(252));
    check(
        &["run", &matrix, "--server", nobody, "--set", &long],
        &["each run gets its own name", "shorten it to 255"],
    );
}

#[test]
fn an_audit_on_another_server_audits_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("elsewhere", 10, "{documents: 100}"));
    let out = dir.path().join("run");
    let out = out.to_str().unwrap();
    let run = plimsoll_with(&[
        "run",
        file.to_str().unwrap(),
        "--server",
        "embedded:relaxed",
        "--out",
        out,
        "--quiet",
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let parts = [
        "no such collection plimsoll_test.elsewhere at 127.0.0.1:",
        "is this the right server? Nothing was audited",
    ];
    check(&["audit", out, "--server", &shared()], &parts);
}
