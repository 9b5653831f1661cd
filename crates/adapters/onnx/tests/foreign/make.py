"""Makes model.onnx, tokenizer.json and vectors.json: a small model as others export theirs, to hold the embedder to.

Run once, by hand, in this directory, with a Python that has `onnx` 1.23:

    python3 make.py

Nothing of the crate is used. The file is written by the package of the ONNX project, in the form that exporters give a BERT:
three inputs with the mask among them, layer normalisation and Gelu in pieces (opset 14), the pooled output before that of the
tokens. The vectors are those of the project's reference evaluator.
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

WIDTH, PLACES = 8, 12
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "load", "line", "##s", "rate", "holds", "a", "ship"]
TEXTS = [
    ("the load line", ["the", "load", "line"]),
    ("The rate HOLDS", ["the", "rate", "holds"]),
    ("a ship", ["a", "ship"]),
    ("lines", ["line", "##s"]),
    ("water", ["[UNK]"]),
    ("", []),
    ("the ship holds the load " * 9, ["the", "ship", "holds", "the", "load", "the", "ship", "holds", "the", "load"]),
]

nodes, constants = [], []
random = np.random.default_rng(7)


def constant(name, value):
    value = np.asarray(value)
    # As bytes or as a list of numbers: files have either.
    if value.ndim > 1:
        constants.append(numpy_helper.from_array(value, name))
    else:
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        constants.append(helper.make_tensor(name, kind, value.shape, value.flatten().tolist()))
    return name


def weight(name, *shape):
    return constant(name, random.normal(0, 0.5, shape).astype(np.float32))


def node(operator, *inputs, **attributes):
    output = f"/{operator}_{len(nodes)}"
    nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
    return output


def number(value):
    return constant(f"number_{len(constants)}", np.float32(value))


def normalised(x, name):
    centred = node("Sub", x, node("ReduceMean", x, axes=[-1]))
    variance = node("ReduceMean", node("Pow", centred, number(2)), axes=[-1])
    scaled = node("Div", centred, node("Sqrt", node("Add", variance, number(1e-12))))
    gain = constant(f"{name}.weight", random.normal(1, 0.1, WIDTH).astype(np.float32))
    return node("Add", node("Mul", scaled, gain), weight(f"{name}.bias", WIDTH))


def attention(x):
    query, key, value = (node("MatMul", x, weight(part, WIDTH, WIDTH)) for part in ["query", "key", "value"])
    scores = node("MatMul", query, node("Transpose", key, perm=[0, 2, 1]))
    mask = node("Cast", node("Unsqueeze", "attention_mask", constant("one", np.array([1], np.int64))), to=TensorProto.FLOAT)
    hidden = node("Mul", node("Sub", number(1), mask), number(-10000))
    shares = node("Softmax", node("Add", node("Div", scores, number(WIDTH**0.5)), hidden), axis=-1)
    return node("MatMul", shares, value)


def gelu(x):
    half = node("Mul", x, number(0.5))
    return node("Mul", half, node("Add", node("Erf", node("Div", x, number(2**0.5))), number(1)))


def embeddings():
    whole = {name: constant(name, np.int64(value)) for name, value in [("zero", 0), ("step", 1), ("axis", 1)]}
    length = node("Gather", node("Shape", "input_ids"), whole["axis"])
    places = node("Range", whole["zero"], length, whole["step"])
    words = node("Gather", weight("word_embeddings", len(VOCABULARY), WIDTH), "input_ids")
    kinds = node("Gather", weight("token_type_embeddings", 2, WIDTH), "token_type_ids")
    where = node("Gather", weight("position_embeddings", PLACES, WIDTH), places)
    return normalised(node("Add", node("Add", words, kinds), where), "embeddings")


def model():
    x = embeddings()
    x = normalised(node("Add", x, attention(x)), "attention")
    wide = gelu(node("Add", node("MatMul", x, weight("intermediate", WIDTH, 16)), weight("intermediate.bias", 16)))
    x = normalised(node("Add", node("MatMul", wide, weight("output", 16, WIDTH)), x), "output")
    nodes[-1].output[0] = "last_hidden_state"
    first = node("Gather", "last_hidden_state", "zero", axis=1)
    nodes.append(helper.make_node("Tanh", [node("MatMul", first, weight("pooler", WIDTH, WIDTH))], ["pooler_output"]))

    def of(name, kind, *more):
        return helper.make_tensor_value_info(name, kind, ["batch_size", *more])

    inputs = [of(name, TensorProto.INT64, "sequence_length") for name in ["attention_mask", "token_type_ids", "input_ids"]]
    outputs = [of("pooler_output", TensorProto.FLOAT, WIDTH)]
    outputs.append(of("last_hidden_state", TensorProto.FLOAT, "sequence_length", WIDTH))
    graph = helper.make_graph(nodes, "main_graph", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def tokenizer():
    special = VOCABULARY[:4]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": VOCABULARY.index(word), "content": word, **flags} for word in special]
    ends = {word: {"id": word, "ids": [VOCABULARY.index(word)], "tokens": [word]} for word in ["[CLS]", "[SEP]"]}

    def piece(kind, name, second=0):
        return {kind: {"id": name, "type_id": second}}

    one = [piece("SpecialToken", "[CLS]"), piece("Sequence", "A"), piece("SpecialToken", "[SEP]")]
    two = [*one, piece("Sequence", "B", 1), piece("SpecialToken", "[SEP]", 1)]
    return {
        "version": "1.0",
        "truncation": {"max_length": 6, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": PLACES}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": one, "pair": two, "special_tokens": ends},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {word: number for number, word in enumerate(VOCABULARY)},
        },
    }


def unit(vector):
    return [round(float(x), 6) for x in vector / np.sqrt((vector**2).sum())]


def row(text, words, evaluator):
    ids = np.array([[VOCABULARY.index(word) for word in ["[CLS]", *words, "[SEP]"]]], np.int64)
    feed = {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids), "input_ids": ids}
    pooled, tokens = evaluator.run(["pooler_output", "last_hidden_state"], feed)
    vectors = {"mean": unit(tokens[0].mean(0)), "cls": unit(tokens[0][0]), "own": unit(pooled[0])}
    return {"text": text, "tokens": ids.shape[1], **vectors}


def main():
    made = model()
    onnx.save(made, "model.onnx")
    Path("tokenizer.json").write_text(json.dumps(tokenizer(), indent=1) + "\n", encoding="utf-8")
    evaluator = ReferenceEvaluator(made)
    rows = ",\n".join(json.dumps(row(text, words, evaluator)) for text, words in TEXTS)
    Path("vectors.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")


main()
