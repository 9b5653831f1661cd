//! Tests one slip of each kind that the YAML library reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plimsoll_yaml::{Place, Slip, document};
use serde::Deserialize;

/// Words of the YAML library, of serde and of Rust that no message repeats.
const FOREIGN: [&str; 30] = [
    "Option<",
    "untagged",
    "budget",
    "breach",
    "variant",
    "struct",
    "field",
    "deserialize",
    "invalid type",
    "invalid value",
    "serde",
    "Policy",
    "Options",
    "sequence",
    "mapping",
    "scalar",
    "while parsing",
    "simple key",
    "EOF",
    "eof",
    "<block",
    "u32",
    "i64",
    "f64",
    "bool",
    "unit",
    "enum",
    "flow",
    "replay",
    "tuple",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the test reads errors only")]
struct Typed {
    title: String,
    #[serde(default)]
    count: u32,
    #[serde(default)]
    small: i8,
    #[serde(default)]
    rate: f64,
    #[serde(default)]
    on: bool,
    #[serde(default)]
    list: Vec<String>,
    #[serde(default)]
    map: BTreeMap<String, Typed>,
    #[serde(default)]
    any: serde_json::Value,
    #[serde(default)]
    pair: Option<(u32, u32)>,
    #[serde(default)]
    client: Option<Client>,
    #[serde(default)]
    stop: Option<Stop>,
    #[serde(default)]
    w: Option<W>,
    #[serde(default)]
    plain: Option<Plain>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Client {
    Lean,
    Driver,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(dead_code, reason = "the test reads errors only")]
enum Stop {
    Closed { writers: u32 },
    After(u32),
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "w: write a number or majority")]
#[expect(dead_code, reason = "the test reads errors only")]
enum W {
    Number(u32),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "the test reads errors only")]
enum Plain {
    Number(u32),
}

fn slip(text: &str) -> Slip {
    document::<Typed>(text).unwrap_err()
}

