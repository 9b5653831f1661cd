"""Holds four uploads of one byte each; reads and writes on other connections: python3 uploads.py ADDRESS. Only the standard library."""
import json
import pathlib
import select
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "2026-11-26-defects"))
import helper

address = sys.argv[1]
reading = json.dumps({"sensorId": "s", "timestamp": helper.now_ms(), "temperature": 1})
helper.request(address, "POST", helper.INGEST, reading)


def read(when):
    status, _ = helper.request(address, "GET", "/api/telemetry/s/latest")
    print(f"a read {when}: {status}")


def wait():
    """Waits until the service counts four requests in flight."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        _, text = helper.request(address, "GET", "/metrics")
        if "_http_requests_in_flight 4\n" in text:
            return
        time.sleep(0.05)
    print("gave up: four requests in flight")


read("before the uploads")
head = f"POST {helper.INGEST} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
uploads = [helper.connect(address) for _ in range(4)]
for upload in uploads:
    upload.sendall(head.encode())
wait()
read("while four uploads have sent one byte each")
status, _ = helper.request(address, "POST", helper.INGEST, reading)
print(f"a write meanwhile: {status}")
answered, _, _ = select.select(uploads, [], [], 2)
print("uploads with an answer:", [upload.recv(12).decode() for upload in answered])
for upload in uploads:
    upload.close()
