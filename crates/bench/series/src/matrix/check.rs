//! Refuses an invalid matrix, with place and remedy.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use serde_json::Value as Json;

use plimsoll_scenario::{Axis, LeaveOut, Matrix, Names, nearest, put};

/// The maximum number of axes of a matrix.
const AXES_MAX: usize = 8;
/// The maximum number of values of an axis.
const VALUES_MAX: usize = 100;
/// The maximum number of repetitions.
const REPETITIONS_MAX: u32 = 100;
/// The longest name, in characters.
const NAME_MAX: usize = 40;
/// The keys that all cells share: they run on one server, or against one service.
const SHARED: [&str; 5] = ["matrix", "existing", "server", "servers", "cache"];
/// The keys that cells share if each starts its own server and service.
const SHARED_ANEW: [&str; 3] = ["matrix", "existing", "servers"];
/// The word that selects all values of an axis, on the command line.
pub const ALL: &str = "all";

/// Refuses an invalid matrix, even if the invalid value is not chosen to run. `base` is the scenario as a
/// tree.
///
/// # Errors
/// When a value is invalid. The error names the first.
pub fn check(matrix: &Matrix, base: &Json) -> anyhow::Result<()> {
    ensure!(!matrix.axes.is_empty(), "matrix.axes: name at least one axis, or leave out `matrix`");
    let axes = matrix.axes.len();
    ensure!(axes <= AXES_MAX, "matrix.axes: {axes} axes; a matrix has at most {AXES_MAX}");
    let repetitions = matrix.repetitions;
    ensure!(
        (1..=REPETITIONS_MAX).contains(&repetitions),
        "matrix.repetitions: {repetitions}; give a number from 1 to {REPETITIONS_MAX}"
    );
    let mut known = BTreeSet::new();
    for axis in &matrix.axes {
        ensure!(
            known.insert(&axis.name),
            "matrix.axes: two axes have the name `{}`: give them different names",
            axis.name
        );
        check_axis(axis)?;
        check_places(axis, base)?;
    }
    matrix.leave_out.iter().try_for_each(|rule| check_rule(rule, matrix))?;
    check_show(matrix)?;
    check_contradictions(matrix, base)
}

fn check_axis(axis: &Axis) -> anyhow::Result<()> {
    let here = format!("matrix.axes.{}", axis.name);
    check_name(&axis.name).with_context(|| format!("matrix.axes: the axis `{}`", axis.name))?;
    let values = axis.values.0.len();
    ensure!(
        (1..=VALUES_MAX).contains(&values),
        "{here}: {values} values; an axis has at least 1 and at most {VALUES_MAX}"
    );
    for name in axis.values.names() {
        check_name(name).with_context(|| format!("{here}: the value `{name}`"))?;
        ensure!(name != ALL, "{here}: `{ALL}` selects every value on the command line: choose another name");
    }
    known(axis, &axis.default).with_context(|| format!("{here}.default"))
}

fn check_show(matrix: &Matrix) -> anyhow::Result<()> {
    for (index, name) in matrix.show.iter().enumerate() {
        ensure!(
            !matrix.show[..index].contains(name),
            "matrix.show: `{name}` appears twice: keep one of them"
        );
    }
    Ok(())
}

/// Checks a name. Names appear on the command line, in file names and in tables.
fn check_name(name: &str) -> anyhow::Result<()> {
    let length = name.chars().count();
    if length == 0 || length > NAME_MAX {
        bail!("has {length} characters; a name has 1 to {NAME_MAX}");
    }
    if name.contains(['=', ',']) || name.chars().any(char::is_control) || name.trim() != name {
        bail!("a name has no `=`, no `,` and no blank at its ends");
    }
    Ok(())
}

