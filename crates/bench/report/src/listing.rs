//! Renders lists and facts of workflows for a terminal.

use crate::layout::{Document, Screen};
use crate::prose::plain;
use crate::tables::{Table, left};

/// A list: its title, its columns, and its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The title.
    pub title: String,
    /// The headings.
    pub columns: Vec<&'static str>,
    /// One text per column.
    pub rows: Vec<Vec<String>>,
}

/// A title with facts below it, then lists. Facts without a value and lists without rows are left out. The first column of a list
/// shrinks if space is short.
pub fn text(title: &str, facts: Vec<(&str, Option<String>)>, lists: &[Listing], screen: Screen) -> String {
    let mut document = Document::new(screen);
    let facts =
        facts.into_iter().map(|(name, value)| (name, value.map(|text| plain(&text).into()))).collect();
    document.table(&Table::of_facts(title, facts));
    lists.iter().for_each(|list| document.table(&table(list)));
    document.finish()
}

fn table(list: &Listing) -> Table {
    Table {
        title: list.title.clone(),
        columns: list.columns.iter().map(|name| left(*name)).collect(),
        // Texts of callers and services must not control the terminal.
        rows: list.rows.iter().map(|row| row.iter().map(|text| plain(text).into()).collect()).collect(),
        flexible: 0,
        wraps: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Style, Width};

    #[test]
    fn a_list_fits_into_its_width_and_empty_parts_are_left_out() {
        let list = Listing {
            title: "2 instances".into(),
            columns: vec!["instance", "status"],
            rows: vec![vec!["i".repeat(90), "running".into()], vec!["\u{1b}[31mj".into(), "done".into()]],
        };
        let screen = Screen { width: Width(60), style: Style::Plain };
        let text = text("x", vec![("key", None)], &[Listing::default(), list], screen);
        assert!(text.starts_with("2 instances\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("running") && !text.contains('\u{1b}'), "{text}");
    }
}
