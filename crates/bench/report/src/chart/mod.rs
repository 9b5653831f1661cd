//! Draws charts as inline SVG that need no script, stretch with the page and can be read aloud.
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
    /// Moments (or other places of the horizontal axis) that mean something, in rising order.
    pub marks: Vec<Mark>,
    /// How much room it takes.
    pub size: Size,
}

impl Chart {
    /// A chart of the whole width with nothing but its lines, on a horizontal and a vertical axis.
    pub(crate) fn new(title: &str, caption: &str, [x, y]: [Axis; 2], series: Vec<Series>) -> Self {
        let (title, caption) = (title.to_owned(), caption.to_owned());
        let (bands, rules, marks) = (Vec::new(), Vec::new(), Vec::new());
        Self { title, caption, x, y, series, bands, rules, marks, size: Size::Full }
    }
}

/// How much room a chart takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Size {
    /// The whole width of the page.
    #[default]
    Full,
    /// Half the width.
    Half,
    /// One of many, to be compared at a glance.
    Small,
}

impl Size {
    /// The number of letters that fit in a line above the plot where the page has its full width; a small chart has no room for
    /// words.
    const fn letters(self) -> usize {
        match self {
            Self::Full => 150,
            Self::Half => 58,
            Self::Small => 0,
        }
    }

    /// The most points of a drawn series; the smallest and the largest of every stretch are kept.
    const fn points_max(self) -> usize {
        30 * self.rows()
    }

    /// The number of stretches that show their numbers when pointed at.
    const fn hovers(self) -> usize {
        3 * self.rows()
    }

    /// The rows of the chart's table.
    const fn rows(self) -> usize {
        if matches!(self, Self::Small) { 10 } else { 20 }
    }
}

/// A place on the horizontal axis that means something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// Where it is.
    pub at: f64,
    /// What is there.
    pub label: String,
    /// What it stands for.
    pub kind: MarkKind,
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// A part of the run starts.
    Part,
    /// Something was done to the server.
    Fault,
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
    /// Unbroken and thick, for lines that are short.
    Bold,
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
    /// An open circle, for what was measured where the line was not.
    Ring,
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
    /// The server wrote a checkpoint.
    Checkpoint,
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
