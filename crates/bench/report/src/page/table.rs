//! Renders a table as markup.

use maud::{Markup, html};

use crate::tables::{Align, Cell, Column, Table, Tone};

/// A cell with at least this many characters keeps a readable width on a narrow page. Its table then scrolls.
const LONG: usize = 24;

/// `table` with its title as caption, in a box that scrolls on narrow pages; nothing if it is empty.
pub(crate) fn table(table: &Table) -> Markup {
    if table.rows.is_empty() {
        return Markup::default();
    }
    html! {
        div.wide {
            table {
                caption { (table.title) }
                @if table.has_headings() {
                    thead { tr {
                        @for column in &table.columns { th scope="col" class=[numeric(column)] { (column.name.as_ref()) } }
                    } }
                }
                tbody { @for row in &table.rows { (cells(row, &table.columns)) } }
            }
        }
    }
}

fn cells(row: &[Cell], columns: &[Column]) -> Markup {
    html! {
        tr {
            @for (index, (cell, column)) in row.iter().zip(columns).enumerate() {
                @if index == 0 && column.align == Align::Left { th scope="row" { (text(cell)) } }
                @else { td class=[numeric(column).or_else(|| long(cell))] { (text(cell)) } }
            }
        }
    }
}

fn numeric(column: &Column) -> Option<&'static str> {
    (column.align == Align::Right).then_some("n")
}

fn long(cell: &Cell) -> Option<&'static str> {
    (cell.text.chars().count() >= LONG).then_some("long")
}

/// A cell's words in their tone.
fn text(cell: &Cell) -> Markup {
    html! {
        @match tone(cell.tone).filter(|_| !cell.text.is_empty()) {
            Some(class) => { span class=(class) { (cell.text) } }
            None => { (cell.text) }
        }
    }
}

/// The page's class for a tone.
pub(crate) const fn tone(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Normal => None,
        Tone::Strong => Some("strong"),
        Tone::Faint => Some("faint"),
        Tone::Good => Some("good"),
        Tone::Bad => Some("bad"),
        Tone::Doubtful => Some("doubtful"),
    }
}
