//! Selects the values of each axis: the defaults, or those of `--only`.

use anyhow::{Context, bail, ensure};

use super::check::{ALL, known, offer};
use plimsoll_scenario::{Matrix, Names};

/// The chosen values by axis, in the order of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(pub Vec<(String, Vec<String>)>);

impl Choice {
    /// Parses `--only axis=value[,value]`; the other axes run their defaults.
    ///
    /// # Errors
    /// When an axis or value is unknown.
    pub fn read(matrix: &Matrix, words: &[String]) -> anyhow::Result<Self> {
        let mut requested: Vec<(&str, Names)> = Vec::new();
        for word in words {
            let (axis, values) = parse(matrix, word).with_context(|| format!("--only {word}"))?;
            ensure!(
                requested.iter().all(|(other, _)| *other != axis),
                "--only {word}: `{axis}` is named twice: write its values in one list, {axis}=a,b"
            );
            requested.push((axis, values));
        }
        Ok(Self(matrix.axes.iter().map(|axis| (axis.name.clone(), chosen(axis, &requested))).collect()))
    }

    /// The number of combinations.
    pub fn combinations(&self) -> u64 {
        self.0.iter().map(|(_, values)| values.len() as u64).product()
    }

    /// Combination `index`; the last axis changes fastest.
    pub fn combination(&self, index: u64) -> Vec<(&str, &str)> {
        let mut rest = index;
        let mut picked: Vec<_> = self
            .0
            .iter()
            .rev()
            .map(|(axis, values)| {
                let count = values.len() as u64;
                let value = &values[(rest % count) as usize];
                rest /= count;
                (axis.as_str(), value.as_str())
            })
            .collect();
        picked.reverse();
        picked
    }

    /// Whether `axis` has more than one value.
    pub fn varies(&self, axis: &str) -> bool {
        self.0.iter().any(|(name, values)| name == axis && values.len() > 1)
    }
}

fn parse<'a>(matrix: &'a Matrix, word: &str) -> anyhow::Result<(&'a str, Names)> {
    let Some((name, values)) = word.split_once('=') else {
        bail!("write axis=value[,value], for example {}=…", matrix.axes[0].name)
    };
    let axes: Vec<_> = matrix.axes.iter().map(|axis| axis.name.as_str()).collect();
    let axis = matrix.axes.iter().find(|axis| axis.name == name);
    let axis = axis.with_context(|| format!("there is no axis `{name}`; {}", offer(name, &axes)))?;
    if values == ALL {
        return Ok((&axis.name, Names(axis.values.names().map(str::to_owned).collect())));
    }
    let values = Names(values.split(',').map(|value| value.trim().to_owned()).collect());
    known(axis, &values)?;
    Ok((&axis.name, values))
}

/// The values of `axis` in its own order: the requested values, else its defaults, else all.
fn chosen(axis: &plimsoll_scenario::Axis, requested: &[(&str, Names)]) -> Vec<String> {
    let wanted =
        requested.iter().find(|(name, _)| *name == axis.name).map_or(&axis.default, |(_, names)| names);
    let runs = |name: &&str| wanted.is_empty() || wanted.has(name);
    axis.values.names().filter(runs).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Matrix {
        let typed = "axes:\n  - {name: strategy, values: {one: {}, many: {}}}\n  - {name: size, default: [10K, 1M], \
                     values: {10K: {}, 1M: {}, 100M: {}}}\n";
        serde_saphyr::from_str(typed).unwrap()
    }

    fn read(words: &[&str]) -> anyhow::Result<Choice> {
        Choice::read(&matrix(), &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    fn values(words: &[&str], axis: usize) -> Vec<String> {
        read(words).unwrap().0[axis].1.clone()
    }

    #[test]
    fn defaults_run_unless_others_are_requested() {
        assert_eq!(values(&[], 0), ["one", "many"]);
        assert_eq!(values(&[], 1), ["10K", "1M"]);
        assert_eq!(
            values(&["size=100M,10K"], 1),
            ["10K", "100M"],
            "the values are in the order of the matrix"
        );
        assert_eq!(values(&["size=all"], 1), ["10K", "1M", "100M"]);
        assert_eq!(values(&["size=1M", "strategy=many"], 0), ["many"]);
    }

    #[test]
    fn the_last_axis_changes_fastest() {
        let choice = read(&[]).unwrap();
        let all: Vec<_> = (0..choice.combinations()).map(|index| choice.combination(index)).collect();
        let names: Vec<_> = all.iter().map(|cell| format!("{}/{}", cell[0].1, cell[1].1)).collect();
        assert_eq!(names, ["one/10K", "one/1M", "many/10K", "many/1M"]);
    }

    #[test]
    fn unknown_names_are_refused() {
        for (words, part) in [
            (&["sice=1M"][..], "--only sice=1M: there is no axis `sice`; did you mean `size`?"),
            (&["size=10M"], "did you mean"),
            (&["size=7"], "`size` has no value `7`; use 10K, 1M, 100M"),
            (&["size"], "write axis=value[,value], for example strategy="),
            (&["size=1M", "size=10K"], "named twice"),
        ] {
            let message = format!("{:#}", read(words).unwrap_err());
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
