//! Lists units, their prefixes and their values in base units (the SI brochure, 9th edition; CODATA 2022).

use std::f64::consts::PI;

/// The base units, in the order of a spelling.
pub(super) const BASES: [&str; 9] = ["kg", "m", "s", "A", "K", "cd", "mol", "rad", "b"];

/// The power of each base unit.
pub(super) type Dimensions = [i32; BASES.len()];

const PURE: Dimensions = [0, 0, 0, 0, 0, 0, 0, 0, 0];
const MASS: Dimensions = [1, 0, 0, 0, 0, 0, 0, 0, 0];
const LENGTH: Dimensions = [0, 1, 0, 0, 0, 0, 0, 0, 0];
const TIME: Dimensions = [0, 0, 1, 0, 0, 0, 0, 0, 0];
const CURRENT: Dimensions = [0, 0, 0, 1, 0, 0, 0, 0, 0];
const TEMPERATURE: Dimensions = [0, 0, 0, 0, 1, 0, 0, 0, 0];
const LIGHT: Dimensions = [0, 0, 0, 0, 0, 1, 0, 0, 0];
const AMOUNT: Dimensions = [0, 0, 0, 0, 0, 0, 1, 0, 0];
const ANGLE: Dimensions = [0, 0, 0, 0, 0, 0, 0, 1, 0];
const BIT: Dimensions = [0, 0, 0, 0, 0, 0, 0, 0, 1];
const AREA: Dimensions = [0, 2, 0, 0, 0, 0, 0, 0, 0];
const VOLUME: Dimensions = [0, 3, 0, 0, 0, 0, 0, 0, 0];
const FREQUENCY: Dimensions = [0, 0, -1, 0, 0, 0, 0, 0, 0];
const FORCE: Dimensions = [1, 1, -2, 0, 0, 0, 0, 0, 0];
const ENERGY: Dimensions = [1, 2, -2, 0, 0, 0, 0, 0, 0];
const POWER: Dimensions = [1, 2, -3, 0, 0, 0, 0, 0, 0];
const PRESSURE: Dimensions = [1, -1, -2, 0, 0, 0, 0, 0, 0];
const CHARGE: Dimensions = [0, 0, 1, 1, 0, 0, 0, 0, 0];
const VOLTAGE: Dimensions = [1, 2, -3, -1, 0, 0, 0, 0, 0];
const RESISTANCE: Dimensions = [1, 2, -3, -2, 0, 0, 0, 0, 0];
const CONDUCTANCE: Dimensions = [-1, -2, 3, 2, 0, 0, 0, 0, 0];
const CAPACITANCE: Dimensions = [-1, -2, 4, 2, 0, 0, 0, 0, 0];
const FLUX: Dimensions = [1, 2, -2, -1, 0, 0, 0, 0, 0];
const FIELD: Dimensions = [1, 0, -2, -1, 0, 0, 0, 0, 0];
const INDUCTANCE: Dimensions = [1, 2, -2, -2, 0, 0, 0, 0, 0];
const DOSE: Dimensions = [0, 2, -2, 0, 0, 0, 0, 0, 0];

/// A unit: `SI = value × factor + offset`.
pub(super) struct Unit {
    pub(super) names: &'static [&'static str],
    pub(super) prefixes: Prefixes,
    pub(super) factor: f64,
    pub(super) offset: f64,
    pub(super) dimensions: Dimensions,
}

/// The prefixes that a unit takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefixes {
    /// None.
    None,
    /// `k`, `m`.
    Symbols,
    /// `kilo`, `milli`.
    Words,
}

impl Prefixes {
    pub(super) fn list(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::None => &[],
            Self::Symbols => &SYMBOLS,
            Self::Words => &WORDS,
        }
    }
}

const SYMBOLS: [(&str, f64); 22] = [
    ("da", 1e1),
    ("h", 1e2),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("Z", 1e21),
    ("Y", 1e24),
    ("d", 1e-1),
    ("c", 1e-2),
    ("m", 1e-3),
    ("u", 1e-6),
    ("\u{b5}", 1e-6),
    ("\u{3bc}", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
    ("f", 1e-15),
    ("a", 1e-18),
    ("z", 1e-21),
    ("y", 1e-24),
];

const WORDS: [(&str, f64); 16] = [
    ("deca", 1e1),
    ("hecto", 1e2),
    ("kilo", 1e3),
    ("mega", 1e6),
    ("giga", 1e9),
    ("tera", 1e12),
    ("peta", 1e15),
    ("exa", 1e18),
    ("deci", 1e-1),
    ("centi", 1e-2),
    ("milli", 1e-3),
    ("micro", 1e-6),
    ("nano", 1e-9),
    ("pico", 1e-12),
    ("femto", 1e-15),
    ("atto", 1e-18),
];

const fn symbols(names: &'static [&'static str], factor: f64, dimensions: Dimensions) -> Unit {
    Unit { names, prefixes: Prefixes::Symbols, factor, offset: 0.0, dimensions }
}

const fn words(names: &'static [&'static str], factor: f64, dimensions: Dimensions) -> Unit {
    Unit { names, prefixes: Prefixes::Words, factor, offset: 0.0, dimensions }
}

const fn plain(names: &'static [&'static str], factor: f64, dimensions: Dimensions) -> Unit {
    Unit { names, prefixes: Prefixes::None, factor, offset: 0.0, dimensions }
}

