//! Computes the cost of a round, and of all rounds together.

use std::fmt;

/// The cost of a round.
#[derive(Clone, Copy)]
pub struct Cost {
    pub points_per_s: f64,
    /// CPU of the service, microseconds a reading.
    pub service_us: f64,
    /// CPU of the database server, microseconds a reading.
    pub server_us: f64,
    /// CPU of the load, microseconds a reading.
    pub load_us: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { points_per_s, service_us, server_us, load_us } = self;
        write!(f, "{points_per_s:.0} points/s; CPU a reading: service {service_us:.2} µs, ")?;
        write!(f, "server {server_us:.2} µs, load {load_us:.2} µs")
    }
}

/// Prints the median, the minimum and the maximum of every figure, and of the ratios to the first program.
pub fn report(programs: &[&str], costs: &[Vec<Cost>]) {
    type Figure = (&'static str, fn(&Cost) -> f64);
    const FIGURES: [Figure; 3] = [
        ("points/s", |cost| cost.points_per_s),
        ("service µs", |cost| cost.service_us),
        ("server µs", |cost| cost.server_us),
    ];
    for (program, own) in programs.iter().zip(costs) {
        println!("{program}");
        for (name, figure) in FIGURES {
            let values = own.iter().map(figure).collect();
            let ratios = own.iter().zip(&costs[0]).map(|(own, first)| figure(own) / figure(first)).collect();
            println!("  {name}: {}; ratio to the first: {}", spread(values), spread(ratios));
        }
    }
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_unstable_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    // An even number of values has two in the middle: their mean is the median.
    let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    format!("{median:.3} ({least:.3} to {most:.3})")
}
