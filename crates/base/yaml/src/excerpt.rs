//! Shows the line of a slip, with a mark under its column.

/// The largest number of characters of a line that an excerpt shows on each side of the column.
const SIDE: usize = 50;

/// The line of a place in a text, labelled with its origin. `None` if the text has no such line.
pub fn around(text: &str, origin: &str, (line, column): (usize, usize)) -> Option<String> {
    let shown: Vec<char> = text.lines().nth(line.checked_sub(1)?)?.chars().collect();
    let at = column.checked_sub(1)?.min(shown.len());
    let (from, to) = (at.saturating_sub(SIDE), (at + SIDE).min(shown.len()));
    let before: String = shown[from..at].iter().map(|c| printable(*c)).collect();
    let after: String = shown[at..to].iter().map(|c| printable(*c)).collect();
    let (open, close) = (if from > 0 { "…" } else { "" }, if to < shown.len() { "…" } else { "" });
    let margin = " ".repeat(line.to_string().len());
    let pad: String = open.chars().chain(before.chars()).map(blank).collect();
    Some(format!(
        "{margin}--> {origin}:{line}:{column}\n{margin} |\n{line} | {open}{before}{after}{close}\n{margin} | {pad}^"
    ))
}

/// The character, or a space for a control character, which could move the cursor.
fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// A space as wide as the character: East Asian characters and emoji take two columns.
const fn blank(c: char) -> char {
    match c {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => '\u{3000}',
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_column_and_the_column_stays() {
        let text = format!("a: 1\nb: {}x{}\n", "y".repeat(97), "z".repeat(200));
        let shown = around(&text, "my.yaml", (2, 101)).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], " --> my.yaml:2:101");
        assert!(lines[2].starts_with("2 | …y") && lines[2].ends_with("z…"), "{shown}");
        let mark = lines[3].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[2].chars().nth(mark), Some('x'), "{shown}");
    }

    #[test]
    fn the_mark_stands_under_its_character_also_after_wide_ones() {
        let shown = around("é日本: x", "my.yaml", (1, 6)).unwrap();
        assert!(shown.ends_with("  | \u{20}\u{3000}\u{3000}  ^"), "{shown}");
    }

    #[test]
    fn a_place_outside_the_text_has_no_excerpt() {
        assert_eq!(around("a", "my.yaml", (3, 1)), None);
        assert!(around("a", "my.yaml", (1, 9)).unwrap().ends_with(" ^"));
    }
}