const fn temperature(names: &'static [&'static str], factor: f64, offset: f64) -> Unit {
    Unit { names, prefixes: Prefixes::None, factor, offset, dimensions: TEMPERATURE }
}

/// The units. A full name wins over a prefix and a name: `min` is no milli-inch, `cd` no centi-day.
pub(super) const UNITS: &[Unit] = &[
    symbols(&["m"], 1.0, LENGTH),
    words(&["meter", "meters", "metre", "metres"], 1.0, LENGTH),
    plain(&["angstrom", "Angstrom", "angstroms", "\u{c5}", "\u{212b}"], 1e-10, LENGTH),
    plain(&["micron", "microns"], 1e-6, LENGTH),
    plain(&["in", "inch", "inches"], 0.0254, LENGTH),
    plain(&["ft", "foot", "feet"], 0.3048, LENGTH),
    plain(&["yd", "yard", "yards"], 0.9144, LENGTH),
    plain(&["mi", "mile", "miles"], 1_609.344, LENGTH),
    symbols(&["g"], 1e-3, MASS),
    words(&["gram", "grams"], 1e-3, MASS),
    plain(&["t", "tonne", "tonnes"], 1e3, MASS),
    plain(&["lb", "lbs"], 0.453_592_37, MASS),
    plain(&["amu", "u", "Da"], 1.660_539_068_92e-27, MASS),
    symbols(&["s", "sec"], 1.0, TIME),
    words(&["second", "seconds"], 1.0, TIME),
    plain(&["min", "mins", "minute", "minutes"], 60.0, TIME),
    plain(&["h", "hr", "hrs", "hour", "hours"], 3_600.0, TIME),
    plain(&["d", "day", "days"], 86_400.0, TIME),
    plain(&["week", "weeks"], 604_800.0, TIME),
    symbols(&["A"], 1.0, CURRENT),
    words(&["ampere", "amperes", "amp", "amps"], 1.0, CURRENT),
    symbols(&["K"], 1.0, TEMPERATURE),
    words(&["kelvin"], 1.0, TEMPERATURE),
    temperature(&["degC", "celsius", "°C", "℃"], 1.0, 273.15),
    temperature(&["degF", "fahrenheit", "°F"], 5.0 / 9.0, 459.67 * 5.0 / 9.0),
    symbols(&["cd"], 1.0, LIGHT),
    words(&["candela"], 1.0, LIGHT),
    symbols(&["mol"], 1.0, AMOUNT),
    words(&["mole", "moles"], 1.0, AMOUNT),
    symbols(&["rad"], 1.0, ANGLE),
    words(&["radian", "radians"], 1.0, ANGLE),
    plain(&["deg", "degree", "degrees", "°"], PI / 180.0, ANGLE),
    plain(&["arcmin"], PI / 10_800.0, ANGLE),
    plain(&["arcsec"], PI / 648_000.0, ANGLE),
    symbols(&["b"], 1.0, BIT),
    words(&["bit", "bits"], 1.0, BIT),
    symbols(&["B"], 8.0, BIT),
    words(&["byte", "bytes"], 8.0, BIT),
    symbols(&["barn"], 1e-28, AREA),
    symbols(&["l", "L"], 1e-3, VOLUME),
    words(&["liter", "liters", "litre", "litres"], 1e-3, VOLUME),
    symbols(&["Hz"], 1.0, FREQUENCY),
    words(&["hertz"], 1.0, FREQUENCY),
    symbols(&["Bq"], 1.0, FREQUENCY),
    symbols(&["N"], 1.0, FORCE),
    words(&["newton", "newtons"], 1.0, FORCE),
    symbols(&["J"], 1.0, ENERGY),
    words(&["joule", "joules"], 1.0, ENERGY),
    symbols(&["eV"], 1.602_176_634e-19, ENERGY),
    words(&["electronvolt", "electronvolts"], 1.602_176_634e-19, ENERGY),
    symbols(&["Wh"], 3_600.0, ENERGY),
    symbols(&["W"], 1.0, POWER),
    words(&["watt", "watts"], 1.0, POWER),
    symbols(&["Pa"], 1.0, PRESSURE),
    words(&["pascal", "pascals"], 1.0, PRESSURE),
    symbols(&["bar"], 1e5, PRESSURE),
    plain(&["atm"], 101_325.0, PRESSURE),
    symbols(&["torr", "Torr"], 101_325.0 / 760.0, PRESSURE),
    plain(&["mmHg"], 133.322_387_415, PRESSURE),
    plain(&["psi"], 6_894.757_293_168, PRESSURE),
    symbols(&["C"], 1.0, CHARGE),
    words(&["coulomb", "coulombs"], 1.0, CHARGE),
    symbols(&["V"], 1.0, VOLTAGE),
    words(&["volt", "volts"], 1.0, VOLTAGE),
    symbols(&["ohm", "\u{3a9}", "\u{2126}"], 1.0, RESISTANCE),
    symbols(&["S"], 1.0, CONDUCTANCE),
    symbols(&["F"], 1.0, CAPACITANCE),
    symbols(&["Wb"], 1.0, FLUX),
    symbols(&["T"], 1.0, FIELD),
    words(&["tesla"], 1.0, FIELD),
    symbols(&["G"], 1e-4, FIELD),
    words(&["gauss"], 1e-4, FIELD),
    symbols(&["H"], 1.0, INDUCTANCE),
    symbols(&["Gy", "Sv"], 1.0, DOSE),
    symbols(&["lm"], 1.0, LIGHT),
    plain(&["percent", "%"], 1e-2, PURE),
];
