//! Finds import cycles among the modules of a crate.
//!
//! Modules with one parent must not form an import cycle, themselves or through their children. A
//! parent and its own children may: a child uses the types of its parent, and the parent re-exports the items
//! of its children. Tests are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// A module, as the list of names from the crate's root to it. The list of the root is empty.
type Module = Vec<String>;
/// The imports between the modules of one parent.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Finds the cycles in a crate with the sources `files`, as (path below `src`, text): the parent, and the
/// modules in the cycle.
pub(crate) fn cycles(files: &[(&Path, &str)]) -> Vec<(String, Vec<String>)> {
    let sources: BTreeMap<Module, Vec<Token>> =
        files.iter().map(|(path, text)| (module(path), tokens(without_tests(text)))).collect();
    let sources = without_test_modules(sources, files);
    let known = Known::of(&sources);
    let mut by_parent: BTreeMap<Module, Imports> = BTreeMap::new();
    for (from, tokens) in &sources {
        for to in paths(tokens).iter().filter_map(|path| known.resolve(from, path)) {
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let imports = by_parent.entry(from[..shared].to_vec()).or_default();
                imports.entry(a.clone()).or_default().insert(b.clone());
            }
        }
    }
    let of_parent = |(parent, imports): (&Module, &Imports)| {
        let parent = if parent.is_empty() { "the crate".to_owned() } else { parent.join("::") };
        cycles_among(imports).into_iter().map(|cycle| (parent.clone(), cycle)).collect::<Vec<_>>()
    };
    by_parent.iter().flat_map(of_parent).collect()
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the root.
fn module(path: &Path) -> Module {
    let stem = path.with_extension("");
    let mut names: Module = stem
        .components()
        .filter_map(
            |part| if let Component::Normal(name) = part { name.to_str().map(str::to_owned) } else { None },
        )
        .collect();
    let is_root = names.len() == 1 && matches!(names[0].as_str(), "lib" | "main");
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// Removes the unit tests, which are at the end of a file.
fn without_tests(text: &str) -> &str {
    let inline = text.match_indices("#[cfg(test)]").find(|(at, attribute)| {
        let line = text[at + attribute.len()..].trim_start().lines().next().unwrap_or_default();
        line.contains("mod ") && line.ends_with('{')
    });
    inline.map_or(text, |(at, _)| &text[..at])
}

/// Removes the modules that a parent declares only for tests, with all their children.
fn without_test_modules(
    sources: BTreeMap<Module, Vec<Token>>,
    files: &[(&Path, &str)],
) -> BTreeMap<Module, Vec<Token>> {
    let mut tests: BTreeSet<Module> = BTreeSet::new();
    for (path, text) in files {
        for (at, attribute) in text.match_indices("#[cfg(test)]") {
            let line = text[at + attribute.len()..].trim_start().lines().next().unwrap_or_default();
            let name = line.split("mod ").nth(1).and_then(|rest| rest.strip_suffix(';'));
            tests.extend(name.map(|name| [module(path), vec![name.to_owned()]].concat()));
        }
    }
    sources.into_iter().filter(|(name, _)| !tests.iter().any(|test| name.starts_with(test))).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Path,
    Mark(char),
}

/// The tokens of a text, without comments.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line.split("//").next().unwrap_or_default();
        while let Some(first) = rest.chars().next() {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let used = if length > 0 {
                found.push(Token::Word(rest[..length].to_owned()));
                length
            } else if rest.starts_with("::") {
                found.push(Token::Path);
                2
            } else {
                found.extend((!first.is_whitespace()).then_some(Token::Mark(first)));
                first.len_utf8()
            };
            rest = &rest[used..];
        }
    }
    found
}

/// Every path of a file that names a module or an item: those of `use`, with their braces expanded, and those
/// that begin with `crate`, `self` or `super`.
fn paths(tokens: &[Token]) -> Vec<Module> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Word(word) if word == "use" => at = tree(tokens, at + 1, &[], &mut found),
            Token::Word(word) if matches!(word.as_str(), "crate" | "self" | "super") => {
                let (path, next) = straight(tokens, at);
                found.extend((path.len() > 1).then_some(path));
                at = next;
            }
            _ => at += 1,
        }
    }
    found
}

/// Reads words with `::` between them; returns the path and its end.
fn straight(tokens: &[Token], mut at: usize) -> (Module, usize) {
    let mut path = Vec::new();
    while let Some(Token::Word(word)) = tokens.get(at) {
        path.push(word.clone());
        at += 1;
        match tokens.get(at) {
            Some(Token::Path) => at += 1,
            _ => break,
        }
    }
    (path, at)
}

