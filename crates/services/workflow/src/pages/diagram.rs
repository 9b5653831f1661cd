//! Draws a definition as SVG, with the path that an instance took.

use std::collections::BTreeMap;

use maud::{Markup, html};
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::explain::Visited;
use plimsoll_workflow::instance::How;

use super::layout::{
    BOX_HEIGHT, BOX_WIDTH, Drawn, GAP, Inside, centers, column_size, columns_top, drawn, size, tops,
};

/// The space around the diagram.
const MARGIN: i64 = 12;
/// The maximum number of characters of a line in a box.
const CHARS_MAX: usize = 26;

/// The diagram of a definition. `has_ended_well`: the instance passed its last step.
pub(super) fn diagram(definition: &Definition, history: &[Visited], has_ended_well: bool) -> Markup {
    let steps = drawn(definition);
    let marks = Marks::of(history);
    let (width, height) = size(&steps);
    let (width, height) = (width + 2 * MARGIN, height + 2 * MARGIN);
    let view = format!("0 0 {width} {height}");
    html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox=(view) width=(width) height=(height) {
            title { "The steps of " (definition.name) }
            (sequence(&steps, (width / 2, MARGIN), &marks, has_ended_well))
        }
    }
}

/// The last end of each visited path.
struct Marks<'a>(BTreeMap<&'a str, How>);

impl<'a> Marks<'a> {
    fn of(history: &'a [Visited]) -> Self {
        Self(history.iter().filter_map(|visit| Some((visit.path.as_deref()?, visit.how))).collect())
    }

    /// The end of the step's last visit, or of a visit inside of it.
    fn of_step(&self, step: &Drawn) -> Option<How> {
        let inside = format!("{}/", step.path);
        let is_inside = || self.0.keys().any(|path| path.starts_with(&inside));
        let own = self.0.get(step.path.as_str()).copied();
        own.or_else(|| {
            is_inside().then(|| if self.is_lost_inside(step) { How::Cancelled } else { How::Done })
        })
    }

    /// Whether the instance left the steps because another branch won. Then the last visited step ended as cancelled.
    fn is_lost(&self, steps: &[Drawn]) -> bool {
        steps.iter().rev().find_map(|step| self.of_step(step)) == Some(How::Cancelled)
    }

    fn is_lost_inside(&self, step: &Drawn) -> bool {
        match &step.inside {
            Inside::Nothing => false,
            Inside::Columns(columns) => columns.iter().any(|(_, steps)| self.is_lost(steps)),
            Inside::Loop(steps) => self.is_lost(steps),
        }
    }
}

/// Draws steps below each other. `is_left`: the instance passed the last step. A step without visits counts as passed if a later step
/// was visited.
fn sequence(steps: &[Drawn], (x, y): (i64, i64), marks: &Marks<'_>, is_left: bool) -> Markup {
    let last = steps.iter().rposition(|step| marks.of_step(step).is_some());
    let passed = |index: usize| is_left || last.is_some_and(|last| index < last);
    html! {
        @for (index, (step, y)) in steps.iter().zip(tops(steps, y)).enumerate() {
            @let how = marks.of_step(step).or_else(|| passed(index).then_some(How::Done));
            @if index > 0 { (way((x, y - GAP), (x, y), how.is_some())) }
            (drawn_step(step, (x, y), how, marks, passed(index)))
        }
    }
}

fn drawn_step(
    step: &Drawn,
    (x, y): (i64, i64),
    how: Option<How>,
    marks: &Marks<'_>,
    is_left: bool,
) -> Markup {
    let is_left = is_left && how.is_some();
    html! {
        @match &step.inside {
            Inside::Nothing => {}
            Inside::Columns(columns) => (side_by_side(columns, (x, y), step.size().1, marks, is_left))
            Inside::Loop(steps) => (repeated(steps, step.size(), (x, y), marks, is_left))
        }
        (labelled_box(step, (x, y), how))
    }
}