/// Refuses names that are not values of `axis`.
///
/// # Errors
/// When a name is unknown. The error suggests the nearest known one.
pub fn known(axis: &Axis, names: &Names) -> anyhow::Result<()> {
    let values: Vec<_> = axis.values.names().collect();
    match names.0.iter().find(|name| axis.values.get(name).is_none()) {
        Some(name) => bail!("`{}` has no value `{name}`; {}", axis.name, offer(name, &values)),
        None => Ok(()),
    }
}

/// The nearest of `known`, or all of them.
pub fn offer(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use {}", known.join(", ")),
    }
}

/// The keys in which cells cannot differ.
fn shared(base: &Json) -> &'static [&'static str] {
    let starts_one = base.get("service").is_some_and(|service| !service.is_null());
    if starts_one { &SHARED_ANEW } else { &SHARED }
}

/// Checks that every path exists in the scenario and may differ between cells.
fn check_places(axis: &Axis, base: &Json) -> anyhow::Result<()> {
    for (name, places) in &axis.values.0 {
        let mut tree = base.clone();
        for (path, value) in &places.0 {
            let here = || format!("matrix: {}={name}: {path}", axis.name);
            let root = path.split('.').next().unwrap_or_default();
            ensure!(
                !shared(base).contains(&root),
                "{}: all cells share it, and it cannot differ between them",
                here()
            );
            put(&mut tree, path, value.clone()).with_context(here)?;
        }
    }
    Ok(())
}

fn check_rule(rule: &LeaveOut, matrix: &Matrix) -> anyhow::Result<()> {
    ensure!(!rule.when.is_empty(), "matrix.leave_out: `when` names no axis; write for example {{size: 10M}}");
    ensure!(!rule.because.trim().is_empty(), "matrix.leave_out: give the reason in `because`");
    let axes: Vec<_> = matrix.axes.iter().map(|axis| axis.name.as_str()).collect();
    for (name, values) in &rule.when {
        let axis = matrix.axes.iter().find(|axis| axis.name == *name);
        let unknown = || format!("matrix.leave_out: there is no axis `{name}`; {}", offer(name, &axes));
        known(axis.with_context(unknown)?, values).context("matrix.leave_out")?;
    }
    Ok(())
}

