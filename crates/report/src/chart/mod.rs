//! Charts as inline SVG that need no script, stretch with the page and read aloud.
//!
//! A chart is a value; [`draw`] turns it into markup and [`numbers`] into the table beside it.

mod axis;
mod decimate;
mod draw;
mod numbers;
mod ticks;

pub(crate) use axis::Axis;
pub(crate) use decimate::Point;
pub(crate) use draw::draw;

/// Points that a drawn series has at most.
const POINTS_MAX: usize = 600;

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What it shows.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn; later ones lie above earlier ones.
    pub series: Vec<Series>,
    /// Stretches of the horizontal axis that stand out.
    pub bands: Vec<Band>,
    /// Heights that mean something.
    pub rules: Vec<Rule>,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Which of the page's colours it has; they start over after [`HUES`].
    pub hue: usize,
    /// How it is drawn, so that it can be told apart without colour.
    pub stroke: Stroke,
    /// Its points in rising order of x.
    pub points: Vec<Point>,
    /// Points that are marked one by one.
    pub dots: Vec<Dot>,
}

/// How many colours the page has for series.
const HUES: usize = 6;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// Unbroken.
    Solid,
    /// Long strokes.
    Dashed,
    /// Short strokes.
    Dotted,
    /// Unbroken and thin.
    Thin,
}

/// A marked point.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// Where it lies on the horizontal axis.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// What it looks like.
    pub shape: Shape,
    /// What it says.
    pub title: String,
}

/// What a marked point looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A filled circle.
    Circle,
    /// A cross.
    Cross,
}

/// A stretch of the horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct Band {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// What it is called.
    pub label: String,
    /// What it stands for.
    pub kind: BandKind,
}

/// What a band stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BandKind {
    /// The load line.
    Line,
    /// Something to be read with care.
    Doubt,
    /// A part of the run.
    Part,
}

/// A height that means something.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The height.
    pub at: f64,
    /// What it is called.
    pub label: String,
}

impl Series {
    /// A line without marked points.
    pub(crate) fn line(name: impl Into<String>, hue: usize, stroke: Stroke, points: Vec<Point>) -> Self {
        Self { name: name.into(), hue: hue % HUES, stroke, points, dots: Vec::new() }
    }

    /// Whether there is anything to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.iter().all(|point| point.y.is_none()) && self.dots.is_empty()
    }
}

/// The smallest and the largest value of `series`; nothing where there is none.
pub(crate) fn extent<'a>(series: impl IntoIterator<Item = &'a Series>) -> Option<(f64, f64)> {
    let values = series.into_iter().flat_map(|series| series.points.iter().filter_map(|point| point.y));
    values.fold(None, |extent, y| {
        let (low, high) = extent.unwrap_or((y, y));
        Some((f64::min(low, y), f64::max(high, y)))
    })
}
