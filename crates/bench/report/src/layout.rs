//! Lays out text for a terminal: sections, wrapped paragraphs and aligned tables.

use crate::prose::{GLUE, glued};
use crate::tables::{Align, Cell, Table, Tone};

/// The width of text, in columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Width(pub usize);

impl Width {
    /// The width for a pipe or a file.
    pub const PIPE: Self = Self(100);
    /// The smallest width to which text is laid out.
    pub const MIN: Self = Self(60);
    /// The width of a log, which keeps one line for one message.
    pub const ENDLESS: Self = Self(usize::MAX);
}

/// The start of a bullet.
pub(crate) const BULLET: &str = "  • ";

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// No escape codes.
    #[default]
    Plain,
    /// Colour in addition to words, never instead of them.
    Colour,
}

/// The medium of a summary: its width, and whether it shows colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// No line is wider, except for a path that is longer alone.
    pub width: Width,
    /// The colours.
    pub style: Style,
}

impl Screen {
    /// A pipe or a file.
    pub const PIPE: Self = Self { width: Width::PIPE, style: Style::Plain };
}

/// A summary in sections that fit a screen. Empty sections are left out.
pub(crate) struct Document {
    screen: Screen,
    sections: Vec<Vec<String>>,
}

impl Document {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, sections: Vec::new() }
    }

    /// Adds a title and the facts below it.
    pub(crate) fn title(&mut self, title: &str, facts: &[String]) {
        let facts = (!facts.is_empty()).then(|| wrap(&facts.join(" · "), "", self.screen.width));
        self.section(heading(title, self.screen).chain(facts.into_iter().flatten()));
    }

    /// Adds a verdict and the reasons for it.
    pub(crate) fn verdict<'a>(
        &mut self,
        (words, tone): (&str, Tone),
        reasons: impl IntoIterator<Item = &'a String>,
    ) {
        let Screen { width, style } = self.screen;
        let words = wrap(words, "", width).into_iter().map(move |line| paint(&line, tone, style));
        self.section(words.chain(bullets(reasons, width)));
    }

    /// Adds a table under its title; nothing if it has no rows.
    pub(crate) fn table(&mut self, table: &Table) {
        self.section(titled(table, self.screen));
    }

    /// Adds sentences, one bullet each.
    pub(crate) fn bullets<'a>(&mut self, sentences: impl IntoIterator<Item = &'a String>) {
        self.section(bullets(sentences, self.screen.width));
    }

    /// Adds the page of a result and the next command. A path is never cut: the user copies it.
    pub(crate) fn ending(&mut self, page: &str, next: &str) {
        self.section([format!("Page  {page}"), format!("Next  {next}")]);
    }

    /// Adds lines as they are.
    pub(crate) fn section(&mut self, lines: impl IntoIterator<Item = String>) {
        let lines: Vec<_> = lines.into_iter().collect();
        if !lines.is_empty() {
            self.sections.push(lines);
        }
    }

    /// The text, with a blank line between sections and a line feed at the end.
    pub(crate) fn finish(self) -> String {
        let sections: Vec<_> = self.sections.iter().map(|section| section.join("\n")).collect();
        sections.join("\n\n") + "\n"
    }
}

/// `table` under its title; nothing if it has no rows.
pub(crate) fn titled(table: &Table, screen: Screen) -> Vec<String> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    heading(&table.title, screen).chain(lines(table, screen)).collect()
}

fn heading(title: &str, screen: Screen) -> impl Iterator<Item = String> {
    wrap(title, "", screen.width).into_iter().map(move |line| paint(&line, Tone::Strong, screen.style))
}

/// Sentences, one bullet each.
pub(crate) fn bullets<'a>(sentences: impl IntoIterator<Item = &'a String>, width: Width) -> Vec<String> {
    sentences.into_iter().flat_map(|sentence| wrap(sentence, BULLET, width)).collect()
}