/// Draws columns below a box, and the lines to the point where the columns join.
fn side_by_side(
    columns: &[(String, Vec<Drawn>)],
    (x, y): (i64, i64),
    height: i64,
    marks: &Marks<'_>,
    is_left: bool,
) -> Markup {
    let is_visited = |steps: &[Drawn]| steps.iter().any(|step| marks.of_step(step).is_some());
    // Without a visit in any column, the instance took the empty column.
    let is_around = is_left && !columns.iter().any(|(_, steps)| is_visited(steps));
    html! {
        @for ((label, steps), center) in columns.iter().zip(centers(columns, x)) {
            @let (length, top) = (column_size(steps).1, columns_top(y));
            @let is_taken = is_visited(steps) || (is_around && steps.is_empty());
            (way((x, y + BOX_HEIGHT), (center, top), is_taken))
            @let is_through = is_taken && is_left && !marks.is_lost(steps);
            (way((center, top + length), (x, y + height), is_through))
            @if !label.is_empty() { text.kind.case x=(center) y=(top - 5) { (short(label)) } }
            (sequence(steps, (center, top), marks, is_through))
        }
    }
}

fn repeated(
    steps: &[Drawn],
    (width, height): (i64, i64),
    (x, y): (i64, i64),
    marks: &Marks<'_>,
    is_left: bool,
) -> Markup {
    let (frame_top, frame_height) = (y + BOX_HEIGHT / 2, height - BOX_HEIGHT / 2);
    let (top, length) = (y + BOX_HEIGHT + GAP, size(steps).1);
    let is_taken = steps.iter().any(|step| marks.of_step(step).is_some());
    html! {
        rect.frame x=(x - width / 2) y=(frame_top) width=(width) height=(frame_height) rx="8" {}
        (way((x, y + BOX_HEIGHT), (x, top), is_taken))
        @let is_through = is_taken && is_left && !marks.is_lost(steps);
        (way((x, top + length), (x, y + height), is_through))
        (sequence(steps, (x, top), marks, is_through))
    }
}

fn labelled_box(step: &Drawn, (x, y): (i64, i64), how: Option<How>) -> Markup {
    let about =
        if step.about.is_empty() { step.kind.to_owned() } else { format!("{} · {}", step.kind, step.about) };
    html! {
        g class=(class(how)) data-path=(step.path) {
            title { (step.path) @if let Some(how) = how { ": " (how.name()) } }
            rect x=(x - BOX_WIDTH / 2) y=(y) width=(BOX_WIDTH) height=(BOX_HEIGHT) rx="6" {}
            text x=(x) y=(y + 18) { (short(&step.name)) }
            text.kind x=(x) y=(y + 33) { (short(&about)) }
        }
    }
}

const fn class(how: Option<How>) -> &'static str {
    match how {
        None => "step",
        Some(How::Done) => "step done",
        Some(How::Open) => "step open",
        Some(How::Failed | How::TimedOut | How::Retried) => "step bad",
        Some(How::Cancelled) => "step cancelled",
    }
}

fn way(from: (i64, i64), to: (i64, i64), is_taken: bool) -> Markup {
    let class = if is_taken { "way taken" } else { "way" };
    html! { path class=(class) d=(format!("M{} {}L{} {}", from.0, from.1, to.0, to.1)) {} }
}

