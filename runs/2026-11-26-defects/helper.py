"""Clients and servers that defects.sh needs: python3 helper.py NAME ARGUMENTS. Only the standard library."""
import http.server
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

INGEST = "/api/telemetry/ingest"


# A client of MongoDB: one command, as JSON, to one server.

def encode(document):
    body = b"".join(element(name, value) for name, value in document.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def element(name, value):
    name = name.encode() + b"\0"
    if value is None:
        return b"\x0a" + name
    if isinstance(value, bool):
        return b"\x08" + name + bytes([value])
    if isinstance(value, int):
        return b"\x10" + name + struct.pack("<i", value)
    if isinstance(value, float):
        return b"\x01" + name + struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode() + b"\0"
        return b"\x02" + name + struct.pack("<i", len(text)) + text
    if isinstance(value, list):
        return b"\x04" + name + encode({str(n): item for n, item in enumerate(value)})
    return b"\x03" + name + encode(value)


def decode(data):
    document, at = {}, 4
    while data[at]:
        kind, end = data[at], data.index(0, at + 1)
        name, at = data[at + 1:end].decode(), end + 1
        length = {1: 8, 7: 12, 8: 1, 9: 8, 10: 0, 16: 4, 17: 8, 18: 8}.get(kind)
        if length is None:
            length = struct.unpack_from("<i", data, at)[0] + {2: 4, 5: 5}.get(kind, 0)
        part, at = data[at:at + length], at + length
        if kind in (3, 4):
            value = decode(part)
            value = list(value.values()) if kind == 4 else value
        elif kind == 2:
            value = part[4:-1].decode()
        elif kind == 1:
            value = struct.unpack("<d", part)[0]
        elif kind in (16, 9, 18):
            value = int.from_bytes(part, "little", signed=True)
        else:
            value = bool(part[0]) if kind == 8 else part.hex()
        document[name] = value
    return document


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 10)


def ask(address, command):
    body = struct.pack("<i", 0) + b"\0" + encode(command)
    with connect(address) as stream:
        stream.sendall(struct.pack("<iiii", len(body) + 16, 1, 0, 2013) + body)
        answer = b""
        while len(answer) < 4 or len(answer) < struct.unpack_from("<i", answer)[0]:
            answer += stream.recv(65536)
    return decode(answer[21:])


def mongo(address, database, *commands):
    for command in commands:
        answer = ask(address, {**json.loads(command), "$db": database})
        if "cursor" in answer:
            for document in answer["cursor"]["firstBatch"]:
                print(json.dumps(document))
        elif not answer.get("ok"):
            print(json.dumps(answer))


# A relay from the IPv6 loopback address to a server.

def relay(address):
    listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    print(listener.getsockname()[1], flush=True)
    while True:
        client = listener.accept()[0]
        server = connect(address)
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


# A service that answers each POST after some seconds.

def slow_service(seconds):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            time.sleep(float(seconds))
            self.wfile.write(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}")

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


# A server that accepts connections and never answers.

def free_ports():
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    print(*(each.getsockname()[1] for each in sockets))


def silent():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    kept = []
    while True:
        kept.append(listener.accept())


# The median of two runs.

def judge(name, rates, median):
    low, high = sorted(rates)
    word = "the lower one" if abs(median - low) < 1e-6 * low else "their mean" if abs(median - (low + high) / 2) < 1e-6 * high else "neither"
    print(f"{name}: the median of two runs is {word}")


def medians_of_a_matrix(directory):
    with open(directory + "/matrix.json") as file:
        matrix = json.load(file)
    for cell in matrix["cells"]:
        figures = cell["figures"]["operations"]["work"]["documents_per_s"]
        judge("matrix, batch " + cell["values"]["batch"], (figures["min"], figures["max"]), figures["median"])


def median_of_a_suite(directory):
    with open(directory + "/suite.json") as file:
        rates = json.load(file)["tests"][0]["figures"]["rate_per_s"]
    judge("suite", (rates["min"], rates["max"]), rates["median"])


# Signals at chosen moments.

def interrupt(path, text, signals, *command):
    """Starts a command, waits until a file contains a text, and sends SIGINT so many times, 5 ms apart."""
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 40
    while process.poll() is None and time.monotonic() < deadline:
        if os.path.exists(path) and text in open(path, errors="replace").read():
            break
        time.sleep(0.01)
    for n in range(int(signals)):
        time.sleep(0.005 if n else 0)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    try:
        code = process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        code = "none within 40 s, killed"
    sys.exit(code if isinstance(code, int) and code >= 0 else 1)