/// `text` in `tone`, if `style` allows colour.
pub(crate) fn paint(text: &str, tone: Tone, style: Style) -> String {
    if text.is_empty() {
        return String::new();
    }
    let code = match (style, tone) {
        (Style::Plain, _) | (_, Tone::Normal) => return text.to_owned(),
        (_, Tone::Strong) => "1",
        (_, Tone::Faint) => "2",
        (_, Tone::Good) => "32",
        (_, Tone::Bad) => "1;31",
        (_, Tone::Doubtful) => "33",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// `text` cut to `width` characters, the last of them an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Columns are at least this wide, in characters.
const COLUMN_MIN: usize = 4;
/// The flexible column keeps this width, in characters, before a table is split.
const FLEXIBLE_MIN: usize = 20;

/// `table` under its headings, indented by two, with two blanks between columns. Columns are as wide as their widest cells.
/// If a line is wider than the screen, the flexible column shrinks first. If that is not enough, the table is split: the columns
/// that do not fit follow below, after the key columns.
pub(crate) fn lines(table: &Table, screen: Screen) -> Vec<String> {
    let width = screen.width.0;
    let natural: Vec<usize> = (0..table.columns.len()).map(|column| widest(table, column)).collect();
    let mut least = natural.clone();
    shrink(&mut least, table.flexible, FLEXIBLE_MIN, width);
    let block = |columns: Vec<usize>| {
        let mut widths: Vec<usize> = columns.iter().map(|column| natural[*column]).collect();
        let flexible = columns.iter().position(|column| *column == table.flexible);
        squeeze(&mut widths, flexible, width);
        block_lines(table, &columns, &widths, screen.style)
    };
    blocks(&least, keys(table), width).into_iter().flat_map(block).collect()
}

/// The number of leading columns that name a row: the columns of words before the first column of numbers. If
/// no column has numbers, the first column.
fn keys(table: &Table) -> usize {
    let words = table.columns.iter().take_while(|column| column.align == Align::Left).count();
    if words == table.columns.len() { 1 } else { words.max(1) }
}

/// The columns of each part of a table: as many as fit into `width`, the first `keys` in every part.
fn blocks(widths: &[usize], keys: usize, width: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..widths.len()).collect();
    let (keys, others) = all.split_at(keys.min(widths.len()));
    let mut blocks = vec![keys.to_vec()];
    for column in others {
        let Some(block) = blocks.last_mut() else { break };
        let used: Vec<usize> = block.iter().chain([column]).map(|column| widths[*column]).collect();
        if block.len() > keys.len() && total(&used) > width {
            blocks.push(keys.iter().chain([column]).copied().collect());
        } else {
            block.push(*column);
        }
    }
    blocks
}

/// The lines of some columns of a table.
fn block_lines(table: &Table, columns: &[usize], widths: &[usize], style: Style) -> Vec<String> {
    let headings: Vec<Cell> =
        table.columns.iter().map(|column| Cell::toned(column.name.as_ref(), Tone::Faint)).collect();
    let headings = table.has_headings().then_some(headings);
    let rows = headings.iter().chain(&table.rows);
    let part = |row: &Vec<Cell>| {
        let cells = columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default());
        let cells = cells.zip(columns).zip(widths).map(|((cell, column), width)| {
            let text = if table.wraps && *column == table.flexible {
                wrap(&cell.text, "", Width(*width))
            } else {
                vec![cut(&cell.text, *width)]
            };
            Shown { text, tone: cell.tone, align: table.columns[*column].align, width: *width }
        });
        row_lines(&cells.collect::<Vec<_>>(), style)
    };
    rows.flat_map(part).collect()
}

/// The first of `tables` that fits into `width` uncut, or the last. The widest comes first.
pub(crate) fn fitting(tables: impl IntoIterator<Item = Table>, width: Width) -> Table {
    let mut chosen = Table::default();
    for table in tables {
        chosen = table;
        if natural_width(&chosen) <= width.0 {
            break;
        }
    }
    chosen
}

/// The width of `table` uncut.
fn natural_width(table: &Table) -> usize {
    total(&(0..table.columns.len()).map(|column| widest(table, column)).collect::<Vec<_>>())
}