/// Refuses two values of different axes that set one key to different values: only their order would decide. An axis with
/// `override: true` wins over earlier axes.
fn check_contradictions(matrix: &Matrix, base: &Json) -> anyhow::Result<()> {
    for (index, later) in matrix.axes.iter().enumerate().filter(|(_, axis)| !axis.wins) {
        for earlier in &matrix.axes[..index] {
            for (one, first) in &earlier.values.0 {
                for (other, second) in &later.values.0 {
                    let Some(path) = contradiction(base, &first.0, &second.0) else { continue };
                    if !is_left_out(matrix, [(&earlier.name, one), (&later.name, other)]) {
                        bail!(
                            "matrix: {}={one} and {}={other} set different values for {path}: leave the combination \
                             out, or use `override: true` on the axis `{}` if it is to win",
                            earlier.name,
                            later.name,
                            later.name
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

/// The first key that depends on the order in which two values of different axes are applied.
fn contradiction(base: &Json, first: &[(String, Json)], second: &[(String, Json)]) -> Option<String> {
    let touches =
        |path: &str| first.iter().any(|(other, _)| is_within(path, other) || is_within(other, path));
    let (path, _) = second.iter().find(|(path, _)| touches(path))?;
    let apply = |sets: [&[(String, Json)]; 2]| {
        let mut tree = base.clone();
        let put_all = |(path, value): &(String, Json)| put(&mut tree, path, value.clone());
        sets.into_iter().flatten().try_for_each(put_all).ok()?;
        Some(tree)
    };
    (apply([first, second]) != apply([second, first])).then(|| path.clone())
}

/// Whether `path` is `other` or lies below it.
fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a rule that uses only these axes excludes every cell with both values.
fn is_left_out(matrix: &Matrix, pair: [(&String, &String); 2]) -> bool {
    let covers = |rule: &LeaveOut| {
        rule.when
            .iter()
            .all(|(axis, values)| pair.iter().any(|(name, value)| *name == axis && values.has(value)))
    };
    matrix.leave_out.iter().any(covers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SOUND: &str = "
axes:
  - name: strategy
    values:
      one: {load.batch: 1}
      many: {load.batch: 1000}
  - name: size
    default: [10K]
    values:
      10K: {stop.documents: 10000}
      1M: {stop.documents: 1000000}
leave_out:
  - {when: {strategy: one, size: 1M}, because: it takes too long}
";

    fn message(typed: &str) -> String {
        let base = json!({"load": {"batch": 1}, "stop": {"documents": 1}, "list": [1]});
        let matrix: Matrix = serde_saphyr::from_str(typed).unwrap();
        check(&matrix, &base).map_or_else(|error| format!("{error:#}"), |()| "sound".to_owned())
    }

    #[test]
    fn a_valid_matrix_passes() {
        assert_eq!(message(SOUND), "sound");
    }

    #[test]
    fn an_invalid_matrix_is_refused_with_its_place() {
        for (typed, part) in [
            (SOUND.replace("name: size", "name: strategy"), "two axes have the name `strategy`"),
            (
                SOUND.replace("default: [10K]", "default: [20K]"),
                "`size` has no value `20K`; did you mean `10K`?",
            ),
            (SOUND.replace("name: size", "name: a=b"), "no `=`"),
            (SOUND.replace("{strategy: one", "{stratgy: one"), "no axis `stratgy`; did you mean `strategy`?"),
            (SOUND.replace("size: 1M", "size: 2G"), "`size` has no value `2G`; use 10K, 1M"),
            (SOUND.replace("it takes too long", "''"), "give the reason"),
            (SOUND.replace("10K: {stop", "all: {stop").replace("[10K]", "[1M]"), "selects every value"),
            (SOUND.replace("load.batch: 1}", "list.7: 1}"), "strategy=one: list.7: `list` has no `7`"),
            (SOUND.replace("load.batch: 1}", "matrix.bounds: 1}"), "all cells share it"),
            (format!("{SOUND}show: [work, work]"), "matrix.show: `work` appears twice"),
            ("axes: []".to_owned(), "at least one axis"),
            (format!("{SOUND}repetitions: 0"), "from 1 to 100"),
            ("axes: [{name: a, values: {}}]".to_owned(), "0 values"),
        ] {
            let message = message(&typed);
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn cells_with_their_own_server_may_have_different_servers() {
        let typed = "axes: [{name: cache, values: {small: {cache: 64MB}, large: {cache: 1GB}}}]";
        let matrix: Matrix = serde_saphyr::from_str(typed).unwrap();
        assert!(check(&matrix, &json!({})).is_err());
        assert!(check(&matrix, &json!({"service": null})).is_err());
        check(&matrix, &json!({"service": {"telemetry": {}}})).unwrap();
    }

    const TWICE: &str = "
axes:
  - name: strategy
    values: {one: {load: {batch: 1}}, many: {load: {batch: 1000}}}
  - name: batch
    values: {own: {}, small: {load.batch: 10}}
";

    #[test]
    fn two_values_for_one_key_are_a_contradiction() {
        let refused = message(TWICE);
        assert!(
            refused.contains("strategy=one and batch=small set different values for load.batch"),
            "{refused}"
        );
        assert!(refused.contains("override: true"), "{refused}");
        let won = TWICE.replace("  - name: batch", "  - override: true\n    name: batch");
        assert_eq!(message(&won), "sound");
        assert_eq!(
            message(&TWICE.replace("batch: 1000", "batch: 1").replace("batch: 10}", "batch: 1}")),
            "sound"
        );
        let out = "leave_out: [{when: {strategy: [one, many], batch: small}, because: none}]\n";
        assert_eq!(message(&format!("{TWICE}{out}")), "sound");
        assert!(message(&format!("{TWICE}{}", out.replace("[one, many]", "one"))).contains("strategy=many"));
    }
}
