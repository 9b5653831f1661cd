//! Accepts regular expressions whose work is bounded.

use super::bounds::{PATTERN_BYTES_MAX, QUANTIFIERS_MAX, SEARCH_BYTES_MAX};
use crate::Refusal;
use crate::refusal::shortened;

/// The largest number in a quantifier such as `{1,100}`.
const REPEAT_MAX: u32 = 100;
/// The largest number of long quantifiers.
const LONG_MAX: u32 = 3;
/// A quantifier is long if its upper bound exceeds its lower bound by more than this.
const CHOICES_MAX: u32 = 10;

/// Checks a pattern. It must be short, with few quantifiers. A quantifier around another one or around a choice, a look-around and a
/// reference are refused.
///
/// # Errors
/// The fault.
pub(super) fn check(pattern: &str) -> Result<(), Refusal> {
    let fault = fault(pattern);
    fault.map_or(Ok(()), |why| Err(Refusal::bad(format!("$regex {}: {why}", shortened(pattern)))))
}

/// Checks the options of a pattern. `x` would hide quantifiers behind spaces.
///
/// # Errors
/// An unknown option.
pub(super) fn check_options(options: &str) -> Result<(), Refusal> {
    let known = options.len() <= 4 && options.chars().all(|option| "ims".contains(option));
    if known { Ok(()) } else { Err(Refusal::bad("$options accepts i, m and s")) }
}

/// A pattern that finds `text` itself.
pub(super) fn escaped(text: &str) -> String {
    let escape = |c: char| (c.is_ascii_punctuation() || c == ' ').then_some('\\');
    text.chars().flat_map(|c| escape(c).into_iter().chain([c])).collect()
}

/// A short text that a client searches for.
///
/// # Errors
/// It is too long or has a zero character.
pub(super) fn searched(text: &str) -> Result<String, Refusal> {
    if text.len() > SEARCH_BYTES_MAX || text.contains('\0') {
        return Err(Refusal::bad(format!("search for at most {SEARCH_BYTES_MAX} bytes of text")));
    }
    Ok(escaped(text))
}

fn fault(pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_BYTES_MAX || pattern.contains('\0') {
        return Some(format!("write at most {PATTERN_BYTES_MAX} bytes"));
    }
    let mut scan = Scan { rest: pattern.chars().peekable(), groups: Vec::new(), quantifiers: 0, long: 0 };
    scan.run().err().map(str::to_owned)
}

/// Walks a pattern once.
struct Scan<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// For each open group whether it contains a quantifier or a choice.
    groups: Vec<bool>,
    quantifiers: u32,
    /// The quantifiers without an upper bound, or with a large one: the work grows with a power of their number.
    long: u32,
}

impl Scan<'_> {
    fn run(&mut self) -> Result<(), &'static str> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.open()?,
                ')' => self.close()?,
                '*' | '+' | '?' | '{' => self.quantifier(c)?,
                // A repeated choice has as many ways to match a text as a nested quantifier.
                '|' => self.mark(true),
                _ => (),
            }
        }
        if self.groups.is_empty() { Ok(()) } else { Err("close every group") }
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        match self.rest.next() {
            None => Err("an escape needs a character"),
            Some(c) if c.is_ascii_digit() || "gkKRXCNPpQE".contains(c) => Err("this escape is not supported"),
            Some(_) => Ok(()),
        }
    }

    fn class(&mut self) -> Result<(), &'static str> {
        self.rest.next_if_eq(&'^');
        self.rest.next_if_eq(&']');
        while let Some(c) = self.rest.next() {
            match c {
                ']' => return Ok(()),
                '\\' => self.escape()?,
                _ => (),
            }
        }
        Err("close every class")
    }

    fn open(&mut self) -> Result<(), &'static str> {
        self.groups.push(false);
        if self.rest.next_if_eq(&'*').is_some() {
            return Err("verbs are not supported");
        }
        if self.rest.next_if_eq(&'?').is_none() || self.rest.next_if_eq(&':').is_some() {
            return Ok(());
        }
        Err("only plain groups and (?:…) are supported")
    }

    fn close(&mut self) -> Result<(), &'static str> {
        let inner = self.groups.pop().ok_or("open every group")?;
        let repeats = matches!(self.rest.peek(), Some('*' | '+' | '{'));
        if inner && repeats {
            return Err("a quantifier around another, or around a choice, is not supported");
        }
        self.mark(inner);
        Ok(())
    }

    fn mark(&mut self, quantified: bool) {
        if let Some(group) = self.groups.last_mut() {
            *group |= quantified;
        }
    }

    fn quantifier(&mut self, opening: char) -> Result<(), &'static str> {
        let is_long = match opening {
            '{' => self.repeat()?,
            opening => opening != '?',
        };
        self.long += u32::from(is_long);
        if self.long > LONG_MAX {
            return Err("write at most three of *, + and {n,}");
        }
        // `?` and `+` after a quantifier change its greed only.
        self.rest.next_if(|c| matches!(c, '?' | '+'));
        self.quantifiers += 1;
        self.mark(true);
        if self.quantifiers > QUANTIFIERS_MAX { Err("use fewer quantifiers") } else { Ok(()) }
    }

    /// Reads the numbers of a quantifier. Returns whether it leaves many choices.
    fn repeat(&mut self) -> Result<bool, &'static str> {
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_digit() || *c == ',') {
            text.push(c);
        }
        let ended = self.rest.next_if_eq(&'}').is_some();
        let small = |number: &str| number.is_empty() || number.parse().is_ok_and(|it: u32| it <= REPEAT_MAX);
        if !ended || !text.split(',').all(small) {
            return Err("repeat at most 100 times: {1,100}");
        }
        let Some((least, most)) = text.split_once(',') else { return Ok(false) };
        let (least, most) = (least.parse().unwrap_or(0), most.parse().unwrap_or(u32::MAX));
        Ok(most.saturating_sub(least) > CHOICES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_patterns_are_accepted() {
        for pattern in [
            "^20\\.500",
            "raw",
            ".*scan.*",
            "^/data/(a|b)/[^/]+$",
            "a{1,3}b?",
            "(?:ab)+c",
            "[]a]",
            "x*?",
            "(a+)?",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn patterns_of_unbounded_work_are_refused() {
        for pattern in [
            "(a+)+$",
            "a*a*a*a*$",
            "a{0,99}b{1,}c+d*",
            "((a*))*",
            "(a|b+){2,}",
            "(a|a)*b",
            "((a|a))+b",
            "(?=a)",
            "(?<n>a)",
            "(a)\\1",
            "(?R)",
            "a{1,9999}",
            "(*ACCEPT)",
            "a*a*a*a*a*a*a*a*a*",
            "[a",
            "(a",
            "a)",
            "\\",
            "\\Q",
            "(?i)a",
            &"a".repeat(300),
            "a\0",
        ] {
            assert!(check(pattern).is_err(), "{pattern}");
        }
        assert!(check_options("ig").is_err() && check_options("x").is_err() && check_options("i").is_ok());
    }

    proptest! {
        #[test]
        fn an_escaped_text_is_an_accepted_pattern_unless_it_is_long(text in "[^\0]{0,40}") {
            prop_assert!(check(&escaped(&text)).is_ok() || escaped(&text).len() > PATTERN_BYTES_MAX);
        }
    }
}
