//! Finds the place of a value by its path, such as `document.note.$text` or `phases[0].stop`.

use serde_saphyr::granit_parser::{Event, Parser};

use crate::cause::Place;

/// A map or a list around the current value.
enum Around {
    /// A map at a path, with its key whose value comes next.
    Map(String, Option<String>),
    /// A list at a path, with the number of its next item.
    List(String, usize),
}

/// The place of the deepest key or item on the way to `path` in a text. `None` if the text has none of its
/// keys, or is no YAML.
pub fn place_of(text: &str, path: &str) -> Option<Place> {
    let mut deepest: Option<(usize, Place)> = None;
    walk(text, |here, place| {
        if is_on_the_way(here, path) && deepest.is_none_or(|(length, _)| here.len() > length) {
            deepest = Some((here.len(), place));
        }
    })?;
    deepest.map(|(_, place)| place)
}

/// The path and the place of the key or item whose path ends with the longest part of `path`. For `bump.$inc.a`
/// the path is, for example, `phases.0.load.bump.operation.update.update.$inc.a`. Among equally long parts, the
/// path with the most earlier names of `path` counts, and then the first one. `None` if the text has no such
/// key, or is no YAML.
pub fn key_of_end(text: &str, path: &str) -> Option<(String, Place)> {
    let path = names(path);
    let mut best: Option<((usize, usize), (String, Place))> = None;
    walk(text, |here, place| {
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

/// Calls `see` with the path and the place of each key, item and value. `None` if the text is no YAML.
fn walk(text: &str, mut see: impl FnMut(&str, Place)) -> Option<()> {
    let mut around: Vec<Around> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        if matches!(event, Event::MappingEnd | Event::SequenceEnd) {
            around.pop();
            continue;
        }
        let Some(here) = enter(&mut around, &event) else { continue };
        see(&here, (span.start.line(), span.start.col() + 1));
        match event {
            Event::MappingStart(..) => around.push(Around::Map(here, None)),
            Event::SequenceStart(..) => around.push(Around::List(here, 0)),
            _ => {}
        }
    }
    Some(())
}

/// The path of the key or value that an event begins. `None` if it begins neither.
fn enter(around: &mut [Around], event: &Event<'_>) -> Option<String> {
    if !matches!(
        event,
        Event::Scalar(..) | Event::Alias(..) | Event::MappingStart(..) | Event::SequenceStart(..)
    ) {
        return None;
    }
    match (around.last_mut(), event) {
        (None, _) => Some(String::new()),
        (Some(Around::List(list, next)), _) => {
            *next += 1;
            Some(format!("{list}[{}]", *next - 1))
        }
        (Some(Around::Map(map, key)), _) if key.is_some() => {
            Some(joined(map, &key.take().unwrap_or_default()))
        }
        (Some(Around::Map(map, key)), Event::Scalar(name, ..)) => {
            *key = Some(name.to_string());
            Some(joined(map, name))
        }
        // A key that is no word has no path.
        (Some(Around::Map(_, key)), _) => {
            *key = Some(String::new());
            Some(String::new())
        }
    }
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
}
