//! Reads k6's threshold grammar: `p(99)<50ms`, `rate<0.01`, `count==0`, `max<=1s`, `avg<500`.
//!
//! Latency bounds carry a unit (`ns`, `us`, `ms`, `s`, `m`); a bare number means milliseconds, as in k6.

use std::fmt;
use std::str::FromStr;

/// A number read from a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregate {
    /// The number of values.
    Count,
    /// The number of values per second, or the value of a metric that is a share.
    Rate,
    /// The value itself.
    Value,
    /// The mean.
    Avg,
    /// The smallest.
    Min,
    /// The median.
    Med,
    /// The largest.
    Max,
    /// A percentile, 0 to 100.
    Percentile(f64),
}

/// The comparison of a measured number with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`, or `===`
    Equal,
    /// `!=`
    NotEqual,
}

/// A bound on a number of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The bounded number.
    pub aggregate: Aggregate,
    /// The comparison.
    pub comparison: Comparison,
    /// The bound: nanoseconds for a latency, else a plain number.
    pub bound: Bound,
}

/// The right-hand side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A number without a unit.
    Plain(f64),
    /// A duration in nanoseconds.
    Nanoseconds(f64),
}

/// An invalid threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{text}`: {problem}; write for example p(99)<50ms, max<=1s, rate<0.01 or count==0")]
pub struct ParseError {
    text: String,
    problem: &'static str,
}

/// The order is k6's: the first of these signs that occurs in a text decides.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("<=", Comparison::LessOrEqual),
    ("<", Comparison::Less),
    (">=", Comparison::GreaterOrEqual),
    (">", Comparison::Greater),
    ("===", Comparison::Equal),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
];

const UNITS: [(&str, f64); 6] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9)];

impl Bound {
    /// The bound in the unit of a latency: a plain number counts milliseconds, as in k6.
    pub const fn as_ns(self) -> f64 {
        match self {
            Self::Plain(milliseconds) => milliseconds * 1e6,
            Self::Nanoseconds(ns) => ns,
        }
    }

    /// The bound as a plain number; nothing if it carries a unit of time.
    pub const fn as_number(self) -> Option<f64> {
        match self {
            Self::Plain(number) => Some(number),
            Self::Nanoseconds(_) => None,
        }
    }
}

impl Comparison {
    /// Whether `value` compared with `bound` holds. Equality is exact, for counts.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
            Self::Equal => value == bound,
            Self::NotEqual => value != bound,
        }
    }
}

/// The lowest percentile that counts as the tail of a latency.
const TAIL_MIN: f64 = 90.0;

impl Threshold {
    /// The bound in nanoseconds, if it is an upper bound on the tail of a latency.
    pub fn tail_bound_ns(&self) -> Option<u64> {
        let is_tail = match self.aggregate {
            Aggregate::Max => true,
            Aggregate::Percentile(percentile) => percentile >= TAIL_MIN,
            _ => false,
        };
        let is_above = matches!(self.comparison, Comparison::Less | Comparison::LessOrEqual);
        let ns = self.bound.as_ns();
        (is_tail && is_above && ns > 0.0).then_some(ns as u64)
    }
}

impl FromStr for Threshold {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let fail = |problem| ParseError { text: text.to_owned(), problem };
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (at, sign, comparison) = COMPARISONS
            .iter()
            .find_map(|(sign, comparison)| Some((compact.find(sign)?, *sign, *comparison)))
            .ok_or_else(|| fail("it has none of < <= > >= == !="))?;
        let aggregate = aggregate(&compact[..at]).ok_or_else(|| {
            fail(
                "the left side is none of p(N), med, avg, min, max, count, rate, value, with N from 0 to 100",
            )
        })?;
        let bound = bound(&compact[at + sign.len()..])
            .ok_or_else(|| fail("the right side is not a number, with or without ns, us, ms, s or m"))?;
        Ok(Self { aggregate, comparison, bound })
    }
}

/// The aggregates without a number.
const AGGREGATES: [(&str, Aggregate); 7] = [
    ("count", Aggregate::Count),
    ("rate", Aggregate::Rate),
    ("value", Aggregate::Value),
    ("avg", Aggregate::Avg),
    ("min", Aggregate::Min),
    ("med", Aggregate::Med),
    ("max", Aggregate::Max),
];

