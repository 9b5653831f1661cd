"""Embeds texts with Python's ONNX Runtime on one thread, as told on the standard input, a line of JSON each time."""

import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

BATCH = 32


def open_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def batches(texts, masked):
    """Batches of 32 in order, filled up to the longest; a model without a mask gets texts of one length together."""
    encodings = tokenizer.encode_batch(texts)
    if masked:
        return [(range(i, min(i + BATCH, len(texts))), encodings[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
    by_length = {}
    for index, encoding in enumerate(encodings):
        by_length.setdefault(len(encoding.ids), []).append(index)
    groups = [group[i : i + BATCH] for group in by_length.values() for i in range(0, len(group), BATCH)]
    return [(group, [encodings[index] for index in group]) for group in groups]


def embed(texts):
    vectors = np.empty((len(texts), 384), np.float32)
    for indices, encodings in batches(texts, "attention_mask" in names):
        longest = max(len(encoding.ids) for encoding in encodings)
        ids = np.zeros((len(encodings), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(["last_hidden_state"], {name: inputs[name] for name in names})[0]
        mean = (hidden * mask[:, :, None]).sum(1)
        vectors[list(indices)] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return vectors


def measure(texts, seconds):
    embed(texts)
    start, cpu, sentences = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        embed(texts)
        sentences += len(texts)
    elapsed, used = time.perf_counter() - start, time.process_time() - cpu
    return {"sentences": sentences, "seconds": elapsed, "cpu_seconds": used}


session = open_session(sys.argv[1])
names = [value.name for value in session.get_inputs()]
tokenizer = Tokenizer.from_file(sys.argv[2])
tokenizer.no_padding()
tokenizer.enable_truncation(256)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("vectors"):
        answer = {"vectors": embed(asked["texts"]).astype(float).tolist()}
    else:
        answer = measure(asked["texts"], asked["seconds"])
    print(json.dumps(answer), flush=True)
