//! Reads a suite from a file or from the shipped suites, as table or YAML, and reports errors with place and remedy.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};

use super::columns::{COLUMNS, present};
use super::table;
use super::typed::{Row, Suite};
use plimsoll_scenario::{Kind, mistaken_name, mistaken_text, nearest, rendered, suites};
use plimsoll_yaml::text_of;

/// The largest file of a suite, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A suite from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The file's stem.
    pub name: String,
    /// The suite.
    pub suite: Suite,
    /// The place of each test in the file.
    pub places: Vec<String>,
    /// The base of relative paths.
    pub base: PathBuf,
}

/// Reads the suite `name`: a path, or the name of a shipped suite.
///
/// # Errors
/// When it cannot be found, read or parsed. The error names the place.
pub fn load(name: &str) -> anyhow::Result<Loaded> {
    let path = Path::new(name);
    let shipped = suites().iter().find(|builtin| builtin.name == name).filter(|_| !path.is_file());
    if let Some(builtin) = shipped {
        return parse(builtin.name, builtin.path, builtin.text, PathBuf::from("."));
    }
    if let Some(said) = mistaken_name(name, Kind::Suite).filter(|_| !path.is_file()) {
        bail!(said);
    }
    if !path.is_file() {
        bail!("there is no suite `{name}`: {}", suggestion(name));
    }
    let stem = path.file_stem().map_or_else(|| "suite".into(), |stem| stem.to_string_lossy().into_owned());
    let base =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
    let text = text_of(path, FILE_BYTES_MAX)?;
    if let Some(said) = mistaken_text(name, &text, Kind::Suite) {
        bail!(said);
    }
    parse(&stem, name, &text, base)
}

fn suggestion(name: &str) -> String {
    let names: Vec<_> = suites().iter().map(|builtin| builtin.name).collect();
    match nearest(name, &names) {
        Some(near) => format!("no such file, and the nearest shipped one is `{near}`"),
        None => format!("no such file, and the shipped ones are {}", names.join(", ")),
    }
}

/// Parses a suite; the ending of its file `origin` determines the form.
///
/// # Errors
/// When a value is invalid. The error names the first, and its place.
pub fn parse(name: &str, origin: &str, text: &str, base: PathBuf) -> anyhow::Result<Loaded> {
    let (suite, places) = match Path::new(origin).extension().and_then(|ending| ending.to_str()) {
        Some("csv") => csv(text).with_context(|| origin.to_owned())?,
        Some("yaml" | "yml") => yaml(text, origin)?,
        _ => bail!("{origin}: the name of a suite's file ends in .csv or .yaml"),
    };
    let places = places.into_iter().map(|place| format!("{origin}, {place}")).collect();
    Ok(Loaded { name: name.to_owned(), suite, places, base })
}

fn yaml(text: &str, origin: &str) -> anyhow::Result<(Suite, Vec<String>)> {
    let suite: Suite = plimsoll_yaml::document(text)
        .map_err(|slip| anyhow!("{origin}: {}", rendered(&slip, text, origin)))?;
    let places = (1..=suite.tests.len()).map(|number| format!("test {number}")).collect();
    Ok((suite, places))
}

fn csv(text: &str) -> anyhow::Result<(Suite, Vec<String>)> {
    let mut rows = table::read(text)?.into_iter();
    let header = rows
        .next()
        .context("the file is empty: name the columns in its first line, such as name,scenario")?;
    check_header(&header)?;
    let (mut tests, mut places) = (Vec::new(), Vec::new());
    for row in rows {
        tests.push(test(&header.values, &row)?);
        places.push(format!("line {}", row.line));
    }
    let question =
        text.lines().next().and_then(|line| line.strip_prefix('#')).map(|line| line.trim().to_owned());
    Ok((Suite { question, tests, ..Suite::default() }, places))
}

fn check_header(header: &table::Row) -> anyhow::Result<()> {
    let line = header.line;
    for (index, name) in header.values.iter().enumerate() {
        if !COLUMNS.contains(&present(name)) {
            let hint = nearest(name, &COLUMNS).map(|near| format!("did you mean `{near}`? "));
            bail!(
                "line {line}: there is no column `{name}`: {}the columns are {}",
                hint.unwrap_or_default(),
                COLUMNS.join(", ")
            );
        }
        ensure!(!header.values[..index].contains(name), "line {line}: the column `{name}` appears twice");
    }
    Ok(())
}

