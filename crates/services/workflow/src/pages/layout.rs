//! Places the steps of a definition: sequences run down, branches stand side by side.

use plimsoll_workflow::definition::{Definition, Join, Step, Timer};

/// The width of a box.
pub(super) const BOX_WIDTH: i64 = 170;
/// The height of a box.
pub(super) const BOX_HEIGHT: i64 = 42;
/// The space between two boxes, in both directions.
pub(super) const GAP: i64 = 26;
/// The space inside of a repetition's frame.
const FRAME: i64 = 14;
/// The space for the label above a column.
const LABEL: i64 = 14;
/// The space below columns, where their lines join.
const JOIN: i64 = 18;

/// A drawn step.
#[derive(Debug)]
pub(super) struct Drawn {
    /// The path, as in the program.
    pub path: String,
    /// The kind, as in the file.
    pub kind: &'static str,
    /// The name, or the kind and number.
    pub name: String,
    /// The callee, the signal or the length.
    pub about: String,
    /// The steps inside.
    pub inside: Inside,
}

/// The steps inside of a step.
#[derive(Debug)]
pub(super) enum Inside {
    Nothing,
    /// Labelled sequences side by side.
    Columns(Vec<(String, Vec<Drawn>)>),
    /// A repeated sequence.
    Loop(Vec<Drawn>),
}

/// The steps of a definition.
pub(super) fn drawn(definition: &Definition) -> Vec<Drawn> {
    steps("", &definition.steps)
}

fn steps(path: &str, steps: &[Step]) -> Vec<Drawn> {
    steps.iter().enumerate().map(|(index, step)| one(path, index, step)).collect()
}

fn one(around: &str, index: usize, step: &Step) -> Drawn {
    let path = step.path(around, index);
    let name = step.name().map_or_else(|| step.kind().to_owned(), str::to_owned);
    let inside = inside(&path, step);
    Drawn { path, kind: step.kind(), name, about: about(step), inside }
}

fn inside(path: &str, step: &Step) -> Inside {
    match step {
        Step::Fork(fork) => {
            let column = |(index, branch): (usize, &Vec<Step>)| {
                (String::new(), steps(&format!("{path}/{index}"), branch))
            };
            Inside::Columns(fork.branches.iter().enumerate().map(column).collect())
        }
        Step::Branch(branch) => {
            let cases = branch.cases.iter().enumerate().map(|(index, case)| {
                (case.condition.clone(), steps(&format!("{path}/{index}"), &case.steps))
            });
            let otherwise = ("else".to_owned(), steps(&format!("{path}/else"), &branch.otherwise));
            Inside::Columns(cases.chain([otherwise]).collect())
        }
        Step::Repeat(repeat) => Inside::Loop(steps(path, &repeat.steps)),
        _ => Inside::Nothing,
    }
}

fn about(step: &Step) -> String {
    match step {
        Step::Service(step) => step.function.clone(),
        Step::Http(step) => step.url.clone(),
        Step::Task(step) => step.roles.join(", "),
        Step::Wait(step) => step.signal.clone(),
        Step::Timer(Timer { after, until, cron, .. }) => {
            let after = after.map(|after| after.to_string());
            after.or_else(|| until.clone()).or_else(|| cron.clone()).unwrap_or_default()
        }
        Step::Fork(step) => if step.join == Join::Any { "any" } else { "all" }.into(),
        Step::Repeat(step) => step.condition.clone().unwrap_or_else(|| "for ever".into()),
        Step::Workflow(step) => step.definition.clone(),
        Step::ContinueWith(step) => step.definition.clone(),
        Step::Set(step) => step.value.clone(),
        Step::Fail(step) => step.error.clone(),
        Step::Branch(_) => String::new(),
    }
}

impl Drawn {
    /// Width and height.
    pub(super) fn size(&self) -> (i64, i64) {
        match &self.inside {
            Inside::Nothing => (BOX_WIDTH, BOX_HEIGHT),
            Inside::Columns(columns) => {
                let sizes = columns.iter().map(|(_, steps)| column_size(steps));
                let (width, height) =
                    sizes.fold((0, 0), |(width, height), size| (width + size.0 + GAP, height.max(size.1)));
                (BOX_WIDTH.max(width - GAP), columns_top(0) + height + JOIN)
            }
            Inside::Loop(steps) => {
                let (width, height) = size(steps);
                (width.max(BOX_WIDTH) + 2 * FRAME, BOX_HEIGHT + GAP + height + FRAME)
            }
        }
    }
}

/// Width and height of a sequence.
pub(super) fn size(steps: &[Drawn]) -> (i64, i64) {
    let sizes = steps.iter().map(Drawn::size);
    let (width, height) =
        sizes.fold((0, -GAP), |(width, height), size| (width.max(size.0), height + size.1 + GAP));
    (width, height.max(0))
}

/// Width and height of a sequence with its label. An empty one is a line.
pub(super) fn column_size(steps: &[Drawn]) -> (i64, i64) {
    let (width, height) = size(steps);
    (width.max(BOX_WIDTH / 2), height)
}

/// The tops of the boxes of a sequence that begins at `y`.
pub(super) fn tops(steps: &[Drawn], y: i64) -> Vec<i64> {
    let top = |top: &mut i64, step: &Drawn| {
        let here = *top;
        *top += step.size().1 + GAP;
        Some(here)
    };
    steps.iter().scan(y, top).collect()
}

/// The centers of columns that lie around `x`.
pub(super) fn centers(columns: &[(String, Vec<Drawn>)], x: i64) -> Vec<i64> {
    let widths: Vec<i64> = columns.iter().map(|(_, steps)| column_size(steps).0).collect();
    let left = x - (widths.iter().sum::<i64>() + GAP * (widths.len() as i64 - 1)) / 2;
    let center = |left: &mut i64, width: i64| {
        let here = *left + width / 2;
        *left += width + GAP;
        Some(here)
    };
    widths.into_iter().scan(left, center).collect()
}

/// The top of the columns of a step whose box begins at `y`.
pub(super) const fn columns_top(y: i64) -> i64 {
    y + BOX_HEIGHT + GAP + LABEL
}

#[cfg(test)]
mod tests {
    use plimsoll_workflow::file::read;

    use super::*;
    use crate::examples::ALL;

    fn paths(steps: &[Drawn], all: &mut Vec<String>) {
        for step in steps {
            all.push(step.path.clone());
            match &step.inside {
                Inside::Nothing => {}
                Inside::Columns(columns) => columns.iter().for_each(|(_, steps)| paths(steps, all)),
                Inside::Loop(steps) => paths(steps, all),
            }
        }
    }

    #[test]
    fn every_drawn_path_is_a_node_of_the_program() {
        for example in ALL {
            let (definition, program) = read(example.text).unwrap();
            let mut all = Vec::new();
            paths(&drawn(&definition), &mut all);
            assert!(!all.is_empty());
            for path in all {
                assert!(program.find(&path).is_some(), "{}: {path}", example.name);
            }
        }
    }
}
