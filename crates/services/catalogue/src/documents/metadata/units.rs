//! Converts a value with a unit into SI base units, in the spelling of SciCat's databases.
//!
//! `docs/decisions/0060-catalogue.md` explains why the project has a separate table of units.

mod table;

use std::ops::RangeInclusive;

use table::{BASES, Dimensions, Prefixes, UNITS, Unit};

/// The longest unit.
const TEXT_BYTES_MAX: usize = 64;
/// The deepest nesting of parentheses.
const DEPTH_MAX: u32 = 4;
/// The accepted powers of a factor.
const POWERS: RangeInclusive<i32> = -9..=9;
/// The largest power of a dimension in a result.
const POWER_MAX: i32 = 99;

/// A value in SI base units.
#[derive(Clone, Debug, PartialEq)]
pub struct Si {
    /// The value.
    pub value: f64,
    /// The unit: `(kg m^2) / s^2`.
    pub unit: String,
}

/// A unit that is understood: `SI = value × factor + offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    factor: f64,
    offset: f64,
    dimensions: Dimensions,
}

/// The value in SI base units. `None` if the unit is unknown or the result is not finite.
pub fn to_si(value: f64, unit: &str) -> Option<Si> {
    let scale = parse(unit)?;
    let value = value.mul_add(scale.factor, scale.offset);
    value.is_finite().then(|| Si { value, unit: spelling(&scale.dimensions) })
}

fn parse(text: &str) -> Option<Scale> {
    let text = text.trim();
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    if let Some(unit) = UNITS.iter().find(|unit| unit.offset != 0.0 && unit.names.contains(&text)) {
        return Some(Scale { factor: unit.factor, offset: unit.offset, dimensions: unit.dimensions });
    }
    let mut parser = Parser { rest: text };
    let scale = parser.product(0)?;
    let sensible = scale.factor.is_finite() && scale.factor != 0.0;
    (parser.rest.is_empty() && sensible).then_some(scale)
}

