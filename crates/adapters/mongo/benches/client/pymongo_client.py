"""PyMongo among the clients of the benchmark beside this file, which explains it and starts it.

Takes HOST:PORT, reads orders `COMMANDS DOCUMENTS` and answers `CPU_NS WALL_NS`. Documents are raw, the cheapest that
PyMongo takes.
"""

import itertools
import sys
import time

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

TEMPLATE = bson.encode({"_id": bson.ObjectId(bytes(12)), "n": bson.Int64(7), "note": "x" * 56})
assert len(TEMPLATE) == 100
# The last eight bytes of the `_id` are the document's number.
HEAD, TAIL = TEMPLATE[:13], TEMPLATE[21:]
NUMBERS = itertools.count()


def document():
    return RawBSONDocument(HEAD + next(NUMBERS).to_bytes(8, "big") + TAIL)


def insert(collection, commands, documents):
    for _ in range(commands):
        if documents == 1:
            collection.insert_one(document())
        else:
            collection.insert_many([document() for _ in range(documents)])


def main():
    client = MongoClient(f"mongodb://{sys.argv[1]}/?directConnection=true")
    collection = client["plimsoll_bench"]["pymongo"]
    print("ready", flush=True)
    for line in sys.stdin:
        commands, documents = map(int, line.split())
        cpu, wall = time.process_time_ns(), time.monotonic_ns()
        insert(collection, commands, documents)
        cpu, wall = time.process_time_ns() - cpu, time.monotonic_ns() - wall
        print(cpu, wall, flush=True)


main()
