//! Compiles the checks of an answer into conditions; each has a name and its own counter.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::Error;
use crate::json::Path;
use crate::scenario::{self, BodyCheck, Method, StatusMatch, Statuses, TextCheck, ValueCheck, Wanted};

/// The statuses that are accepted by default.
const STATUS_DEFAULT: RangeInclusive<u16> = 200..=399;

/// All conditions of a request, the status first.
#[derive(Debug)]
pub(crate) struct Checks {
    pub statuses: Vec<RangeInclusive<u16>>,
    pub conditions: Vec<Condition>,
    /// One name for the status and one for each condition.
    pub names: Vec<String>,
}

/// A condition besides the status.
#[derive(Debug)]
pub(crate) enum Condition {
    Header(String, TextWant),
    /// A value of the JSON body.
    Json(Path, ValueWant),
    /// The size of the body in bytes.
    Size(RangeInclusive<u64>),
    /// A text in the body.
    Contains(Vec<u8>),
}

/// A condition on a text.
#[derive(Debug)]
pub(crate) enum TextWant {
    Equals(String),
    Like { exists: bool, contains: String, starts_with: String },
}

/// A condition on a JSON value.
#[derive(Debug)]
pub(crate) enum ValueWant {
    /// It must not exist.
    Missing,
    /// It must exist and meet all these conditions.
    Like { equals: Option<Value>, number: Option<(f64, f64)>, items: Option<(u64, u64)> },
}

impl Checks {
    pub(super) fn compile(place: &str, typed: &scenario::Check, method: Method) -> Result<Self, Error> {
        let place = format!("{place}.check");
        let statuses = statuses(&format!("{place}.status"), typed.status.as_ref())?;
        let mut checks = Self { names: vec![status_name(&statuses)], statuses, conditions: Vec::new() };
        if method == Method::Head && (!typed.json.is_empty() || typed.body.is_some()) {
            return Err(Error::Check {
                place,
                problem: "the answer to HEAD has no body; use get, or check headers",
            });
        }
        for (name, wanted) in &typed.headers {
            let wanted = text_want(&format!("{place}.headers.{name}"), wanted)?;
            checks.add(format!("header {name}"), Condition::Header(name.to_ascii_lowercase(), wanted));
        }
        for (path, wanted) in &typed.json {
            let parsed = Path::parse(path);
            let parsed = parsed
                .ok_or_else(|| Error::JsonPath { place: format!("{place}.json"), path: path.clone() })?;
            let wanted = value_want(&format!("{place}.json.{path}"), wanted)?;
            checks.add(format!("json {path}"), Condition::Json(parsed, wanted));
        }
        if let Some(body) = &typed.body {
            checks.body(&format!("{place}.body"), body)?;
        }
        Ok(checks)
    }

    fn add(&mut self, name: String, condition: Condition) {
        self.names.push(name);
        self.conditions.push(condition);
    }

    fn body(&mut self, place: &str, typed: &BodyCheck) -> Result<(), Error> {
        if *typed == BodyCheck::default() {
            return Err(nothing(place, "it checks nothing; give min, max or contains"));
        }
        if typed.min.is_some() || typed.max.is_some() {
            let (min, max) =
                (typed.min.map_or(0, |min| min.get()), typed.max.map_or(u64::MAX, |max| max.get()));
            self.add("body size".into(), Condition::Size(min..=max));
        }
        if let Some(text) = &typed.contains {
            self.add(format!("body contains {text:?}"), Condition::Contains(text.clone().into_bytes()));
        }
        Ok(())
    }

    /// Whether a condition needs the body.
    pub(crate) fn needs_body(&self) -> bool {
        self.conditions.iter().any(|it| matches!(it, Condition::Json(..) | Condition::Contains(_)))
    }

    /// Whether a status is accepted.
    pub(crate) fn takes(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }
}

fn nothing(place: &str, problem: &'static str) -> Error {
    Error::Check { place: place.to_owned(), problem }
}

fn statuses(place: &str, typed: Option<&Statuses>) -> Result<Vec<RangeInclusive<u16>>, Error> {
    match typed {
        None => Ok(vec![STATUS_DEFAULT]),
        Some(Statuses::One(one)) => Ok(vec![status(place, one)?]),
        Some(Statuses::Several(several)) if several.is_empty() => {
            Err(nothing(place, "an empty list accepts nothing; name a status"))
        }
        Some(Statuses::Several(several)) => several.iter().map(|one| status(place, one)).collect(),
    }
}

