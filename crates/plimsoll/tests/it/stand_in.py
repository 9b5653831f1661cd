"""Stands in for mongod and mongos: parses their options strictly, greets, forms sets and clusters, and stores nothing.

Members learn the configuration of their set from the member that is initiated.
"""

import argparse
import os
import socketserver
import struct
import sys
import threading

import bson
from pymongo import MongoClient

NAME = os.path.basename(sys.argv[0])
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--bind_ip", required=True)
if NAME == "mongos":
    parser.add_argument("--configdb", required=True)
else:
    parser.add_argument("--dbpath", required=True)
    parser.add_argument("--replSet", required=True)
    parser.add_argument("--shardsvr", action="store_true")
    parser.add_argument("--configsvr", action="store_true")
    parser.add_argument("--wiredTigerCacheSizeGB", type=float)
args = parser.parse_args()

ME = f"127.0.0.1:{args.port}"
state = {"config": None, "shards": []}
LIMITS = {"minWireVersion": 0, "maxWireVersion": 25, "maxBsonObjectSize": 1 << 24,
          "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "logicalSessionTimeoutMinutes": 30}


def hello():
    if NAME == "mongos":
        return {"isWritablePrimary": True, "msg": "isdbgrid", **LIMITS}
    config = state["config"]
    if config is None:
        return {"isWritablePrimary": False, "secondary": False, "isreplicaset": True, **LIMITS}
    hosts = [member["host"] for member in config["members"]]
    leads = hosts[0] == ME
    return {"isWritablePrimary": leads, "secondary": not leads, "setName": config["_id"], "setVersion": 1,
            "hosts": hosts, "me": ME, "primary": hosts[0], **LIMITS}


def has_primary(address):
    name, hosts = address.split("/")
    with MongoClient(hosts.split(","), replicaSet=name, serverSelectionTimeoutMS=5000) as client:
        return client.admin.command("hello")["setName"] == name


def initiate(config):
    if config["_id"] != args.replSet or config.get("configsvr", False) != args.configsvr:
        return {"ok": 0.0, "code": 93, "errmsg": "the configuration is not that of this server"}
    for member in config["members"]:
        if member["host"] != ME:
            with MongoClient(f"mongodb://{member['host']}/?directConnection=true") as client:
                client.admin.command({"standInConfig": config})
    state["config"] = config
    return {"ok": 1.0}


def add_shard(address):
    if not has_primary(address):
        return {"ok": 0.0, "code": 133, "errmsg": "the shard has no primary"}
    state["shards"].append({"_id": address.split("/")[0], "host": address, "state": 1})
    return {"ok": 1.0}


def answer(command):
    name, value = next(iter(command.items()))
    if name in ("hello", "isMaster", "ismaster"):
        return {**hello(), "helloOk": True, "ok": 1.0}
    if name in ("ping", "endSessions"):
        return {"ok": 1.0}
    if name == "buildInfo":
        return {"version": "8.0.0", "ok": 1.0}
    if name == "replSetInitiate" and NAME == "mongod":
        return initiate(value)
    if name == "standInConfig":
        state["config"] = value
        return {"ok": 1.0}
    if name == "addShard" and NAME == "mongos":
        return add_shard(value)
    if name == "listShards" and NAME == "mongos":
        return {"shards": state["shards"], "ok": 1.0}
    return {"ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": f"no such command: '{name}'"}


class Session(socketserver.StreamRequestHandler):
    def handle(self):
        while len(header := self.rfile.read(16)) == 16:
            length, request, _, opcode = struct.unpack("<iiii", header)
            body = self.rfile.read(length - 16)
            if opcode == 2004:  # OP_QUERY, with which drivers greet an unknown server
                command = bson.decode(body[body.index(b"\0", 4) + 9:])
                frame = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(answer(command))
                opcode = 1
            else:
                frame = bytes(5) + bson.encode(answer(bson.decode(body[5:])))
            self.wfile.write(struct.pack("<iiii", 16 + len(frame), 1, request, opcode) + frame)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


if NAME == "mongos" and not has_primary(args.configdb):
    sys.exit("the configuration servers have no primary")
with Server((args.bind_ip, args.port), Session) as server:
    print('{"id":23016,"msg":"Waiting for connections"}', flush=True)
    server.serve_forever()
