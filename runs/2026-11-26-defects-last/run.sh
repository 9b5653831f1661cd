#!/bin/bash
# Shows each row of the table with a program: bash run.sh PROGRAM > after.txt. All servers listen on loopback addresses.
set -u
program=$(realpath "${1:?name a program}")
cache=${XDG_CACHE_HOME:-$HOME/.cache}
dir=$(mktemp -d)
cd "$dir" || exit 1
export PLIMSOLL_NO_CALIBRATION=1 PLIMSOLL_NO_CANARY=1 COLUMNS=140

heading() { printf '\n== %s\n' "$*"; }

# Runs the program; prints the command, the lines that match the first argument, and the exit code.
show() {
    local lines=$1 code
    shift
    echo "\$ plimsoll $*" | sed "s#$server#HOST#g; s#${dir//\//%2F}#DIR#g"
    timeout -k 5 60 "$program" "$@" >out 2>&1 </dev/null
    code=$?
    grep -aE -- "$lines" out | head -12 | cut -c1-220 | sed -E "s#$server#HOST#g; s#$dir#DIR#g; s#$cache#CACHE#g"
    echo "exit $code"
}

# Writes a pipeline with this source and sink.
pipeline() { printf 'guarantee: at-most-once\nsource: {%s}\nsink: {%s}\n' "$2" "$3" >"$1.yaml"; }

uri=$("$program" server start --storage "$dir/storage")
server=${uri#mongodb://}
server=${server%%/*}
cat >sc.yaml <<'YAML'
title: sc
document: {n: {$number: {}}}
phases:
  - load: {work: {operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 8}}}}
    stop: {documents: 100}
YAML

heading "8 A sink, a scan and their options of the address"
events='generator: {events: 10}'
pipeline a "$events" "insert: {uri: 'mongodb://$server/?w=most', collection: v.a}"
show 'plimsoll:|written' pipeline run a.yaml --out a
pipeline b "$events" "insert: {uri: 'mongodb://$server/?loadBalanced=true', collection: v.b}"
show 'plimsoll:|written' pipeline run b.yaml --out b
pipeline c "scan: {uri: 'mongodb://$server/?readConcernLevel=bogus', collection: v.a}" 'noop: {}'
echo 'positions: {file: positions}' >>c.yaml
show 'plimsoll:|written' pipeline run c.yaml --out c
show 'plimsoll|server ' inspect --server "mongodb://$server/?readPreference=secondary"
show 'plimsoll' run sc.yaml --server "mongodb://$server/?maxPoolSize=2" --out small
show 'plimsoll|database' serve telemetry --listen 127.0.0.1:0 --server "mongodb://$server/?w=most"

heading "9 Connection strings"
show 'plimsoll|server ' inspect --server "mongodb://$server/?socketTimeoutMS=7500"
show 'plimsoll' inspect --server "mongodb://alice@$server"
show 'plimsoll' inspect --server mongodb+srv://nowhere.invalid
show 'plimsoll' run sc.yaml --dry-run --server mongodb://localhost:0
show 'plimsoll' bench --insert '{a: 1}' --for 1s --dry-run --server mongodb://localhost:0

forward='
import socket, sys, threading
def pump(a, b):
    while data := a.recv(65536): b.sendall(data)
    b.shutdown(socket.SHUT_WR)
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()
host, port = sys.argv[2].split(":")
while True:
    client, _ = listener.accept(); server = socket.create_connection((host, int(port)))
    for pair in (client, server), (server, client): threading.Thread(target=pump, args=pair, daemon=True).start()
'
python3 -c "$forward" "$dir/s.sock" "$server" &
forwarder=$!
sleep 1
show 'PASS|FAIL|plimsoll' run sc.yaml --set existing=drop --server "mongodb://${dir//\//%2F}%2Fs.sock/?directConnection=true" --out socket
kill "$forwarder"
for name in zstd zlib snappy; do
    show 'PASS|FAIL|plimsoll' run sc.yaml --set existing=drop --server "mongodb://$server/?compressors=$name" --out "$name"
done

heading "13 Words of libraries"
show 'plimsoll' run iot --dry-run --set phases.0.load.fleet.request.body.workload.iot=null
sed 's/insert: {batch: 1}/find: {read_preference: {mode: secondry}}/' sc.yaml >mode.yaml
show 'plimsoll' run mode.yaml --dry-run
show 'plimsoll:|PASS' run sc.yaml --set existing=drop --server "$uri" --out f1
show 'plimsoll' compare sc.yaml f1
show 'plimsoll' run f1/run.json

heading "15 Lists at 60 columns, and the advice of compare"
echo "widest line of scenarios: $(COLUMNS=60 "$program" scenarios | awk '{ if (length($0) > w) w = length($0) } END { print w }')"
echo "widest line of server status: $(COLUMNS=60 "$program" server status | awk '{ if (length($0) > w) w = length($0) } END { print w }')"
"$program" run sc.yaml --server "$uri" --set existing=drop --out f2 >/dev/null 2>&1
show 'plimsoll' compare f1 f2 --varies title --out f1

heading "16 A suite that drops, bench, runs, derive and dry runs"
printf 'name,scenario,server,existing,repetitions\na,sc.yaml,mongodb://%s,drop,1\n' "$server" >s.csv
show 'Test|drops|existing' suite s.csv --dry-run
show 'PASS|docs/s' bench --insert '{a: {$text: {bytes: 20}}}' --for 1s --server "$uri" --set collection=v.bench --out f3
show 'insert|title|rate' bench --insert '{a: 1}' --rate 5 --for 1s --print-scenario
show '.' runs label f1 keep
show '.' runs list .
show '.' runs prune . --keep 1
show 'collection|document|n:' scenarios derive --server "$uri" --collection plimsoll.sc
show 'Expected|Sample' run sc.yaml --dry-run

heading "17 Concerns per operation, and connections per operation"
show 'title|write_concern|read_concern' scenarios read-concern-cost
show 'find|PASS|FAIL|plimsoll' run connection-churn --server "$uri" --set phases.1.stop.duration=2s --set matrix.repetitions=1 --out churn

heading "7 and 6 A killed server, and a frozen one"
sed 's/{documents: 100}/{duration: 9s}/' sc.yaml >frozen.yaml
pid=$(COLUMNS=400 "$program" server status | sed -n "s#^mongodb://$server .*process \([0-9]*\).*#\1#p")
"$program" run frozen.yaml --server "$uri" --set existing=drop --out frozen >frozen.txt 2>&1 &
run=$!
sleep 3
kill -STOP "$pid"
sleep 5
kill -CONT "$pid"
wait "$run"
grep -aoE '^ +[0-9]+ s   (no answer for [0-9]+ s)?' frozen.txt | head -8
show 'PASS|FAIL|acknowledged|lost|unreachable' run kill --set 'phases.0.stop={duration: 6s}' --out kill

"$program" server stop "$server" >/dev/null
cd / && rm -rf "$dir"