fn status(place: &str, typed: &StatusMatch) -> Result<RangeInclusive<u16>, Error> {
    let text = match typed {
        StatusMatch::Number(number) => number.to_string(),
        StatusMatch::Text(text) => text.trim().to_owned(),
    };
    let class = text
        .strip_suffix("xx")
        .and_then(|class| class.parse::<u16>().ok())
        .filter(|class| (1..=5).contains(class));
    let range = class.map(|class| (class * 100, class * 100 + 99)).or_else(|| {
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    });
    let range = range.filter(|(first, last)| (100..=599).contains(first) && first <= last && *last <= 599);
    range.map(|(first, last)| first..=last).ok_or_else(|| Error::Status { place: place.to_owned(), text })
}

fn status_name(statuses: &[RangeInclusive<u16>]) -> String {
    let one = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) if first % 100 == 0 && *last == first + 99 => format!("{}xx", first / 100),
        (first, last) => format!("{first}-{last}"),
    };
    format!("status {}", statuses.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn text_want(place: &str, typed: &TextCheck) -> Result<TextWant, Error> {
    match typed {
        TextCheck::Equals(text) => Ok(TextWant::Equals(text.clone())),
        TextCheck::Like(like) if *like == scenario::TextWanted::default() => {
            Err(nothing(place, "it checks nothing; give exists, contains or starts_with"))
        }
        TextCheck::Like(like) => Ok(TextWant::Like {
            exists: like.exists.unwrap_or(true),
            contains: like.contains.clone().unwrap_or_default(),
            starts_with: like.starts_with.clone().unwrap_or_default(),
        }),
    }
}

fn value_want(place: &str, typed: &ValueCheck) -> Result<ValueWant, Error> {
    let wanted = match typed {
        ValueCheck::Equals(constant) => Wanted { equals: Some(constant.clone()), ..Wanted::default() },
        ValueCheck::Like(wanted) => wanted.clone(),
    };
    if matches!(typed, ValueCheck::Like(wanted) if *wanted == Wanted::default()) {
        return Err(nothing(
            place,
            "it checks nothing; give exists, equals, min, max, items_min or items_max",
        ));
    }
    if wanted.exists == Some(false) {
        let alone = wanted == Wanted { exists: Some(false), ..Wanted::default() };
        return if alone {
            Ok(ValueWant::Missing)
        } else {
            Err(nothing(place, "`exists: false` allows no other condition; omit the rest"))
        };
    }
    let number = (wanted.min.is_some() || wanted.max.is_some())
        .then(|| (wanted.min.unwrap_or(f64::NEG_INFINITY), wanted.max.unwrap_or(f64::INFINITY)));
    let items = (wanted.items_min.is_some() || wanted.items_max.is_some())
        .then(|| (wanted.items_min.unwrap_or(0), wanted.items_max.unwrap_or(u64::MAX)));
    Ok(ValueWant::Like { equals: wanted.equals, number, items })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str) -> Result<Checks, Error> {
        Checks::compile("op", &serde_saphyr::from_str(yaml).unwrap(), Method::Get)
    }

    #[test]
    fn statuses_are_numbers_classes_ranges_or_lists() {
        for (yaml, name, taken, refused) in [
            ("{}", "status 200-399", 302, 400),
            ("status: 201", "status 201", 201, 200),
            ("status: 2xx", "status 2xx", 299, 300),
            ("status: [200-204, 4xx]", "status 200-204, 4xx", 404, 205),
        ] {
            let checks = check(yaml).unwrap();
            assert_eq!(checks.names, [name]);
            assert!(checks.takes(taken) && !checks.takes(refused), "{yaml}");
        }
        for yaml in
            ["status: 99", "status: 600", "status: 300-200", "status: 6xx", "status: ok", "status: []"]
        {
            assert!(check(yaml).is_err(), "{yaml}");
        }
    }

    #[test]
    fn every_condition_has_a_name_and_only_some_need_the_body() {
        let checks = check("headers: {X-A: b}\nbody: {max: 5B}").unwrap();
        assert_eq!(checks.names, ["status 200-399", "header X-A", "body size"]);
        assert!(!checks.needs_body());
        assert!(check("json: {a: 1}").unwrap().needs_body());
        assert!(check("json: {a: {exists: false, min: 1}}").is_err());
    }
}