# Clients of the telemetry service.

def request(address, method, path, body=None, kind="application/json", stream=None):
    """Sends a request and returns the status and the body; raises if the connection ends."""
    own = stream is None
    stream = stream or connect(address)
    data = b"" if body is None else body.encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
    stream.sendall(head.encode() + data)
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = stream.recv(65536)
        if not part:
            raise ConnectionError("the service closed the connection")
        answer += part
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
    while len(rest) < length:
        rest += stream.recv(65536)
    if own:
        stream.close()
    return int(lines[0].split()[1]), rest.decode()


def send(address, method, path, body=None):
    try:
        status, text = request(address, method, path, body)
        print(status, text[:300])
    except OSError as error:
        print(f"no answer: {error}")


def now_ms():
    return int(time.time() * 1000)


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


REQUESTS = {
    "batches": ("POST", INGEST + "/batch", b"1\n" * 10000),
    "statistics": ("GET", "/api/telemetry/stats/r0?window=2h&interval=1s", b""),
}


def zero_window(address, pid, connections, streams, kind):
    """Sends requests with large answers over HTTP/2 with a window of 0, so that no byte of an answer can be sent."""
    method, path, body = REQUESTS[kind]
    fields = {":method": method, ":scheme": "http", ":authority": "localhost", ":path": path}
    if body:
        fields |= {"content-type": "application/x-ndjson", "content-length": str(len(body))}
    head = b"".join(literal(name, value) for name, value in fields.items())
    before, kept = rss_mib(pid), []
    for _ in range(int(connections)):
        stream = connect(address)
        # SETTINGS_INITIAL_WINDOW_SIZE is setting 4.
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 0)))
        kept.append((stream, threading.Thread(target=upload, args=(stream, head, body, int(streams)))))
    for _, thread in kept:
        thread.start()
    most, deadline = before, time.monotonic() + 15
    while time.monotonic() < deadline:
        most = max(most, rss_mib(pid))
        time.sleep(0.1)
    print(f"{connections} connections with {streams} {kind} each, {sum(SENT.values()) / 1e6:.1f} MB of bodies sent")
    print(f"resident memory of the service: {before} MiB before, {most} MiB at most")
    try:
        status, text = request(address, "GET", "/api/telemetry/r0?window=2h&limit=500")
        print(f"another client reads 500 readings: {status}, {len(text)} bytes")
    except OSError as error:
        print(f"another client reads 500 readings: no answer ({error})")
    for stream, _ in kept:
        stream.close()


SENT = {}


def upload(stream, head, body, streams):
    """Opens the streams one after the other, within the windows that the peer grants for a connection and a stream."""
    window, initial, own, buffer = 65535, 65535, {}, b""
    stream.settimeout(0.02)

    def receive():
        nonlocal window, initial, buffer
        try:
            part = stream.recv(65536)
        except TimeoutError:
            return True
        except OSError:
            return False
        if not part:
            return False
        buffer += part
        while len(buffer) >= 9:
            length = int.from_bytes(buffer[:3], "big")
            if len(buffer) < 9 + length:
                break
            kind, flags, number = buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big")
            payload, buffer = buffer[9:9 + length], buffer[9 + length:]
            if kind == 4 and not flags & 1:
                for at in range(0, length, 6):
                    name, value = struct.unpack_from(">HI", payload, at)
                    initial = value if name == 4 else initial
                stream.sendall(frame(4, 1, 0))
            elif kind == 8 and number == 0:
                window += int.from_bytes(payload, "big")
            elif kind == 8:
                own[number] = own.get(number, initial) + int.from_bytes(payload, "big")
            elif kind == 6 and not flags & 1:
                stream.sendall(frame(6, 1, 0, payload))
            elif kind == 7:
                return False
        return True

    try:
        deadline = time.monotonic() + 14
        for n in range(streams):
            number, at = 2 * n + 1, 0
            stream.sendall(frame(1, 4 if body else 5, number, head))
            while at < len(body) and time.monotonic() < deadline:
                part = min(16384, len(body) - at, window, own.get(number, initial))
                if part > 0:
                    end = at + part == len(body)
                    stream.sendall(frame(0, int(end), number, body[at:at + part]))
                    window, own[number], at = window - part, own.get(number, initial) - part, at + part
                    SENT[stream] = SENT.get(stream, 0) + part
                elif not receive():
                    return
            if not receive():
                return
        while time.monotonic() < deadline and receive():
            pass
    except OSError:
        pass


