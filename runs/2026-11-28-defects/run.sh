#!/bin/bash
# Shows each defect with a program: bash run.sh PROGRAM > after.txt. It listens on loopback addresses, and ends only processes that it started.
set -u
program=$(realpath "${1:?name a program}")
here=$(dirname "$(realpath "$0")")
helper=$here/../2026-11-26-defects/helper.py
dir=$(mktemp -d)
cd "$dir" || exit 1
export PLIMSOLL_NO_CALIBRATION=1 COLUMNS=140

heading() { printf '\n== %s\n' "$*"; }

# Runs the program; prints the command, the lines of its output that match the first argument, and the exit code.
show() {
    local lines=$1 code
    shift
    echo "\$ plimsoll $*"
    timeout -k 5 60 "$program" "$@" >out 2>&1 </dev/null
    code=$?
    grep -aE -- "$lines" out | head -12
    echo "exit $code"
}

clean() {
    sed -E "s#$dir#DIR#g; s#127\.0\.0\.1:[3-6][0-9]{4}#127.0.0.1:PORT#g; s#\b[0-9a-f]{14}\b#RUN#g; s#\x1b\[[0-9;]*m##g"
}

mongo() { python3 "$helper" mongo "$server" "$@" >/dev/null; }

# Writes a scenario: scenario NAME OPERATION STOP [FURTHER LINES]
scenario() {
    cat >"$1.yaml" <<YAML
title: $1
collection: defects.$1
document: {a: 1}
stamp: false
${4:-}
phases:
  - load: {work: {operation: {$2}, arrivals: {closed: {writers: 2}}}}
    stop: {$3}
YAML
}

audits() {
    heading "1. Two runs at once with stamp: false and the same content in every document; then their audits"
    scenario twin 'insert: {batch: 10}' 'duration: 2s'
    local start
    start=$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)
    echo "\$ plimsoll run twin.yaml --start-at TIME, twice at once"
    for name in one other; do
        { "$program" run twin.yaml --server "mongodb://$server" --start-at "$start" --out $name >$name.out 2>&1; echo "exit $?" >>$name.out; } &
        pids+=($!)
    done
    wait "${pids[@]}"
    for name in one other; do grep -aE '^(PASS|FAIL|INVALID)|Integrity:|^exit' $name.out; done
    for name in one other; do show 'phantom|of others|of run|intact|broken' audit $name; done
}

uri() {
    heading "2. timeoutMS=500 with client: driver, while the server stands still for 3 s"
    scenario still 'insert: {}' 'duration: 4s' 'client: driver'
    (sleep 2; kill -STOP "$server_pid"; sleep 3; kill -CONT "$server_pid") &
    show 'no answer within|timeout' run still.yaml --server "mongodb://$server/?directConnection=true&timeoutMS=500" --out still
    heading "3. serverSelectionTimeoutMS=3000: no server, then one that answers nothing"
    (sleep 1; exec python3 -c "
import socket, time
listener = socket.create_server(('127.0.0.1', 9473)); time.sleep(4)") &
    began=$(date +%s)
    show 'plimsoll:' inspect --server 'mongodb://127.0.0.1:9473/?serverSelectionTimeoutMS=3000'
    echo "waited $(($(date +%s) - began >= 3 ? 3 : 0)) s"
    heading "3. Options of a pool"
    scenario pool 'insert: {}' 'operations: 10'
    show 'PoolSize|maxIdle|maxConn|waitQueue|^PASS' run pool.yaml --server \
        "mongodb://$server/?minPoolSize=50&maxIdleTimeMS=5&maxConnecting=1&waitQueueTimeoutMS=7" --out pool
    heading "4. An unknown option in a dry run, a check of a pipeline and an audit"
    printf 'source: {change_stream: {uri: "mongodb://127.0.0.1:9/?foo=bar", watch: d.c}}\npositions: {file: p}\nsink: {noop: {}}\n' >stream.yaml
    show 'foo' run pool.yaml --server "mongodb://127.0.0.1:9/?foo=bar" --dry-run
    show 'foo' pipeline check stream.yaml
    show 'foo' audit pool --server "mongodb://$server/?foo=bar"
    heading "Repeated options of a proxy, and a mechanism that the build lacks"
    show 'plimsoll:' inspect --server 'mongodb://127.0.0.1/?proxyHost=a&proxyHost=b'
    show 'plimsoll:' inspect --server 'mongodb://u:p@127.0.0.1/?authMechanism=MONGODB-CR'
}

http() {
    heading "5. An HTTP service that answers with a problem"
    python3 - >port <<'PY' &
import http.server, sys
class Busy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b'{"title": "Busy", "detail": "the database does not answer"}'
        self.send_response(503)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
print(server.server_address[1], flush=True)
server.serve_forever()
PY
    local service=$!
    until [ -s port ]; do sleep 0.1; done
    printf 'title: t\nhttp: {url: "http://127.0.0.1:9"}\nphases:\n  - load: {read: {request: {get: /a}, arrivals: {closed: {writers: 1}}}}\n    stop: {operations: 20}\n' >busy.yaml
    show 'failed|Busy|503' run busy.yaml --server "http://127.0.0.1:$(cat port)" --out busy
    kill $service
}

texts() {
    heading "6. Slips in arguments of bench"
    for text in '{a: 1, a: 2}' '[1]' '{a: [}' '{a: .nan}'; do show '' bench --insert "$text"; done
    show '' bench --update '{one_of: [{$inc: {a: {$int: {mn: 1}}}}]}'
    show '' bench --update '{one_of: 5}'
    heading "7. Slips in an update, a cell of a matrix and the body of a request"
    scenario slip 'update: {filter: {a: 1}, update: {$inc: {a: {$int: {mx: 9}}}}}' 'operations: 10'
    show 'line|unknown' run slip.yaml --dry-run
    scenario cell 'insert: {}' 'operations: 10' 'matrix: {axes: [{name: size, values: {big: {document.b: {$text: {bytez: 8}}}}}]}'
    show 'line|unknown' run cell.yaml --dry-run
    printf 'title: t\nhttp: {url: "http://127.0.0.1:9"}\nphases:\n  - load: {send: {request: {post: /a, body: {b: {$text: {bytez: 8}}}}, arrivals: {closed: {writers: 1}}}}\n    stop: {operations: 2}\n' >body.yaml
    show 'line|unknown' run body.yaml --dry-run
}

extremes() {
    heading "8. Extremes of a collection in a derived scenario: years 1990 to 2029, numbers 10000 to 10390"
    mongo defects "$(python3 -c 'import json; print(json.dumps({"insert": "old", "documents": [{"year": 1990 + n, "zip": 10000 + 10 * n} for n in range(40)]}))')"
    show 'year|zip' scenarios derive --server "mongodb://$server" --collection defects.old
}

main() {
    local uri
    pids=()
    uri=$("$program" server start --storage "$dir/storage")
    server=${uri#mongodb://}
    server_pid=$("$program" server status | sed -n "s#.*$server .*process \([0-9]*\).*#\1#p")
    for part in audits uri http texts extremes; do $part; done 2>&1 | clean
    kill "$server_pid"
    while kill -0 "$server_pid" 2>/dev/null; do sleep 0.1; done
    cd / && rm -rf "$dir"
}

main