/// Expands a tree of `use` after `before`; returns its end.
fn tree(tokens: &[Token], at: usize, before: &[String], found: &mut Vec<Module>) -> usize {
    let (path, mut at) = straight(tokens, at);
    let path = [before, &path].concat();
    if tokens.get(at) == Some(&Token::Mark('{')) {
        at += 1;
        while at < tokens.len() && tokens[at] != Token::Mark('}') {
            at = tree(tokens, at, &path, found);
            if tokens.get(at) == Some(&Token::Mark(',')) {
                at += 1;
            }
        }
        return at + 1;
    }
    let end = |token: &Token| matches!(token, Token::Mark(',' | ';' | '}'));
    // Only `*` and `as NAME` remain.
    let next = tokens[at..].iter().position(end).map_or(tokens.len(), |more| at + more);
    found.push(path);
    next
}

/// The modules of a crate, and the names under which a parent re-exports the items of its children.
struct Known {
    modules: BTreeSet<Module>,
    shown: BTreeMap<(Module, String), Module>,
}

impl Known {
    fn of(sources: &BTreeMap<Module, Vec<Token>>) -> Self {
        let modules: BTreeSet<Module> = sources.keys().cloned().collect();
        let mut shown = BTreeMap::new();
        for (module, tokens) in sources {
            for path in paths(tokens) {
                let path =
                    if path.first().is_some_and(|first| first == "self") { &path[1..] } else { &path[..] };
                if let [child, .., name] = path {
                    let child = [&module[..], std::slice::from_ref(child)].concat();
                    if modules.contains(&child) {
                        shown.insert((module.clone(), name.clone()), child);
                    }
                }
            }
        }
        Self { modules, shown }
    }

    /// The module of this crate that a path in `from` leads to, if any.
    fn resolve(&self, from: &Module, path: &[String]) -> Option<Module> {
        let (mut at, mut rest): (Module, &[String]) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                (from[..from.len().checked_sub(up)?].to_vec(), &path[up..])
            }
            first => {
                let child = [&from[..], &[first.to_owned()]].concat();
                if !self.modules.contains(&child) {
                    return None;
                }
                (from.clone(), path)
            }
        };
        while let Some((next, more)) = rest.split_first() {
            let child = [&at[..], std::slice::from_ref(next)].concat();
            if self.modules.contains(&child) {
                (at, rest) = (child, more);
            } else if let Some(child) = self.shown.get(&(at.clone(), next.clone())) {
                // The child may itself re-export an item of its children.
                at = child.clone();
            } else {
                break;
            }
        }
        Some(at)
    }
}

/// Groups of modules that reach each other: the strongly connected components.
fn cycles_among(imports: &Imports) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = imports.get(from).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next.clone()) {
                open.extend(imports.get(next).into_iter().flatten());
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<String>> = imports.keys().map(|name| (name, reached(name))).collect();
    let cycle = |name: &String| -> Vec<String> {
        let back = |other: &&String| all.get(other).is_some_and(|reached| reached.contains(name));
        all[name].iter().filter(back).cloned().collect()
    };
    let found: BTreeSet<Vec<String>> =
        all.keys().map(|name| cycle(name)).filter(|cycle| cycle.len() > 1).collect();
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[(&str, &[&str])]) {
        let files: Vec<_> = files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        let found = cycles(&files);
        let found: Vec<_> = found
            .iter()
            .map(|(parent, cycle)| (parent.as_str(), cycle.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<(&str, Vec<&str>)> =
            expected.iter().map(|(parent, cycle)| (*parent, cycle.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_that_import_each_other_are_a_cycle() {
        check(
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "fn f() { super::a::g() }"),
            ],
            &[("the crate", &["a", "b"])],
        );
        check(&[("a.rs", "use crate::{b::{B, C}, c};"), ("b.rs", "use crate::c::*;"), ("c.rs", "")], &[]);
        check(
            &[("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "use crate::a as x;")],
            &[("the crate", &["a", "b", "c"])],
        );
    }

    #[test]
    fn a_parent_and_its_children_are_no_cycle() {
        check(&[("a/mod.rs", "mod b; pub use b::B;"), ("a/b.rs", "use super::A; use crate::a::C;")], &[]);
    }

    #[test]
    fn a_cycle_through_children_and_re_exports_is_found() {
        check(
            &[
                ("lib.rs", "mod a; mod b; pub use a::deep::Thing;"),
                ("a.rs", "pub mod deep;"),
                ("a/deep.rs", "use crate::b::B;"),
                ("b.rs", "use crate::Thing;"),
            ],
            &[("the crate", &["a", "b"])],
        );
        check(
            &[("a.rs", ""), ("a/b.rs", "use super::c::C;"), ("a/c.rs", "use crate::a::b::B;")],
            &[("a", &["b", "c"])],
        );
    }

    #[test]
    fn tests_and_comments_do_not_count() {
        check(
            &[
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "// use crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
            ],
            &[],
        );
        check(
            &[("lib.rs", "#[cfg(test)]\nmod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")],
            &[],
        );
    }
}
