//! Finds the place of a value by its path, such as `document.note.$text` or `phases[0].stop`.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use crate::cause::Place;

/// A map or a list around the current value.
enum Around {
    /// A map at a path, with its key whose value comes next.
    Map(String, Option<String>),
    /// A list at a path, with the number of its next item.
    List(String, usize),
}

/// A key, an item or a value of a text.
struct Part<'a> {
    path: &'a str,
    place: Place,
    role: Role<'a>,
}

/// The role of a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role<'a> {
    Key,
    /// A value or an item without quotes, such as `5s` or `12`.
    Plain(&'a str),
    /// A value or an item in quotes, or a block of text.
    Text(&'a str),
    /// A map, a list or an alias.
    Other,
}

/// The place of the deepest key or item on the way to `path` in a text. `None` if the text has none of its
/// keys, or is no YAML.
pub fn place_of(text: &str, path: &str) -> Option<Place> {
    let mut deepest: Option<(usize, Place)> = None;
    walk(text, |Part { path: here, place, .. }| {
        if is_on_the_way(here, path) && deepest.is_none_or(|(length, _)| here.len() > length) {
            deepest = Some((here.len(), place));
        }
    })?;
    deepest.map(|(_, place)| place)
}

/// The place of the first single value at `path` or below whose text is `word`.
pub fn place_of_word(text: &str, path: &str, word: &str) -> Option<Place> {
    let (path, mut found) = (names(path), None);
    walk(text, |part| {
        if found.is_none() && part.role.word() == Some(word) && names(part.path).starts_with(&path) {
            found = Some(part.place);
        }
    })?;
    found
}

/// The place of the first whole number without quotes that 64 bits cannot hold.
pub fn place_of_oversize_number(text: &str) -> Option<Place> {
    let mut found = None;
    walk(text, |part| {
        if found.is_none() && matches!(part.role, Role::Plain(word) if is_oversize_number(word)) {
            found = Some(part.place);
        }
    })?;
    found
}

/// The single value of the key at a place, and its place. `None` if no key is at this place.
pub fn value_of_key_at(text: &str, key: Place) -> Option<(String, Place)> {
    let (mut at, mut found) = (None, None);
    walk(text, |part| match (part.role, &at) {
        (Role::Key, None) if part.place == key => at = Some(part.path.to_owned()),
        (role, Some(path)) if found.is_none() && path == part.path => {
            found = role.word().map(|word| (word.to_owned(), part.place));
        }
        _ => {}
    })?;
    found
}

/// Whether a value without quotes is a whole number that neither an unsigned nor a signed integer of 64 bits can hold.
fn is_oversize_number(word: &str) -> bool {
    let (digits, most) = match word.strip_prefix('-') {
        Some(digits) => (digits, i64::MIN.unsigned_abs()),
        None => (word.strip_prefix('+').unwrap_or(word), u64::MAX),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ => (10, digits),
    };
    let digits = digits.replace('_', "");
    let digits = digits.trim_start_matches('0');
    let is_whole = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    is_whole && u64::from_str_radix(digits, radix).map_or(true, |number| number > most)
}

/// The path and the place of the key or item whose path ends with the longest part of `path`. For `bump.$inc.a`
/// the path is, for example, `phases.0.load.bump.operation.update.update.$inc.a`. Among equally long parts, the
/// path with the most earlier names of `path` counts, and then the first one. `None` if the text has no such
/// key, or is no YAML.
pub fn key_of_end(text: &str, path: &str) -> Option<(String, Place)> {
    let path = names(path);
    let mut best: Option<((usize, usize), (String, Place))> = None;
    walk(text, |Part { path: here, place, .. }| {
        let here = names(here);
        let Some(fit) = (0..path.len()).filter_map(|from| fit(&here, &path, from)).max() else { return };
        if best.as_ref().is_none_or(|(known, _)| fit > *known) {
            best = Some((fit, (here.join("."), place)));
        }
    })?;
    best.map(|(_, key)| key)
}

/// The length of the longest part of `path` from index `from` on with which `here` ends, and how many earlier
/// names of `path` occur in `here`.
fn fit(here: &[String], path: &[String], from: usize) -> Option<(usize, usize)> {
    let (before, rest) = path.split_at(from);
    let length = (1..=rest.len()).rev().find(|length| here.ends_with(&rest[..*length]))?;
    Some((length, before.iter().filter(|name| here.contains(name)).count()))
}

/// The names and numbers of a path; `a.b[1]` and `a.b.1` have the same.
fn names(path: &str) -> Vec<String> {
    path.split(['.', '[', ']']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Calls `see` with each key, item and value. `None` if the text is no YAML.
fn walk(text: &str, mut see: impl FnMut(Part<'_>)) -> Option<()> {
    let mut around: Vec<Around> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        if matches!(event, Event::MappingEnd | Event::SequenceEnd) {
            around.pop();
            continue;
        }
        let Some((here, role)) = enter(&mut around, &event) else { continue };
        see(Part { path: &here, place: (span.start.line(), span.start.col() + 1), role });
        match event {
            Event::MappingStart(..) => around.push(Around::Map(here, None)),
            Event::SequenceStart(..) => around.push(Around::List(here, 0)),
            _ => {}
        }
    }
    Some(())
}

impl<'a> Role<'a> {
    fn of_value(event: &'a Event<'_>) -> Self {
        match event {
            Event::Scalar(word, ScalarStyle::Plain, ..) => Self::Plain(word),
            Event::Scalar(text, ..) => Self::Text(text),
            _ => Self::Other,
        }
    }

    /// The text of a single value.
    const fn word(self) -> Option<&'a str> {
        match self {
            Self::Plain(word) | Self::Text(word) => Some(word),
            Self::Key | Self::Other => None,
        }
    }
}

/// The path and the role of the key or value that an event begins. `None` if it begins neither.
fn enter<'a>(around: &mut [Around], event: &'a Event<'_>) -> Option<(String, Role<'a>)> {
    if !matches!(
        event,
        Event::Scalar(..) | Event::Alias(..) | Event::MappingStart(..) | Event::SequenceStart(..)
    ) {
        return None;
    }
    Some(match (around.last_mut(), event) {
        (None, _) => (String::new(), Role::of_value(event)),
        (Some(Around::List(list, next)), _) => {
            *next += 1;
            (format!("{list}[{}]", *next - 1), Role::of_value(event))
        }
        (Some(Around::Map(map, key)), _) if key.is_some() => {
            (joined(map, &key.take().unwrap_or_default()), Role::of_value(event))
        }
        (Some(Around::Map(map, key)), Event::Scalar(name, ..)) => {
            *key = Some(name.to_string());
            (joined(map, name), Role::Key)
        }
        // A key that is no word has no path.
        (Some(Around::Map(_, key)), _) => {
            *key = Some(String::new());
            (String::new(), Role::Key)
        }
    })
}

fn joined(map: &str, key: &str) -> String {
    if map.is_empty() { key.to_owned() } else { format!("{map}.{key}") }
}

fn is_on_the_way(here: &str, path: &str) -> bool {
    let rest = path.strip_prefix(here).filter(|_| !here.is_empty());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title: t\ndocument:\n  name: {$text: {bytez: 20}}\n  a.b:\n    c: 1\n  list:\n  - x\n  - deep: {y: 2}\n\
                        phases:\n- load: {}\n- stop:\n    after: [1, {z: 3}]\n";

    #[track_caller]
    fn check(path: &str, place: Option<Place>) {
        assert_eq!(place_of(TEXT, path), place, "{path}");
    }

    #[test]
    fn a_key_and_an_item_are_found_by_their_path() {
        check("title", Some((1, 1)));
        check("document.name.$text", Some((3, 10)));
        check("document.name.$text.bytez", Some((3, 18)));
        check("document.list[1].deep.y", Some((8, 12)));
        check("phases[1].stop.after[1].z", Some((12, 17)));
        check("document.a.b.c", Some((5, 5)));
    }

    #[test]
    fn the_deepest_existing_part_of_a_path_is_found() {
        check("document.name.$text.bytes", Some((3, 10)));
        check("phases[7].load", Some((9, 1)));
        check("documents", None);
        check("", None);
        assert_eq!(place_of("a: [", "a"), None);
    }

    #[test]
    fn the_end_of_a_path_is_found_below_the_names_before_it() {
        let text = "document: {a: {$int: {max: 1}}}\nload:\n  one: {update: {$inc: {a: {$int: {max: 2}}}}}\n  two: {update: {$inc: {a: {$int: {max: 3}}}}}\n\
                    axes: [{values: {big: {document.a: {$int: {mx: 4}}}}}]\n";
        for (path, whole, place) in [
            ("one.$inc.a.$int.max", "load.one.update.$inc.a.$int.max", (3, 36)),
            ("two.$inc.a.$int.max", "load.two.update.$inc.a.$int.max", (4, 36)),
            ("two.$inc.a.$int.mx", "load.two.update.$inc.a.$int", (4, 29)),
            (".$inc.a.$int", "load.one.update.$inc.a.$int", (3, 29)),
            ("document.a.$int.mx", "axes.0.values.big.document.a.$int.mx", (5, 44)),
            ("document.a.$int.max", "document.a.$int.max", (1, 23)),
        ] {
            assert_eq!(key_of_end(text, path), Some((whole.to_owned(), place)), "{path}");
        }
        assert_eq!(key_of_end(text, "three"), None);
    }

    #[test]
    fn a_key_that_is_a_list_moves_no_later_key() {
        assert_eq!(place_of("? [a, b]\n: 1\nc: 2\n", "c"), Some((3, 1)));
    }
    #[test]
    fn a_value_is_found_by_its_text_below_a_path() {
        let text = "a: x\nexpect: {insert.errors: [\"count<1\", 'count=0'], more: count=0}\n";
        for (path, word, place) in [
            ("expect.insert.errors", "count=0", Some((2, 37))),
            ("expect.insert.errors", "count<1", Some((2, 26))),
            ("expect.more", "count=0", Some((2, 55))),
            ("a", "x", Some((1, 4))),
            ("expect", "insert.errors", None),
            ("b", "x", None),
        ] {
            assert_eq!(place_of_word(text, path, word), place, "{path} {word}");
        }
    }

    #[test]
    fn the_value_of_a_key_is_found_by_the_place_of_the_key() {
        let text = "a: {b: c}\nd: [e]\n";
        assert_eq!(value_of_key_at(text, (1, 5)), Some(("c".into(), (1, 8))));
        for place in [(1, 1), (1, 8), (2, 1), (2, 5), (3, 1)] {
            assert_eq!(value_of_key_at(text, place), None, "{place:?}");
        }
    }

    #[test]
    fn whole_numbers_beyond_64_bits_are_found() {
        for (word, is_oversize) in [
            ("18446744073709551615", false),
            ("18446744073709551616", true),
            ("-9223372036854775808", false),
            ("-9223372036854775809", true),
            ("+99_999_999_999_999_999_999", true),
            ("0xffff_ffff_ffff_ffff", false),
            ("0x1_0000_0000_0000_0000", true),
            ("99999999999999999999999999999999999999999999", true),
            ("18446744073709551616.0", false),
            ("2e19", false),
            ("00099999999999999999999", true),
            ("-00099999999999999999999", true),
            ("0x00_1_0000_0000_0000_0000", true),
            ("00000000000000000000001", false),
            ("0", false),
            ("00", false),
            ("-", false),
            ("\"18446744073709551616\"", false),
            ("18446744073709551616s", false),
        ] {
            let text = format!("a: [1, {word}]\n");
            let expected = is_oversize.then_some((1, 8));
            assert_eq!(place_of_oversize_number(&text), expected, "{word}");
        }
        assert_eq!(place_of_oversize_number("18446744073709551616: key\n"), None);
    }
}
