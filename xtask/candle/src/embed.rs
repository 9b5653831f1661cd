//! Embeds texts with candle.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use tokenizers::{Tokenizer, TruncationParams};

use crate::Failure;

/// The configuration of all-MiniLM-L6-v2, as its authors' `config.json` gives it.
const CONFIG: &str = r#"{
    "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2,
    "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute",
    "use_cache": true, "classifier_dropout": null, "model_type": "bert"
}"#;
/// The largest number of tokens of a text, as everywhere in the benchmark.
const TOKENS_MAX: usize = 256;

/// A model and its tokenizer.
pub(crate) struct Embedder {
    model: BertModel,
    tokenizer: Tokenizer,
}

impl Embedder {
    /// Loads the model and the tokenizer.
    pub(crate) fn load(weights: &Path, tokenizer: &Path) -> Result<Self, Failure> {
        let config: Config = serde_json::from_str(CONFIG)?;
        let weights = VarBuilder::from_buffered_safetensors(fs::read(weights)?, DType::F32, &Device::Cpu)?;
        let mut tokenizer = Tokenizer::from_bytes(fs::read(tokenizer)?)?;
        tokenizer.with_padding(None);
        let truncation = TruncationParams { max_length: TOKENS_MAX, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation))?;
        Ok(Self { model: BertModel::load(weights, &config)?, tokenizer })
    }

    /// The vectors of texts, in batches of `size` texts of one length, so that no padding and no mask is
    /// needed.
    pub(crate) fn embed(&self, texts: &[String], size: usize) -> Result<Vec<Vec<f32>>, Failure> {
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        let encodings = self.tokenizer.encode_batch(words, true)?;
        let mut by_length: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (text, encoding) in encodings.iter().enumerate() {
            by_length.entry(encoding.get_ids().len()).or_default().push(text);
        }
        let mut vectors = vec![Vec::new(); texts.len()];
        for (tokens, same) in by_length {
            for group in same.chunks(size) {
                let ids = group.iter().flat_map(|text| encodings[*text].get_ids());
                let ids: Vec<u32> = ids.copied().collect();
                let made = self.run(Tensor::from_vec(ids, (group.len(), tokens), &Device::Cpu)?)?;
                group.iter().zip(made).for_each(|(text, vector)| vectors[*text] = vector);
            }
        }
        Ok(vectors)
    }

    /// The mean over a text's tokens, scaled to length one.
    fn run(&self, ids: Tensor) -> Result<Vec<Vec<f32>>, Failure> {
        let hidden = self.model.forward(&ids, &ids.zeros_like()?, None)?;
        let mean = hidden.mean(1)?;
        let length = mean.sqr()?.sum_keepdim(1)?.sqrt()?;
        Ok(mean.broadcast_div(&length)?.to_vec2::<f32>()?)
    }
}