/// Reads products and quotients of units: `kg m^2 / (s^2 A)`.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn product(&mut self, depth: u32) -> Option<Scale> {
        let mut product = self.power(depth)?;
        loop {
            self.skip_spaces();
            let sign = match self.rest.chars().next() {
                None | Some(')') => return Some(product),
                Some('/') => -1,
                Some('*' | '·' | '.') => 1,
                Some(_) => 0,
            };
            if sign != 0 {
                self.advance();
            }
            let next = self.power(depth)?;
            product = product.times(&next, if sign == 0 { 1 } else { sign })?;
        }
    }

    fn power(&mut self, depth: u32) -> Option<Scale> {
        self.skip_spaces();
        let base = if self.take('(') { self.group(depth)? } else { self.name()? };
        self.skip_spaces();
        if !self.take('^') {
            return Some(base);
        }
        Scale::ONE.times(&base, self.exponent()?)
    }

    fn group(&mut self, depth: u32) -> Option<Scale> {
        let inner = (depth < DEPTH_MAX).then(|| self.product(depth + 1))??;
        self.take(')').then_some(inner)
    }

    fn name(&mut self) -> Option<Scale> {
        let ends = |c: char| !(c.is_alphabetic() || matches!(c, '_' | '%' | '°'));
        let (name, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        if name.is_empty() {
            // `1 / s` has no unit in the numerator.
            return self.take('1').then_some(Scale::ONE);
        }
        self.rest = rest;
        named(name)
    }

    fn exponent(&mut self) -> Option<i32> {
        self.skip_spaces();
        let ends = |(at, c): (usize, char)| !(c.is_ascii_digit() || (at == 0 && c == '-'));
        let end = self.rest.char_indices().find(|it| ends(*it)).map_or(self.rest.len(), |(at, _)| at);
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().ok().filter(|power| POWERS.contains(power))
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, expected: char) -> bool {
        let found = self.rest.strip_prefix(expected);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn advance(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }
}

impl Scale {
    const ONE: Self = Self { factor: 1.0, offset: 0.0, dimensions: [0; BASES.len()] };

    fn times(&self, other: &Self, power: i32) -> Option<Self> {
        let mut dimensions = self.dimensions;
        for (ours, theirs) in dimensions.iter_mut().zip(&other.dimensions) {
            *ours += theirs * power;
        }
        let bounded = dimensions.iter().all(|power| power.abs() <= POWER_MAX);
        bounded.then(|| Self { factor: self.factor * other.factor.powi(power), offset: 0.0, dimensions })
    }
}

/// A unit, or a prefix and a unit. A unit with an offset has no meaning inside a product.
fn named(name: &str) -> Option<Scale> {
    let scale = |unit: &Unit, prefix: f64| Scale {
        factor: prefix * unit.factor,
        offset: 0.0,
        dimensions: unit.dimensions,
    };
    let without_offset = || UNITS.iter().filter(|unit| unit.offset == 0.0);
    if let Some(unit) = without_offset().find(|unit| unit.names.contains(&name)) {
        return Some(scale(unit, 1.0));
    }
    let prefixed = |unit: &Unit| {
        let prefixes = unit.prefixes.list().iter();
        let fits = |prefix: &str, known: &str| name.strip_prefix(prefix) == Some(known);
        let found = prefixes.copied().find(|(prefix, _)| unit.names.iter().any(|known| fits(prefix, known)));
        found.map(|(_, factor)| scale(unit, factor))
    };
    without_offset().filter(|unit| unit.prefixes != Prefixes::None).find_map(prefixed)
}

/// Spells dimensions: `m`, `m / s`, `(kg m^2) / s^2`, `kg / (s^2 A)`, `s^-1`; empty without any.
fn spelling(dimensions: &Dimensions) -> String {
    let part = |above: bool| -> Vec<String> {
        let powers = BASES.iter().zip(dimensions).filter(|(_, power)| (**power > 0) == above && **power != 0);
        powers.map(|(base, power)| raised(base, power.abs())).collect()
    };
    let (above, below) = (part(true), part(false));
    match (above.is_empty(), below.is_empty()) {
        (_, true) => above.join(" "),
        (true, false) => {
            let powers = BASES.iter().zip(dimensions).filter(|(_, power)| **power != 0);
            powers.map(|(base, power)| raised(base, *power)).collect::<Vec<_>>().join(" ")
        }
        (false, false) => format!("{} / {}", grouped(&above), grouped(&below)),
    }
}

fn raised(base: &str, power: i32) -> String {
    if power == 1 { base.to_owned() } else { format!("{base}^{power}") }
}

fn grouped(factors: &[String]) -> String {
    if factors.len() == 1 { factors[0].clone() } else { format!("({})", factors.join(" ")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(value: f64, unit: &str, si: f64, spelling: &str) {
        let found = to_si(value, unit).unwrap_or_else(|| panic!("{unit} is unknown"));
        assert!((found.value - si).abs() <= si.abs() * 1e-12, "{unit}: {} and not {si}", found.value);
        assert_eq!(found.unit, spelling, "{unit}");
    }

    #[test]
    fn a_unit_becomes_its_base_units() {
        check(5.0, "mm", 0.005, "m");
        check(5.0, "m", 5.0, "m");
        check(2.0, "millimeter", 0.002, "m");
        check(1.0, "h", 3600.0, "s");
        check(1.0, "min", 60.0, "s");
        check(3.0, "g", 0.003, "kg");
        check(1.0, "mbar", 100.0, "kg / (m s^2)");
        check(1.0, "hPa", 100.0, "kg / (m s^2)");
        check(1.0, "keV", 1.602_176_634e-16, "(kg m^2) / s^2");
        check(1.0, "T", 1.0, "kg / (s^2 A)");
        check(1.0, "MHz", 1e6, "s^-1");
        check(1.0, "angstrom", 1e-10, "m");
        check(1.0, "Å", 1e-10, "m");
        check(180.0, "deg", std::f64::consts::PI, "rad");
        check(1.0, "mT", 0.001, "kg / (s^2 A)");
        check(1.0, "ft", 0.3048, "m");
        check(1.0, "kB", 8_000.0, "b");
        check(50.0, "%", 0.5, "");
    }

    #[test]
    fn products_quotients_powers_and_groups_are_read() {
        check(5.0, "mm/s", 0.005, "m / s");
        check(1.0, "kg m^2 / s^2", 1.0, "(kg m^2) / s^2");
        check(1.0, "(kg*m^2)/(s^2*A)", 1.0, "(kg m^2) / (s^2 A)");
        check(1.0, "cm^-1", 100.0, "m^-1");
        check(1.0, "1/nm", 1e9, "m^-1");
        check(1.0, "mm^2", 1e-6, "m^2");
        check(1.0, "m/s/s", 1.0, "m / s^2");
    }

    #[test]
    fn a_temperature_has_an_offset_only_alone() {
        check(20.0, "degC", 293.15, "K");
        check(20.0, "celsius", 293.15, "K");
        check(32.0, "degF", 273.15, "K");
        check(1.0, "mK", 0.001, "K");
        assert_eq!(to_si(1.0, "degC/s"), None);
        assert_eq!(to_si(1.0, "mdegC"), None);
    }

    #[test]
    fn an_unknown_or_hostile_unit_is_none() {
        for unit in [
            "",
            "unit",
            "counts",
            "m^999999",
            "m^",
            "(m",
            "m)",
            "((((((m))))))",
            "m//s",
            "2",
            "m^1^1",
            "kkg",
            "constructor",
            "__proto__",
            "µ",
            "^2",
            "m s^10",
            "1",
        ] {
            assert!(to_si(1.0, unit).is_none_or(|si| unit == "1" && si.unit.is_empty()), "{unit}");
        }
        assert_eq!(to_si(1.0, &"m ".repeat(1_000)), None);
        assert_eq!(to_si(f64::MAX, "km"), None, "the result is not finite");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(unit in "[a-zµÅ0-9()/*^ .-]{0,64}") {
            to_si(1.5, &unit);
        }
    }
}