/// Checks each slip: its place, and its message.
fn check(slips: &[(&str, Option<Place>, &str)]) {
    let mut wrong = String::new();
    for (text, place, words) in slips {
        let slip = slip(text);
        let said = slip.fault.to_string();
        let foreign = FOREIGN.iter().find(|word| said.contains(*word));
        if slip.place != *place || !said.starts_with(words) || foreign.is_some() {
            writeln!(
                wrong,
                "{text:?}\n   is: {:?} {said}\n  not: {place:?} {words}; {foreign:?}",
                slip.place
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_value_of_the_wrong_type_names_both_types() {
    check(&[
        ("title: null\n", Some((1, 8)), "found no value: write a text"),
        ("title:\n", Some((1, 6)), "found no value: write a text"),
        ("title: [a]\n", Some((1, 8)), "found a list: write a single value"),
        ("title: {a: 1}\n", Some((1, 8)), "found a map: write a single value"),
        ("title: t\ncount: ten\n", Some((2, 8)), "found `ten`: write a whole number from 0 to 4294967295"),
        ("title: t\ncount: -1\n", Some((2, 8)), "found `-1`: write a whole number from 0 to 4294967295"),
        (
            "title: t\ncount: 5000000000\n",
            Some((2, 8)),
            "found `5000000000`: write a whole number from 0 to 4294967295",
        ),
        ("title: t\ncount: 1.5\n", Some((2, 8)), "found `1.5`: write a whole number from 0 to 4294967295"),
        ("title: t\ncount: null\n", Some((2, 8)), "found no value: write a whole number from 0"),
        ("title: t\ncount: [1]\n", Some((2, 8)), "found a list: write a single value"),
        ("title: t\nsmall: 200\n", Some((2, 8)), "found `200`: write a whole number from -128 to 127"),
        ("title: t\nrate: fast\n", Some((2, 7)), "found `fast`: write a number"),
        ("title: t\non: maybe\n", Some((2, 5)), "found `maybe`: write true or false"),
        ("title: t\nlist: a\n", Some((2, 7)), "found `a`: write a list"),
        ("title: t\nlist: {a: 1}\n", Some((2, 7)), "found a map: write a list"),
        ("title: t\nlist:\n  a: 1\n", Some((3, 3)), "found a map: write a list"),
        ("title: t\nmap: [a]\n", Some((2, 6)), "found a list: write a map of keys"),
        ("title: t\nmap:\n  - a\n", Some((3, 3)), "found a list: write a map of keys"),
        ("title: t\nmap: 5\n", Some((2, 6)), "found `5`: write a map of keys"),
        ("- a\n", Some((1, 1)), "found a list: write a map of keys"),
        ("just a text\n", Some((1, 1)), "found `just a text`: write a map of keys"),
        ("title: t\npair: [1]\n", Some((2, 1)), "found 1 value: write a list of 2 values"),
        ("title: t\nw: [1]\n", Some((2, 4)), "w: write a number or majority"),
        ("title: t\nplain: x\n", Some((2, 8)), "the value has none of the possible forms"),
        ("title: t\nany: .nan\n", Some((2, 6)), "found the number .nan: write a finite number"),
    ]);
}

#[test]
fn a_wrong_name_gets_the_nearest() {
    check(&[
        (
            "title: t\ncuont: 1\n",
            Some((2, 1)),
            "unknown key `cuont`: did you mean `count`? Possible here: `title`",
        ),
        ("title: t\nzzz: 1\n", Some((2, 1)), "unknown key `zzz`: write one of `title`, `count`"),
        (
            "title: t\nclient: leen\n",
            Some((2, 9)),
            "unknown choice `leen`: did you mean `lean`? Possible here: `lean`, `driver`",
        ),
        ("title: t\nclient: 5\n", Some((2, 9)), "unknown choice `5`: write one of `lean`, `driver`"),
        (
            "title: t\nclient: [lean]\n",
            Some((2, 9)),
            "found a list: write a word, or a map with a single key",
        ),
        ("title: t\nclient: {lean: 1}\n", Some((2, 16)), "found `1`: write the word alone, without a value"),
        ("title: t\nstop: closed\n", Some((2, 7)), "`closed` needs settings: write `closed: {…}`"),
        ("title: t\nstop: closed\n# why\ncount: 1\n", Some((2, 7)), "`closed` needs settings"),
        ("{title: t, stop: closed, count: 1}\n", Some((1, 18)), "`closed` needs settings"),
        ("{title: t, stop: closed}\n", Some((1, 18)), "`closed` needs settings"),
        (
            "title: t\nstop: {closed: {writer: 1}}\n",
            Some((2, 17)),
            "unknown key `writer`: did you mean `writers`?",
        ),
        ("title: t\nstop: {closed: {}}\n", Some((2, 16)), "the key `writers` is missing: add it"),
        (
            "title: t\nstop: {after: 1, closed: 2}\n",
            Some((2, 18)),
            "found a second key: write a map with a single key",
        ),
        ("count: 1\n", Some((1, 1)), "the key `title` is missing: add it"),
        ("title: t\ntitle: u\n", Some((2, 1)), "the key `title` appears twice: keep one of them"),
        ("title: t\nany: {a: 1, a: 2}\n", Some((2, 13)), "the key `a` appears twice: keep one of them"),
    ]);
}

#[test]
fn a_text_that_is_not_yaml_says_what_to_close_quote_or_indent() {
    check(&[
        ("\ttitle: t\nzzz: 1\n", Some((1, 1)), "a tab is not possible here: indent with spaces"),
        ("title: t\n\tcount: 1\n", Some((2, 1)), "a tab is not possible here: indent with spaces"),
        ("title: t\nmap:\n\ta: 1\n", Some((3, 1)), "a tab is not possible here: indent with spaces"),
        ("title: 't\n", Some((1, 8)), "the quote is not closed"),
        ("title: \"t\n", Some((1, 8)), "the quote is not closed"),
        ("title: t\nlist: [a, b\n", Some((2, 7)), "`[` is not closed: write `]`"),
        ("title: t\nany: {a: 1\n", Some((2, 6)), "`{` is not closed: write `}`"),
        ("title: t\nlist: [a}\n", Some((2, 7)), "`}` closes `[`: write `]`"),
        ("title: t\nlist: ]\n", Some((2, 7)), "this bracket closes nothing"),
        (
            "title: t: u\n",
            Some((1, 9)),
            "`:` or a key is not possible here: write `key: value` on a separate line, or quote",
        ),
        ("title: t\n count: 1\n", Some((2, 7)), "`:` or a key is not possible here"),
        ("any:\n    a: 1\n  b: 2\n", Some((3, 3)), "the indentation does not fit"),
        ("title: @t\n", Some((1, 8)), "a text cannot begin with `@`: quote it"),
        ("title: `t`\n", Some((1, 8)), "a text cannot begin with ```: quote it"),
        ("title: \"\\q\"\n", Some((1, 8)), "an escape in double quotes is invalid"),
        ("title: 'a' b\n", Some((1, 12)), "text follows the closing quote"),
        ("title: *t\n", Some((1, 8)), "no anchor of this name comes before the alias"),
        (
            "title: t\nlist: - a\n",
            Some((2, 7)),
            "`-` is not possible here: begin each value of a list on a separate line",
        ),
        ("title: t\ncount\n", Some((2, 1)), "a key has no `: ` after it"),
    ]);
}

#[test]
fn a_wrong_value_has_its_key_if_both_are_on_one_line() {
    for (text, key) in [
        ("title: t\ncount: ten\n", Some("count")),
        ("{title: t, 'count' : ten}\n", Some("count")),
        ("title: t\nstop: {closed: {writers: 1.5}}\n", Some("writers")),
        ("title: t\nclient: leen\n", Some("client")),
        ("title: t\ncount:\n  ten\n", None),
        ("title: t\ncuont: 1\n", None),
        // The word before the colon may be a part of a value, and a secret.
        ("title: hunter2: @x\n", None),
        ("title: hunter2: 'x\n", None),
        ("title: hunter2: [x\n", None),
    ] {
        assert_eq!(slip(text).key.as_deref(), key, "{text:?}");
    }
}

#[test]
fn a_text_over_a_limit_says_which() {
    let deep = format!("title: t\nany: {}1{}\n", "[".repeat(80), "]".repeat(80));
    let deeper = format!("title: t\nany: {}1{}\n", "[".repeat(300), "]".repeat(300));
    let mut bomb = String::from("title: t\nany:\n  a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (name, of) in ["b", "c", "d", "e", "f", "g", "h"].iter().zip(["a", "b", "c", "d", "e", "f", "g"]) {
        let aliases = vec![format!("*{of}"); 10].join(", ");
        writeln!(bomb, "  {name}: &{name} [{aliases}]").unwrap();
    }
    let many = format!("title: t\nany: [&a 1, {}]\n", vec!["*a"; 200].join(", "));
    for (text, words) in [
        (deep.as_str(), "nested 65 deep, which is too deep"),
        (&deeper, "too deep"),
        (&bomb, "repeat fewer of them with aliases"),
        (&many, "the aliases repeat too many values"),
        ("title: t\n---\ntitle: u\n", "a second document begins here"),
        ("", "the file is empty"),
        ("# a comment\n---\n\n", "the file is empty"),
    ] {
        let said = slip(text).to_string();
        assert!(said.contains(words), "{words}: {said}");
        assert!(!FOREIGN.iter().any(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn a_column_counts_characters_also_on_long_lines_and_in_other_scripts() {
    let long = format!("{{title: '{}', cuont: 1}}\n", "x".repeat(200));
    let wide = "{title: '日本語のé😀', cuont: 1}\n";
    let marked = "\u{feff}title: t\ncuont: 1\n";
    for (text, line, column) in [(long.as_str(), 1, 213), (wide, 1, 19), (marked, 2, 1)] {
        let slip = slip(text);
        assert_eq!(slip.place, Some((line, column)), "{slip}");
        let shown = slip.with_excerpt(text, "my.yaml");
        assert!(shown.contains(&format!("--> my.yaml:{line}:{column}\n")), "{shown}");
        assert!(shown.lines().nth(3).unwrap().contains("cuont"), "{shown}");
    }
}
