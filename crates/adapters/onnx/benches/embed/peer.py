"""Embeds texts with Python's ONNX Runtime on one thread, as told on the standard input, a line of JSON each time."""

import itertools
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import onnxruntime
import tokenizers

# Texts of a batch: the size that is fastest for a workload is taken. 32 is what sentence-transformers takes.
SIZES = (4, 8, 32)


def open_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def batches(texts, size):
    """Batches of neighbours in length, filled up to the longest, as sentence-transformers makes them; without a mask, of one length."""
    encodings = tokenizer.encode_batch(texts)
    length = lambda index: len(encodings[index].ids)
    order = sorted(range(len(texts)), key=length)
    groups = [order] if "attention_mask" in names else [list(same) for _, same in itertools.groupby(order, length)]
    parts = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    return [(part, [encodings[index] for index in part]) for part in parts]


def embed(texts, size):
    vectors = np.empty((len(texts), 384), np.float32)
    for indices, encodings in batches(texts, size):
        longest = max(len(encoding.ids) for encoding in encodings)
        ids = np.zeros((len(encodings), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(["last_hidden_state"], {name: inputs[name] for name in names})[0]
        mean = (hidden * mask[:, :, None].astype(np.float32)).sum(1)
        vectors[indices] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return vectors


def took(texts, size):
    cpu = time.process_time()
    embed(texts, size)
    return time.process_time() - cpu


def fastest(texts):
    """Tried once for each workload: the first time warms up and does not count."""
    if tuple(texts) not in sizes:
        embed(texts, SIZES[-1])
        sizes[tuple(texts)] = min(SIZES, key=lambda size: took(texts, size))
    return sizes[tuple(texts)]


def measure(texts, seconds):
    size = fastest(texts)
    embed(texts, size)
    start, cpu, sentences = time.perf_counter(), time.process_time(), 0
    while sentences == 0 or time.perf_counter() - start < seconds:
        embed(texts, size)
        sentences += len(texts)
    elapsed, used = time.perf_counter() - start, time.process_time() - cpu
    return {"sentences": sentences, "seconds": elapsed, "cpu_seconds": used}


session = open_session(sys.argv[1])
names = [value.name for value in session.get_inputs()]
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[2])
tokenizer.no_padding()
tokenizer.enable_truncation(256)
sizes = {}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("versions"):
        python, numpy = sys.version.split()[0], np.__version__
        answer = {"versions": f"Python {python}, onnxruntime {onnxruntime.__version__}, tokenizers {tokenizers.__version__}, numpy {numpy}"}
    elif asked.get("vectors"):
        answer = {"vectors": embed(asked["texts"], SIZES[0]).astype(float).tolist()}
    else:
        answer = measure(asked["texts"], asked["seconds"])
    print(json.dumps(answer), flush=True)
