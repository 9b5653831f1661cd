//! Tests missing, altered and invalid files, and invalid texts.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_onnx::{Embedder, Files, Limits, Model, Precision, Settings};
use tempfile::TempDir;

use crate::installed::{cache, embed, embedder, model};

/// A cache with links to the same installation, so that a test can remove a file.
fn copy() -> (TempDir, PathBuf) {
    let name = "minilm-l6-v2-1";
    let parent = TempDir::new_in(cache()).unwrap();
    let directory = parent.path().join(name);
    fs::create_dir(&directory).unwrap();
    for entry in fs::read_dir(cache().join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::hard_link(&path, directory.join(path.file_name().unwrap())).unwrap();
    }
    (parent, directory)
}

fn load(model: Model, limits: Limits) -> Result<Embedder, String> {
    Embedder::load(&Settings { model, limits }).map_err(|error| error.to_string())
}

/// Harms an installation and checks the error.
fn check_installed(harm: impl FnOnce(&Path), expected: &str) {
    let (parent, directory) = copy();
    harm(&directory);
    let model = Model::Installed { cache: parent.path().to_owned(), precision: Precision::Int8 };
    let error = load(model, Limits::default()).err().unwrap();
    assert!(error.contains(expected) && error.contains("plimsoll model install"), "{error}");
}

#[test]
fn a_missing_or_altered_model_is_refused_with_the_remedy() {
    check_installed(|at| fs::remove_dir_all(at).unwrap(), "the model is not installed");
    check_installed(|at| fs::remove_file(at.join("model-int8.onnx")).unwrap(), "cannot be read");
    check_installed(|at| alter(&at.join("tokenizer.json")), "is not the file that was installed");
    check_installed(|at| alter(&at.join("model-int8.onnx")), "is not the file that was installed");
    check_installed(|at| alter(&at.join("libonnxruntime.so")), "is not the file that was installed");
}

/// Flips one bit of a file.
fn alter(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Replaces one of the user's files and checks the error.
fn check_files(swap: impl FnOnce(&mut Files, &Path), expected: &str) {
    let directory = TempDir::new().unwrap();
    let mut files = model(Precision::Int8).files().unwrap();
    swap(&mut files, directory.path());
    let error = load(Model::Files(files), Limits::default()).err().unwrap();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn an_invalid_tokenizer_is_refused() {
    let with = |content: &'static [u8]| {
        move |files: &mut Files, at: &Path| {
            files.tokenizer = at.join("tokenizer.json");
            fs::write(&files.tokenizer, content).unwrap();
        }
    };
    check_files(|files, at| files.tokenizer = at.join("none"), "the tokenizer");
    check_files(with(b""), "is not a tokenizer");
    check_files(with(b"{}"), "is not a tokenizer");
    check_files(with(b"\xff\xfe"), "is not a tokenizer");
    check_files(with(&[b'['; 100_000]), "is not a tokenizer");
    check_files(|files, _| files.tokenizer = files.model.clone(), "is not a tokenizer");
}

#[test]
fn an_invalid_model_is_refused() {
    let with = |content: &'static [u8]| {
        move |files: &mut Files, at: &Path| {
            files.model = at.join("model.onnx");
            fs::write(&files.model, content).unwrap();
        }
    };
    check_files(|files, at| files.model = at.join("none"), "is not a usable model");
    check_files(with(b""), "is not a usable model");
    check_files(with(b"no ONNX file at all"), "is not a usable model");
    check_files(|files, _| files.model = files.tokenizer.clone(), "is not a usable model");
}

#[test]
fn an_invalid_or_second_library_is_refused() {
    check_files(|files, at| files.library = at.join("none"), "is not a usable ONNX Runtime");
    embedder(Precision::Int8, Limits::default());
    check_files(|files, _| files.library = files.model.clone(), "a process can use only one ONNX Runtime");
}

#[test]
fn more_tokens_than_the_model_accepts_are_refused_when_it_is_loaded() {
    let limits = Limits { tokens_max: 513, ..Limits::default() };
    let error = load(model(Precision::Fp32), limits).err().unwrap();
    assert!(
        error.contains("it does not accept 513 tokens") && error.contains("allow fewer tokens"),
        "{error}"
    );
    load(model(Precision::Fp32), Limits { tokens_max: 512, ..Limits::default() }).unwrap();
}

#[test]
fn limits_that_exclude_every_text_are_refused() {
    let error = load(model(Precision::Fp32), Limits { tokens_max: 2, ..Limits::default() }).err().unwrap();
    assert!(error.contains("give at least 8"), "{error}");
}

#[test]
fn a_text_of_a_megabyte_is_cut_and_counted() {
    let mut embedder = embedder(Precision::Int8, Limits::default());
    let spaces = " ".repeat(1 << 20);
    let texts = [
        "word ".repeat(200_000),
        "é".repeat(1 << 19),
        "\u{0}\u{301}\u{200d}".repeat(1 << 17),
        spaces.clone(),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = embed(&mut embedder, &texts);
    assert!(vectors.iter().all(|value| value.is_finite()));
    assert_eq!(embedder.counts().truncated, 4);
    assert!(embedder.counts().tokens <= 4 * 256);
    // Text beyond the limit does not count.
    let [behind, nothing] =
        [format!("{spaces}word"), String::new()].map(|text| embed(&mut embedder, &[&text]));
    assert_eq!(behind, nothing);
}
