//! Lays out text for a terminal: sections, wrapped paragraphs and aligned tables.

use crate::prose::{GLUE, glued};
use crate::tables::{Align, Cell, Column, Table, Tone};

/// Columns of a summary at most.
pub(crate) const WIDTH: usize = 100;
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

/// A summary in sections, at most [`WIDTH`] columns wide. Empty sections are left out.
pub(crate) struct Document {
    style: Style,
    sections: Vec<Vec<String>>,
}

impl Document {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, sections: Vec::new() }
    }

    /// Adds a title and the facts below it.
    pub(crate) fn title(&mut self, title: &str, facts: &[String]) {
        let facts = (!facts.is_empty()).then(|| wrap(&facts.join(" · "), "", WIDTH));
        self.section(heading(title, self.style).chain(facts.into_iter().flatten()));
    }

    /// Adds a verdict and the reasons for it.
    pub(crate) fn verdict<'a>(
        &mut self,
        (words, tone): (&str, Tone),
        reasons: impl IntoIterator<Item = &'a String>,
    ) {
        self.section(std::iter::once(paint(words, tone, self.style)).chain(bullets(reasons)));
    }

    /// Adds a table under its title; nothing if it has no rows.
    pub(crate) fn table(&mut self, table: &Table) {
        self.section(titled(table, self.style));
    }

    /// Adds sentences, one bullet each.
    pub(crate) fn bullets<'a>(&mut self, sentences: impl IntoIterator<Item = &'a String>) {
        self.section(bullets(sentences));
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
pub(crate) fn titled(table: &Table, style: Style) -> Vec<String> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    heading(&table.title, style).chain(lines(table, WIDTH, style)).collect()
}

fn heading(title: &str, style: Style) -> impl Iterator<Item = String> {
    wrap(title, "", WIDTH).into_iter().map(move |line| paint(&line, Tone::Strong, style))
}

/// Sentences, one bullet each.
pub(crate) fn bullets<'a>(sentences: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    sentences.into_iter().flat_map(|sentence| wrap(sentence, BULLET, WIDTH)).collect()
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

/// `table` under its headings, indented by two, with two blanks between columns. Columns are as wide as their widest cells;
/// the flexible column is cut if a line exceeds `width`.
pub(crate) fn lines(table: &Table, width: usize, style: Style) -> Vec<String> {
    let headings =
        table.columns.iter().map(|column| Cell::toned(column.name.as_ref(), Tone::Faint)).collect();
    let headings = table.has_headings().then_some(headings);
    let rows: Vec<&Vec<Cell>> = headings.iter().chain(&table.rows).collect();
    let mut widths: Vec<usize> = (0..table.columns.len()).map(|column| widest(&rows, column)).collect();
    fit(&mut widths, table.flexible, width);
    rows.iter().map(|row| line(row, &table.columns, &widths, style)).collect()
}

/// The first of `tables` that fits into `width` columns uncut, or the last. The widest comes first.
pub(crate) fn fitting(tables: impl IntoIterator<Item = Table>, width: usize) -> Table {
    let mut chosen = Table::default();
    for table in tables {
        chosen = table;
        if natural_width(&chosen) <= width {
            break;
        }
    }
    chosen
}

/// The width of `table` uncut.
fn natural_width(table: &Table) -> usize {
    let headings: Vec<Cell> = table.columns.iter().map(|column| Cell::from(column.name.as_ref())).collect();
    let rows: Vec<&Vec<Cell>> = std::iter::once(&headings).chain(&table.rows).collect();
    total(&(0..table.columns.len()).map(|column| widest(&rows, column)).collect::<Vec<_>>())
}

/// The width of a line: two columns of indent, two blanks between columns.
fn total(widths: &[usize]) -> usize {
    2 + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Narrows columns until a line fits: first the flexible one, then the widest. None vanishes.
fn fit(widths: &mut [usize], flexible: usize, width: usize) {
    let mut over = total(widths).saturating_sub(width);
    if let Some(first) = widths.get_mut(flexible) {
        let given = over.min(first.saturating_sub(COLUMN_MIN));
        *first -= given;
        over -= given;
    }
    while over > 0 {
        let Some(widest) = widths.iter_mut().filter(|width| **width > COLUMN_MIN).max() else { return };
        *widest -= 1;
        over -= 1;
    }
}

fn widest(rows: &[&Vec<Cell>], column: usize) -> usize {
    rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count()).max().unwrap_or(0)
}

fn line(row: &[Cell], columns: &[Column], widths: &[usize], style: Style) -> String {
    let mut line = String::from(" ");
    for ((cell, column), width) in row.iter().zip(columns).zip(widths) {
        let text = cut(&cell.text, *width);
        let blanks = " ".repeat(width - text.chars().count());
        let painted = paint(&text, cell.tone, style);
        match column.align {
            Align::Left => line += &format!("  {painted}{blanks}"),
            Align::Right => line += &format!("  {blanks}{painted}"),
        }
    }
    line[1..].trim_end().to_owned()
}

/// `text` in lines of at most `width` characters, broken at blanks. The first line starts with `first`, the others with as
/// many blanks.
pub(crate) fn wrap(text: &str, first: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(first.chars().count());
    let mut lines = vec![first.to_owned()];
    let mut empty = true;
    for word in glued(text).split([' ', '\n']).filter(|word| !word.is_empty()) {
        let word = cut(&word.replace(GLUE, " "), width.saturating_sub(indent.len()));
        let used = lines.last().map_or(0, |line| line.chars().count());
        if !empty && used + 1 + word.chars().count() > width {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{left, right};

    #[test]
    fn no_column_vanishes_where_others_take_all_the_room() {
        let columns = vec![left("name"), right("a number"), left("why")];
        let rows = vec![vec!["n".repeat(60).into(), "1".repeat(60).into(), "because of it".into()]];
        let table = Table { columns, rows, flexible: 2, ..Table::default() };
        let lines = lines(&table, 60, Style::Plain);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:?}");
        assert!(lines[1].ends_with("bec…"), "{lines:?}");
    }

    fn table(rows: Vec<Vec<Cell>>) -> Table {
        Table { columns: vec![left("name"), right("n")], rows, ..Table::default() }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            vec![vec!["insert".into(), "1,000".into()], vec!["ä".into(), Cell::toned("7", Tone::Good)]];
        assert_eq!(
            lines(&table(rows), 100, Style::Plain),
            ["  name        n", "  insert  1,000", "  ä           7"]
        );
    }

    #[test]
    fn colour_does_not_move_a_column() {
        let rows = vec![vec![Cell::toned("held", Tone::Good), "1".into()], vec!["failed".into(), "2".into()]];
        let coloured = lines(&table(rows), 100, Style::Colour);
        assert_eq!(coloured[1..], ["  \u{1b}[32mheld\u{1b}[0m    1", "  failed  2"]);
    }

    #[test]
    fn the_flexible_column_gives_way() {
        let rows = vec![vec!["a very long name".into(), "12345".into()]];
        assert_eq!(lines(&table(rows), 15, Style::Plain)[1..], ["  a ver…  12345"]);
    }

    #[test]
    fn long_text_is_broken_at_blanks_and_hangs_under_its_start() {
        assert_eq!(wrap("one two three", "- ", 9), ["- one two", "  three"]);
        assert_eq!(wrap("under 50 ms", "", 9), ["under", "50 ms"]);
    }
}
