//! Draws charts as inline SVG that need no script, stretch with the page and can be read aloud.
//!
//! A chart is a value. [`draw`] turns it into markup, and [`numbers`] into a table.

mod axis;
mod decimate;
mod draw;
mod numbers;
mod ticks;

pub(crate) use axis::Axis;
pub(crate) use decimate::Point;
pub(crate) use draw::draw;

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub title: String,
    /// One or two sentences on how to read the chart.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines; later lines are drawn above earlier ones.
    pub series: Vec<Series>,
    /// The highlighted ranges of the horizontal axis.
    pub bands: Vec<Band>,
    /// The marked heights.
    pub rules: Vec<Rule>,
    /// The marked moments, or other positions of the horizontal axis, in rising order.
    pub marks: Vec<Mark>,
    pub size: Size,
}

impl Chart {
    /// A chart of the whole width that has only its lines, on a horizontal and a vertical axis.
    pub(crate) fn new(title: &str, caption: &str, [x, y]: [Axis; 2], series: Vec<Series>) -> Self {
        let (title, caption) = (title.to_owned(), caption.to_owned());
        let (bands, rules, marks) = (Vec::new(), Vec::new(), Vec::new());
        Self { title, caption, x, y, series, bands, rules, marks, size: Size::Full }
    }
}

/// The size of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Size {
    /// The whole width of the page.
    #[default]
    Full,
    /// Half the width.
    Half,
    /// One of many charts that readers compare at a glance.
    Small,
}

impl Size {
    /// The number of characters that fit in a line above the plot on a page of full width. A small chart has
    /// no room for text.
    const fn characters(self) -> usize {
        match self {
            Self::Full => 150,
            Self::Half => 58,
            Self::Small => 0,
        }
    }

    /// The maximum number of points of a drawn series.
    const fn points_max(self) -> usize {
        30 * self.rows()
    }

    /// The number of buckets that show their numbers when pointed at.
    const fn hovers(self) -> usize {
        3 * self.rows()
    }

    /// The rows of the chart's table.
    const fn rows(self) -> usize {
        if matches!(self, Self::Small) { 10 } else { 20 }
    }
}

/// A marked position of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// The position.
    pub at: f64,
    pub label: String,
    /// The meaning.
    pub kind: MarkKind,
}

/// The meaning of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// A part of the run starts.
    Part,
    /// A fault starts or ends.
    Fault,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The number of its colour on the page, modulo [`HUES`].
    pub hue: usize,
    /// The stroke, which distinguishes lines without colour.
    pub stroke: Stroke,
    /// Its points in rising order of x.
    pub points: Vec<Point>,
    /// The marked points.
    pub dots: Vec<Dot>,
}

/// The number of colours of the page.
const HUES: usize = 6;

/// The stroke of a line.
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
    /// Unbroken and thick, for lines that are short.
    Bold,
}

/// A marked point.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// The horizontal position.
    pub x: f64,
    /// Its height.
    pub y: f64,
    pub shape: Shape,
    /// The tooltip.
    pub title: String,
}

/// The shape of a marked point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A filled circle.
    Circle,
    /// A cross.
    Cross,
    /// An open circle: a measured value beside a fitted line.
    Ring,
}

/// A range of the horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct Band {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    pub label: String,
    /// The meaning.
    pub kind: BandKind,
}

/// The meaning of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BandKind {
    /// The load line.
    Line,
    /// A range to read with care.
    Doubt,
    /// The server wrote a checkpoint.
    Checkpoint,
}

/// A marked height.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The height.
    pub at: f64,
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

/// The smallest and the largest value of `series`, marked points included; nothing without values.
pub(crate) fn extent<'a>(series: impl IntoIterator<Item = &'a Series>) -> Option<(f64, f64)> {
    let values = series.into_iter().flat_map(|series| {
        let dots = series.dots.iter().map(|dot| dot.y);
        series.points.iter().filter_map(|point| point.y).chain(dots)
    });
    values.fold(None, |extent, y| {
        let (low, high) = extent.unwrap_or((y, y));
        Some((f64::min(low, y), f64::max(high, y)))
    })
}