fn aggregate(text: &str) -> Option<Aggregate> {
    let plain = AGGREGATES.iter().find(|(name, _)| *name == text).map(|(_, aggregate)| *aggregate);
    plain.or_else(|| {
        let percentile: f64 = text.strip_prefix("p(")?.strip_suffix(')')?.parse().ok()?;
        (0.0..=100.0).contains(&percentile).then_some(Aggregate::Percentile(percentile))
    })
}

fn bound(text: &str) -> Option<Bound> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let number: f64 = digits.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite())?;
    match &text[digits.len()..] {
        "" => Some(Bound::Plain(number)),
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| Bound::Nanoseconds(number * ns)),
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, AGGREGATES.iter().find(|(_, aggregate)| aggregate == self)) {
            (Self::Percentile(percentile), _) => write!(f, "p({percentile})"),
            (_, plain) => f.write_str(plain.map_or("", |(name, _)| name)),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = COMPARISONS.iter().rfind(|(_, comparison)| comparison == self);
        f.write_str(sign.map_or("", |(sign, _)| sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, aggregate: Aggregate, comparison: Comparison, bound: Bound) {
        assert_eq!(text.parse(), Ok(Threshold { aggregate, comparison, bound }), "{text}");
    }

    #[test]
    fn every_form_of_the_grammar_is_read() {
        check("p(99)<50ms", Aggregate::Percentile(99.0), Comparison::Less, Bound::Nanoseconds(50e6));
        check("p(99.9) <= 1s", Aggregate::Percentile(99.9), Comparison::LessOrEqual, Bound::Nanoseconds(1e9));
        check("p(95)<500", Aggregate::Percentile(95.0), Comparison::Less, Bound::Plain(500.0));
        check("rate<0.01", Aggregate::Rate, Comparison::Less, Bound::Plain(0.01));
        check("count==0", Aggregate::Count, Comparison::Equal, Bound::Plain(0.0));
        check("count!=1_000", Aggregate::Count, Comparison::NotEqual, Bound::Plain(1000.0));
        check("med>=2us", Aggregate::Med, Comparison::GreaterOrEqual, Bound::Nanoseconds(2000.0));
        check("count===3", Aggregate::Count, Comparison::Equal, Bound::Plain(3.0));
        check("rate > 1e3", Aggregate::Rate, Comparison::Greater, Bound::Plain(1000.0));
        check("min>=.5", Aggregate::Min, Comparison::GreaterOrEqual, Bound::Plain(0.5));
        check("value<=-1", Aggregate::Value, Comparison::LessOrEqual, Bound::Plain(-1.0));
        check("max>3m", Aggregate::Max, Comparison::Greater, Bound::Nanoseconds(180e9));
    }

    #[test]
    fn an_invalid_threshold_is_refused_with_an_example() {
        for text in
            ["p99<50ms", "p(101)<1", "max 5", "max<fast", "max<5h", "count==", "<5", "avg<NaN", "count=>5"]
        {
            let message = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("write for example"), "{message}");
        }
    }

    #[test]
    fn a_comparison_is_displayed_as_it_was_parsed() {
        for text in ["<", "<=", ">", ">=", "==", "!="] {
            let threshold: Threshold = format!("count{text}1").parse().unwrap();
            assert_eq!(threshold.comparison.to_string(), text);
        }
    }

    #[test]
    fn a_bare_latency_bound_counts_milliseconds() {
        assert_eq!(Bound::Plain(500.0).as_ns(), 5e8);
        assert_eq!(Bound::Nanoseconds(1.0).as_number(), None);
    }

    #[test]
    fn only_an_upper_bound_on_the_slow_end_of_a_latency_is_one() {
        let of = |text: &str| text.parse::<Threshold>().unwrap().tail_bound_ns();
        assert_eq!(
            (of("p(99)<50ms"), of("max<=1s"), of("p(95)<20")),
            (Some(50_000_000), Some(1_000_000_000), Some(20_000_000))
        );
        for text in ["count>0", "p(99)>1ms", "med<5ms", "avg<5ms", "p(50)<5ms", "p(99)<0ms"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