/// A text that fits into a box.
fn short(text: &str) -> String {
    let cut: String = text.chars().take(CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{}…", cut.trim_end()) } else { cut }
}

#[cfg(test)]
mod tests {
    use plimsoll_workflow::file::read;

    use super::*;
    use crate::examples::ALL;

    fn visited(path: &str, how: How) -> Visited {
        Visited { visit: 2, path: Some(path.into()), entered_ms: 0, left_ms: None, how }
    }

    fn class_of<'a>(svg: &'a str, path: &str) -> &'a str {
        let end =
            svg.find(&format!("\" data-path=\"{path}\"")).unwrap_or_else(|| panic!("no {path} in {svg}"));
        svg[..end].rsplit("<g class=\"").next().unwrap()
    }

    #[test]
    fn the_path_of_an_instance_is_marked_and_the_rest_is_not() {
        let (definition, _) =
            read(ALL.iter().find(|one| one.name == "quotation-confirm").unwrap().text).unwrap();
        let history = [
            visited("price", How::Done),
            visited("until-approved/review", How::Done),
            visited("reserve", How::Done),
            visited("confirm", How::Open),
        ];
        let svg = diagram(&definition, &history, false).into_string();
        for (path, class) in [
            ("price", "step done"),
            ("until-approved", "step done"),
            ("approved", "step done"),
            ("approved/0/rejected", "step"),
            ("confirm", "step open"),
            ("convert", "step"),
        ] {
            assert_eq!(class_of(&svg, path), class, "{path}");
        }
    }

    #[test]
    fn the_empty_way_around_a_branch_is_taken_if_no_case_was() {
        let (definition, _) =
            read("name: a\nsteps:\n- branch: {cases: [{if: 'true', steps: [{wait: {signal: x}}]}]}\n- wait: {signal: y}\n").unwrap();
        let taken = |history: &[Visited]| {
            diagram(&definition, history, false).into_string().matches("class=\"way taken\"").count()
        };
        assert_eq!(taken(&[]), 0);
        // Two lines around the case, and one line to the second step.
        assert_eq!(taken(&[visited("wait-1", How::Open)]), 3);
        assert_eq!(taken(&[visited("branch-0/0/wait-0", How::Open)]), 1);
    }

    #[test]
    fn a_branch_that_lost_is_not_marked_behind_the_step_where_it_ended() {
        let text = "name: a\nsteps:\n- fork:\n    name: race\n    join: any\n    branches:\n    - - wait: {name: win, signal: x}\n    - - repeat: {name: again, max: 3, steps: [{wait: {name: lose, signal: y}}]}\n      - set: {name: never, value: '.'}\n- wait: {name: after, signal: z}\n";
        let (definition, program) = read(text).unwrap();
        let path = |end: &str| {
            let node = program.nodes.iter().find(|node| node.path.ends_with(end)).unwrap();
            node.path.clone()
        };
        let history = [
            visited("race", How::Done),
            visited(&path("win"), How::Done),
            visited(&path("lose"), How::Cancelled),
            visited("after", How::Open),
        ];
        let svg = diagram(&definition, &history, false).into_string();
        for (end, class) in [
            ("win", "step done"),
            ("lose", "step cancelled"),
            ("again", "step cancelled"),
            ("never", "step"),
            ("after", "step open"),
        ] {
            assert_eq!(class_of(&svg, &path(end)), class, "{end}");
        }
    }

    #[test]
    fn boxes_lie_inside_of_the_diagram_and_never_on_each_other() {
        for example in ALL {
            let (definition, _) = read(example.text).unwrap();
            let svg = diagram(&definition, &[], false).into_string();
            let number = |text: &str, key: &str| -> i64 {
                let rest = text.split_once(&format!(" {key}=\"")).unwrap().1;
                rest.split('"').next().unwrap().parse().unwrap()
            };
            let (width, height) = (number(&svg, "width"), number(&svg, "height"));
            let boxes: Vec<_> = svg
                .split("<rect x=")
                .skip(1)
                .map(|text| {
                    let text = format!(" x={text}");
                    (number(&text, "x"), number(&text, "y"))
                })
                .collect();
            for (index, (x, y)) in boxes.iter().enumerate() {
                assert!(*x >= 0 && x + BOX_WIDTH <= width && *y >= 0 && y + BOX_HEIGHT <= height, "{svg}");
                let touches = |(a, b): &(i64, i64)| (a - x).abs() < BOX_WIDTH && (b - y).abs() < BOX_HEIGHT;
                assert!(!boxes[index + 1..].iter().any(touches), "{}: {svg}", example.name);
            }
        }
    }

    #[test]
    fn hostile_texts_are_escaped() {
        let text = "name: a\nsteps:\n- fail: {error: '<script>alert(1)</script>\"&'}\n";
        let svg = diagram(&read(text).unwrap().0, &[], false).into_string();
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"), "{svg}");
    }
}
