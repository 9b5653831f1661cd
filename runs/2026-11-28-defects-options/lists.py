"""A relay to a server: python3 lists.py ADDRESS prints its port. It ignores the filter of listCollections, as some products do, and lists
two collections in a batch. Every other command passes unchanged."""
import pathlib
import socket
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "2026-11-26-defects"))
from helper import ask, connect, decode, encode

OF_A_BATCH = 2
LISTS = {}


def message(stream):
    data = b""
    while len(data) < 4 or len(data) < struct.unpack_from("<i", data)[0]:
        part = stream.recv(65536)
        if not part:
            return None
        data += part
    return data


def batch(database, key, rest):
    cursor = len(LISTS) + 1 if rest[OF_A_BATCH:] else 0
    if cursor:
        LISTS[cursor] = rest[OF_A_BATCH:]
    listed = {key: rest[:OF_A_BATCH], "id": cursor, "ns": database + ".$cmd.listCollections"}
    return {"cursor": listed, "ok": 1.0}


def answer(address, command):
    database = command.get("$db")
    if "listCollections" in command:
        names = ask(address, {"listCollections": 1, "$db": database})["cursor"]["firstBatch"]
        names.sort(key=lambda entry: entry["name"])
        return batch(database, "firstBatch", names)
    if command.get("getMore") in LISTS:
        return batch(database, "nextBatch", LISTS.pop(command["getMore"]))
    return None


def serve(client, address):
    server = connect(address)
    while request := message(client):
        own = None
        if struct.unpack_from("<i", request, 12)[0] == 2013 and request[20] == 0:
            own = answer(address, decode(request[21:]))
        if own is None:
            server.sendall(request)
            client.sendall(message(server))
        else:
            body = struct.pack("<i", 0) + b"\0" + encode(own)
            number = struct.unpack_from("<i", request, 4)[0]
            client.sendall(struct.pack("<iiii", len(body) + 16, 1, number, 2013) + body)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0], sys.argv[1]), daemon=True).start()