/// The width of a line: two columns of indent, two blanks between columns.
fn total(widths: &[usize]) -> usize {
    2 + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Narrows a column, at most to `min`, until a line fits.
fn shrink(widths: &mut [usize], column: usize, min: usize, width: usize) {
    let over = total(widths).saturating_sub(width);
    if let Some(column) = widths.get_mut(column) {
        *column -= over.min(column.saturating_sub(min));
    }
}

/// Narrows columns until a line fits: first the flexible one, then the widest. No column vanishes.
fn squeeze(widths: &mut [usize], flexible: Option<usize>, width: usize) {
    if let Some(flexible) = flexible {
        shrink(widths, flexible, FLEXIBLE_MIN, width);
    }
    while total(widths) > width {
        let Some(widest) = widths.iter_mut().filter(|width| **width > COLUMN_MIN).max() else { return };
        *widest -= 1;
    }
}

/// The width of the widest cell of a column, its heading included.
fn widest(table: &Table, column: usize) -> usize {
    let heading = table.columns.get(column).map(|column| column.name.chars().count());
    let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count());
    heading.into_iter().chain(cells).max().unwrap_or(0)
}

/// A cell as lines of text, with the width of its column.
struct Shown {
    text: Vec<String>,
    tone: Tone,
    align: Align,
    width: usize,
}

/// The lines of a row: as many as its highest cell has.
fn row_lines(cells: &[Shown], style: Style) -> Vec<String> {
    let height = cells.iter().map(|cell| cell.text.len()).max().unwrap_or(0);
    (0..height).map(|index| line(cells, index, style)).collect()
}

fn line(cells: &[Shown], index: usize, style: Style) -> String {
    let mut line = String::from(" ");
    for cell in cells {
        let text = cell.text.get(index).map_or("", String::as_str);
        let blanks = " ".repeat(cell.width.saturating_sub(text.chars().count()));
        let painted = paint(text, cell.tone, style);
        match cell.align {
            Align::Left => line += &format!("  {painted}{blanks}"),
            Align::Right => line += &format!("  {blanks}{painted}"),
        }
    }
    line[1..].trim_end().to_owned()
}

/// `text` in lines of at most `width`, broken at blanks, and inside a word only if it is longer than a line. The first line
/// starts with `first`, the others with as many blanks.
pub(crate) fn wrap(text: &str, first: &str, width: Width) -> Vec<String> {
    let indent = " ".repeat(first.chars().count());
    let room = width.0.saturating_sub(indent.len()).max(1);
    let mut lines = vec![first.to_owned()];
    let mut empty = true;
    for word in words(text, room) {
        let used = lines.last().map_or(0, |line| line.chars().count());
        if !empty && used + 1 + word.chars().count() > width.0 {
            lines.push(indent.clone());
            empty = true;
        }
        if let Some(line) = lines.last_mut() {
            *line += if empty { "" } else { " " };
            *line += &word;
        }
        empty = false;
    }
    lines
}