def trickle(address):
    """Begins eight uploads of 8 MiB, sends one byte of each every 0.2 s, and then sends a reading on another connection."""
    head = f"POST {INGEST}/batch HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 8388608\r\n\r\n["
    uploads = [connect(address) for _ in range(8)]
    for stream in uploads:
        stream.sendall(head.encode())
    for _ in range(5):
        time.sleep(0.2)
        for stream in uploads:
            stream.sendall(b" ")
    send(address, "POST", INGEST, json.dumps({"sensorId": "t", "timestamp": now_ms(), "temperature": 1}))
    for stream in uploads:
        stream.close()


def half_a_request(address, pid):
    """Sends half of a reading, two SIGINTs 5 ms apart to the service, and the other half."""
    body = json.dumps({"sensorId": "h", "timestamp": now_ms(), "temperature": 1}).encode()
    stream = connect(address)
    head = f"POST {INGEST} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    stream.sendall(head.encode() + body[:10])
    time.sleep(0.5)
    os.kill(int(pid), signal.SIGINT)
    time.sleep(0.005)
    os.kill(int(pid), signal.SIGINT)
    time.sleep(0.5)
    try:
        stream.sendall(body[10:])
        answer = stream.recv(65536)
        print("the accepted request:", answer.split(b"\r\n")[0].decode() if answer else "connection closed, no answer")
    except OSError as error:
        print(f"the accepted request: no answer ({error.strerror})")


def fill(address, sensors, readings):
    start = now_ms() - 3_600_000
    for sensor in range(int(sensors)):
        lines = [
            json.dumps({"sensorId": f"r{sensor}", "timestamp": start + n * 1000, "temperature": n % 50, "humidity": n % 70})
            for n in range(int(readings))
        ]
        request(address, "POST", INGEST + "/batch", "\n".join(lines), "application/x-ndjson")


def ingest_for(address, seconds):
    """Sends readings from four connections; returns the number of answers 201 and of others."""
    counts, deadline = {"201": 0, "other": 0, "slowest_ms": 0}, time.monotonic() + seconds

    def write(n):
        stream, k = connect(address), 0
        stream.settimeout(30)
        while time.monotonic() < deadline:
            k += 1
            body = json.dumps({"sensorId": f"w{n}", "timestamp": now_ms(), "eventId": f"{os.getpid()}-{k}-{deadline}", "temperature": 1})
            begun = time.monotonic()
            status, _ = request(address, "POST", INGEST, body, stream=stream)
            counts["201" if status == 201 else "other"] += 1
            counts["slowest_ms"] = max(counts["slowest_ms"], int((time.monotonic() - begun) * 1000))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def readers(address, count, seconds):
    """Measures ingest without and with readers, which ask for statistics over an hour; the readers are another process."""
    seconds = int(seconds)
    alone = ingest_for(address, seconds)
    child = subprocess.Popen([sys.executable, __file__, "read", address, count, str(seconds + 3)])
    time.sleep(2)
    busy = ingest_for(address, seconds)
    child.wait()
    for name, it in (("without readers", alone), (f"with {count} readers", busy)):
        print(f"ingest {name}: {it['201'] / seconds:.0f} readings/s, {it['other']} refused, slowest {it['slowest_ms']} ms")
    print(f"ingest keeps {100 * busy['201'] / max(alone['201'], 1):.0f} % of its rate")


def read(address, count, seconds):
    deadline, statuses = time.monotonic() + int(seconds), {}

    def one(n):
        stream = connect(address)
        stream.settimeout(30)
        while time.monotonic() < deadline:
            try:
                status, _ = request(address, "GET", f"/api/telemetry/stats/r{n % 10}?window=1h&interval=1m", stream=stream)
            except OSError:
                status = "no answer"
            statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=one, args=(n,), daemon=True) for n in range(int(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(int(seconds) + 5)
    print("answers to readers:", ", ".join(f"{status}: {number}" for status, number in sorted(statuses.items(), key=str)))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    globals()[sys.argv[1]](*sys.argv[2:])
