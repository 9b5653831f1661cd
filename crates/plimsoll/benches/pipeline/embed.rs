//! Measures texts to documents with vectors from this process: the cost of a vector, from end to end.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_onnx::transform::Section;
use plimsoll_onnx::{Embedder, Limits, Model, Precision, Quality, Settings};
use plimsoll_pipeline::TransformFactory;
use plimsoll_stores::sink::vector::Stored;

use crate::Failure;
use crate::canned::{Can, Canned};
use crate::plan::Plan;
use crate::row::{Published, Row, Turn};
use crate::testbed::{Store, Testbed};
use crate::vector::{FORMS, write};

/// The sentences of the embedding benchmark, one a line.
const SENTENCES: &str = include_str!("../../../adapters/onnx/benches/embed/sentences.txt");

const PUBLISHED: &str = "StreamKernel, MiniLM-L6-v2 → MongoDB vector, published 2026-05-04 of an i9-8950HK (6 cores, 32 GB), token length unstated";

/// The shared state of the subjects.
struct Shared {
    store: Rc<RefCell<Store>>,
    cans: Arc<[Can]>,
    cache: PathBuf,
    events: u64,
}

pub(crate) fn row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let can = |line: &str| Can { payload: line.as_bytes().to_vec(), signature: None };
    let shared = Rc::new(Shared {
        store: testbed.server()?,
        cans: SENTENCES.lines().map(can).collect(),
        cache: testbed.cache.root().to_owned(),
        events: plan.embedded,
    });
    let (tokens, quality) = looked_at(&shared.cache)?;
    let setup = format!(
        "{} real sentences, {tokens:.1} tokens in the mean, MiniLM-L6-v2 in this process, one worker thread, upserts",
        plan.embedded,
    );
    let published = Published { subject: 0, per_s: 331.0, of: PUBLISHED };
    let row = Row::new("Vector sink, vectors made", setup).published(published);
    let all = [("fp32", Precision::Fp32), ("int8", Precision::Int8)];
    let all = all.into_iter().flat_map(|precision| FORMS.map(|form| (precision, form)));
    let add = |row: Row, ((word, precision), (name, stored)): ((&str, Precision), (&str, Stored))| {
        let shared = Rc::clone(&shared);
        // The speed of int8 means nothing without its quality.
        let remark = (precision == Precision::Int8).then(|| format!("compared with fp32: {quality}"));
        row.subject(format!("{word}, {name}"), move || shared.turn(precision, stored)).remark(remark)
    };
    Ok(Some(all.fold(row, add)))
}

impl Shared {
    fn turn(&self, precision: Precision, stored: Stored) -> Result<Turn, Failure> {
        let section = Section { precision, ..Section::default() };
        let embed: Box<dyn TransformFactory> = Box::new(section.build("embed", &self.cache)?);
        let source = Canned::new(&self.cans, self.events);
        write(&mut self.store.borrow_mut(), source, embed, stored, self.events)
    }
}

/// The mean number of tokens of a sentence, special ones included, and the quality of int8 on these
/// sentences.
fn looked_at(cache: &Path) -> Result<(f64, Quality), Failure> {
    let load = |precision| {
        let model = Model::Installed { cache: cache.to_owned(), precision };
        Embedder::load(&Settings { model, limits: Limits::default() })
    };
    let (mut exact, mut small) = (load(Precision::Fp32)?, load(Precision::Int8)?);
    let texts: Vec<&str> = SENTENCES.lines().collect();
    let (mut by_exact, mut by_small) = (Vec::new(), Vec::new());
    exact.embed(&texts, &mut by_exact)?;
    small.embed(&texts, &mut by_small)?;
    let quality = Quality::between(&by_exact, &by_small, exact.dimensions());
    let counts = exact.counts();
    let tokens = counts.tokens as f64 / counts.texts.max(1) as f64;
    Ok((tokens, quality.ok_or("fp32 and int8 gave vectors that cannot be compared")?))
}
