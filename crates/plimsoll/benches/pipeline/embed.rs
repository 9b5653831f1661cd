//! From texts to documents with vectors that are made in this process: what a vector costs, from end to end.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_onnx::transform::Section;
use plimsoll_onnx::{Embedder, Limits, Model, Precision, Settings};
use plimsoll_pipeline::TransformFactory;
use plimsoll_stores::sink::vector::Stored;

use crate::Failure;
use crate::canned::{Can, Canned};
use crate::place::{Place, Store};
use crate::plan::Plan;
use crate::row::{Row, Turn};
use crate::vector::{FORMS, write};

/// Sentences of this project's documents, one a line: those that the benchmark of embedding has.
const SENTENCES: &str = include_str!("../../../onnx/benches/embed/sentences.txt");

/// What the subjects share.
struct Shared {
    store: Rc<RefCell<Store>>,
    cans: Arc<[Can]>,
    cache: PathBuf,
    events: u64,
}

pub(crate) fn row(place: &Place, plan: &Plan) -> Result<Option<Row>, Failure> {
    let can = |line: &str| Can { payload: line.as_bytes().to_vec(), signature: None };
    let shared = Rc::new(Shared {
        store: place.server()?,
        cans: SENTENCES.lines().map(can).collect(),
        cache: place.cache.root().to_owned(),
        events: plan.embedded,
    });
    let setup = format!(
        "{} real sentences, {:.1} tokens in the mean, MiniLM-L6-v2 in this process, one worker thread, upserts",
        plan.embedded,
        tokens(&shared.cache)?
    );
    let row = Row::new("Vector sink, vectors made", setup);
    let all = [("fp32", Precision::Fp32), ("int8", Precision::Int8)];
    let all = all.into_iter().flat_map(|precision| FORMS.map(|form| (precision, form)));
    let add = |row: Row, ((word, precision), (name, stored)): ((&str, Precision), (&str, Stored))| {
        let shared = Rc::clone(&shared);
        row.subject(format!("{word}, {name}"), move || shared.turn(precision, stored))
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

/// Tokens of a sentence in the mean, the two special ones among them.
fn tokens(cache: &Path) -> Result<f64, Failure> {
    let model = Model::Installed { cache: cache.to_owned(), precision: Precision::Int8 };
    let mut embedder = Embedder::load(&Settings { model, limits: Limits::default() })?;
    let texts: Vec<&str> = SENTENCES.lines().collect();
    embedder.embed(&texts, &mut Vec::new())?;
    let counts = embedder.counts();
    Ok(counts.tokens as f64 / counts.texts.max(1) as f64)
}