/// The words of `text`, numbers with their units, each at most `max` characters long.
fn words(text: &str, max: usize) -> Vec<String> {
    let text = glued(text);
    let words = text.split([' ', '\n']).filter(|word| !word.is_empty()).map(|word| word.replace(GLUE, " "));
    let pieces = |word: String| {
        let letters: Vec<char> = word.chars().collect();
        letters.chunks(max).map(|piece| piece.iter().collect()).collect::<Vec<String>>()
    };
    words.flat_map(pieces).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tables::{left, right};

    /// Fails if a rendered line is wider than one of the usual screens.
    #[track_caller]
    pub(crate) fn assert_fits(render: impl Fn(Screen) -> String) {
        for width in [60, 80, 100, 140] {
            let text = render(plain(width));
            let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
            assert!(widest.chars().count() <= width, "{width}: {widest}\n{text}");
        }
    }

    fn plain(width: usize) -> Screen {
        Screen { width: Width(width), style: Style::Plain }
    }

    #[test]
    fn no_column_vanishes_where_others_take_all_the_room() {
        let columns = vec![left("name"), right("a number"), left("why")];
        let rows = vec![vec!["n".repeat(60).into(), "1".repeat(60).into(), "because of it".into()]];
        let table = Table { columns, rows, flexible: 2, ..Table::default() };
        let lines = lines(&table, plain(60));
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:?}");
        assert!(lines.iter().any(|line| line.ends_with("because of it")), "{lines:?}");
    }

    fn table(rows: Vec<Vec<Cell>>) -> Table {
        Table { columns: vec![left("name"), right("n")], rows, ..Table::default() }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            vec![vec!["insert".into(), "1,000".into()], vec!["ä".into(), Cell::toned("7", Tone::Good)]];
        assert_eq!(
            lines(&table(rows), Screen::PIPE),
            ["  name        n", "  insert  1,000", "  ä           7"]
        );
    }

    #[test]
    fn colour_does_not_move_a_column() {
        let rows = vec![vec![Cell::toned("held", Tone::Good), "1".into()], vec!["failed".into(), "2".into()]];
        let coloured = lines(&table(rows), Screen { style: Style::Colour, ..Screen::PIPE });
        assert_eq!(coloured[1..], ["  \u{1b}[32mheld\u{1b}[0m    1", "  failed  2"]);
    }

    #[test]
    fn the_flexible_column_gives_way() {
        let rows = vec![vec!["a very long name of a thing".into(), "12345".into()]];
        assert_eq!(lines(&table(rows), plain(30))[1..], ["  a very long name of…   12345"]);
        let rows = vec![vec!["a very long name".into(), "12345".into()]];
        assert_eq!(lines(&table(rows), plain(15))[1..], ["  a ver…  12345"]);
    }

    /// A table with `columns` numbers of seven digits after its keys.
    fn wide(columns: usize) -> Table {
        let numbers = || (0..columns).map(|column| Cell::from(format!("{}", 1_000_000 + column)));
        let rows =
            ["insert", "find"].map(|name| [name.into(), "response".into()].into_iter().chain(numbers()));
        let headings = (0..columns).map(|column| right(format!("n{column}")));
        Table {
            columns: [left("operation"), left("time")].into_iter().chain(headings).collect(),
            rows: rows.map(Iterator::collect).into(),
            ..Table::default()
        }
    }

    #[test]
    fn columns_that_do_not_fit_follow_below_the_keys() {
        assert_eq!(
            lines(&wide(3), plain(40)),
            [
                "  operation  time           n0       n1",
                "  insert     response  1000000  1000001",
                "  find       response  1000000  1000001",
                "  operation  time           n2",
                "  insert     response  1000002",
                "  find       response  1000002",
            ]
        );
    }

    #[test]
    fn every_number_is_whole_at_every_width() {
        for (columns, width) in (1..30).flat_map(|columns| [60, 80, 100, 140].map(|width| (columns, width))) {
            let lines = lines(&wide(columns), plain(width));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
            let text = lines.join(" ");
            for column in 0..columns {
                assert_eq!(text.matches(&format!("{}", 1_000_000 + column)).count(), 2, "{width}: {lines:?}");
            }
        }
    }

    #[test]
    fn long_text_is_broken_at_blanks_and_hangs_under_its_start() {
        assert_eq!(wrap("one two three", "- ", Width(9)), ["- one two", "  three"]);
        assert_eq!(wrap("under 50 ms", "", Width(9)), ["under", "50 ms"]);
        assert_eq!(wrap("to runs/20261125", "- ", Width(9)), ["- to", "  runs/20", "  261125"]);
    }

    #[test]
    fn a_cell_that_wraps_loses_no_word() {
        let table = Table::of_facts("", vec![("name", Some("one two three four five six seven".into()))]);
        assert_eq!(
            lines(&table, plain(24)),
            ["  name  one two three", "        four five six", "        seven"]
        );
    }
}