fn test(columns: &[String], row: &table::Row) -> anyhow::Result<Row> {
    let line = row.line;
    ensure!(
        row.values.len() == columns.len(),
        "line {line}: {} values for {} columns; quote a value that holds a comma",
        row.values.len(),
        columns.len()
    );
    let mut test = Row::default();
    for (column, text) in columns.iter().zip(&row.values) {
        test.put(present(column), text).with_context(|| format!("line {line}, {column}"))?;
    }
    Ok(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(origin: &str, text: &str) -> anyhow::Result<Loaded> {
        parse("s", origin, text, PathBuf::from("."))
    }

    #[test]
    fn a_table_and_yaml_are_equal_and_former_names_are_read() {
        let csv = "# What does it cost?\nname,scenario,duration,overrides,client_cpus\na,x,5s,\"w=1; v={p: 1, q: 2}\",0\nb,y,,,\n";
        let yaml = "question: What does it cost?\ntests:\n  - {name: a, scenario: x, duration: 5s, overrides: [w=1, 'v={p: 1, q: 2}'], \
                    client_cpus: 0}\n  - {name: b, scenario: y}\n";
        let former = "name,beside,beside_of\na,5,them\n";
        let former =
            [read("s.csv", former), read("s.yaml", "tests: [{name: a, beside: 5, beside_of: them}]")];
        let present = read("s.csv", "name,reference,reference_of\na,5,them\n").unwrap();
        former.into_iter().for_each(|former| assert_eq!(former.unwrap().suite, present.suite));
        let (csv, yaml) = (read("s.csv", csv).unwrap(), read("s.yaml", yaml).unwrap());
        assert_eq!(csv.suite, yaml.suite);
        assert_eq!(csv.places, ["s.csv, line 3", "s.csv, line 4"]);
        assert_eq!(yaml.places, ["s.yaml, test 1", "s.yaml, test 2"]);
    }

    #[test]
    fn an_invalid_file_is_refused_with_its_place() {
        for (origin, text, parts) in [
            (
                "s.csv",
                "name,scenari\na,x\n",
                &["line 1", "no column `scenari`", "did you mean `scenario`?"][..],
            ),
            ("s.csv", "name,zzz\na,x\n", &["the columns are name, scenario"]),
            ("s.csv", "name,scenario,name\n", &["`name` appears twice"]),
            (
                "s.csv",
                "name,scenario,repetitions\n\na,x,many\n",
                &["line 3, repetitions", "`many` is not a whole number"],
            ),
            ("s.csv", "name,scenario\na,x,y\n", &["line 2: 3 values for 2 columns"]),
            ("s.csv", "", &["the file is empty"]),
            (
                "s.yaml",
                "tests:\n  - {name: a, scenarios: x}\n",
                &["--> s.yaml:2:", "did you mean `scenario`?"],
            ),
            ("s.yaml", "tests:\n  - {name: a, scenario: x, duration: 5}\n", &["line 2"]),
            ("s.txt", "", &["ends in .csv or .yaml"]),
        ] {
            let message = format!("{:#}", read(origin, text).unwrap_err());
            for part in parts {
                assert!(message.contains(part) && message.contains(origin), "{part}: {message}");
            }
        }
        let message = load("write-csot").unwrap_err().to_string();
        assert!(message.contains("the nearest shipped one is `write-cost`"), "{message}");
    }

    #[cfg(all(feature = "kafka", feature = "embedding"))]
    #[test]
    fn every_shipped_suite_is_valid_and_has_a_question() {
        // The workflow engine and the catalogue are no systems of this crate: tests of the program list their suites.
        let elsewhere = ["workflow-tiers", "catalogue-cube"];
        for builtin in suites().iter().filter(|it| !elsewhere.contains(&it.name)) {
            let loaded = load(builtin.name).unwrap();
            assert!(loaded.suite.question.is_some(), "{}", builtin.name);
            let tests =
                crate::suite::resolve::build(&loaded, &Default::default(), crate::suite::kind::TEST_REGISTRY)
                    .unwrap();
            assert!(tests.len() > 1, "{}", builtin.name);
        }
    }
}
