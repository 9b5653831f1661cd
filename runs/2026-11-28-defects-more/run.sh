#!/bin/bash
# Shows each row of the table with a program: bash run.sh PROGRAM > after.txt
# All servers listen on loopback addresses. The script ends only processes that it started.
set -u
program=$(realpath "${1:?name a program}")
here=$(dirname "$(realpath "$0")")
dir=$(mktemp -d)
cd "$dir" || exit 1
export PLIMSOLL_NO_CALIBRATION=1 COLUMNS=140

clean() {
    sed -uE "s#$dir#DIR#g; s#(127\.0\.0\.1|localhost):[0-9]{4,5}#\1:PORT#g; s#proxyPort=[0-9]+#proxyPort=PORT#g; s#\b[0-9a-f]{14}\b#RUN#g; s#\x1b\[[0-9;]*m##g"
}

heading() { printf '\n== %s\n' "$*"; }

# Runs the program; prints the command, the lines of its output that match the first argument, and the exit code.
show() {
    local lines=$1 code
    shift
    echo "\$ plimsoll $*"
    timeout -k 5 90 "$program" "$@" >out 2>&1 </dev/null
    code=$?
    grep -aE -- "$lines" out | head -8
    echo "exit $code"
}

await() {
    local tries=200
    until "$@" 2>/dev/null; do
        ((tries--)) || { echo "gave up: $*"; return 1; }
        sleep 0.1
    done
}

scenario() {
    cat >"$1.yaml" <<EOF
title: $1
collection: defects.$1
document: {n: {\$number: {}}, t: {\$text: {bytes: 20}}}
phases:
  - load: {work: {operation: {insert: {batch: 1000}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: $2}
EOF
}

dead_letters() {
    heading "A pipeline whose events all become dead letters"
    printf 'no json\nnor this\n' >in.ndjson
    cat >dead.yaml <<'EOF'
source: {file: {path: in.ndjson, format: ndjson}}
transforms: [filter: {where: '.n > 0'}]
sink: {noop: {}}
dead_letters: {file: {path: dead.ndjson, form: whole}}
positions: {file: dead.positions}
EOF
    show '^plimsoll:|after [0-9.]+ |no event' pipeline run dead.yaml --out dead
    rm -f dead.positions
    printf 'name,pipeline\ndead,dead.yaml\n' >dead.csv
    show '^plimsoll:|no event|failed|completed' suite dead.csv --out dead-suite -q
    sed -n 's/^/results.csv: /p' dead-suite/results.csv | cut -c1-120
}

read_back() {
    heading "Ctrl-C while the server hangs in the read-back: the run's events 3 s later"
    scenario hangs 60000
    "$program" run hangs.yaml --server embedded --out hangs >out 2>&1 </dev/null &
    local run=$! servers
    until grep -q '"event":"auditing"' hangs/events.ndjson 2>/dev/null; do sleep 0.01; done
    servers=$(cat /proc/$run/task/*/children)
    kill -STOP $servers && kill -INT $run && sleep 3
    grep -o 'reading back; Ctrl-C again ends at once' hangs/events.ndjson || echo "nothing"
    kill -CONT $servers
    wait $run
    echo "exit $?"
}

overrides() {
    heading "Slips with --set"
    scenario slip 10
    sed 's/bytes: 20/bytez: 20/' slip.yaml >template.yaml
    show '^plimsoll|line|\|' run template.yaml --dry-run --set title=b
    show '^plimsoll|line|\|' run slip.yaml --dry-run --set phases.0.stop=x
    printf '{"a": 1}\n{"a" 1}\n' >broken.ndjson
    printf '{"a": {"b": {"$oid": "x"}}}\n' >extended.ndjson
    for file in broken extended; do
        sed "s#^document:.*#documents_from: {path: $file.ndjson}#" slip.yaml >$file.yaml
        show '^plimsoll' run $file.yaml --server embedded --out $file
    done
}

positions() {
    heading "A change stream with start: now and without a stored position"
    cat >now.yaml <<EOF
source: {change_stream: {uri: 'mongodb://$server', watch: defects.now, start: now}}
sink: {file: {path: now.ndjson}}
positions: {file: now.positions}
EOF
    show 'no stored position' pipeline run now.yaml --for 2s --out now
    grep -c 'no stored position' now/pipeline.json
}

batches() {
    heading "The lists of a batch's answer: one valid line and 9,999 invalid ones"
    "$program" serve telemetry --listen 127.0.0.1:0 >service.out 2>service.log &
    local service=$! address
    await grep -q http service.out
    address=$(sed 's#/$##' service.out)
    { printf '{"sensorId":"s","timestamp":%s000,"t":1}\n' "$(date +%s)"; yes '{}' | head -9999; } >batch.ndjson
    curl -s -o answer -w '%{http_code} %{size_download} bytes\n' -H 'content-type: application/x-ndjson' \
        --data-binary @batch.ndjson "$address/api/telemetry/ingest/batch"
    python3 -c 'import json; a = json.load(open("answer")); print(len(a["failed"]), "failed,", a.get("omitted"), "omitted")'
    kill $service
    wait $service
}

proxy() {
    heading "A SOCKS5 proxy in the URI"
    python3 "$here/socks.py" >proxy.out &
    local proxy=$! port
    await [ -s proxy.out ]
    port=$(head -1 proxy.out)
    for client in lean driver; do
        scenario "proxied_$client" 1000
        echo "client: $client" >>"proxied_$client.yaml"
        show '^(PASS|FAIL|INVALID)|^plimsoll' run "proxied_$client.yaml" \
            --server "mongodb://$server/?proxyHost=127.0.0.1&proxyPort=$port" --out "proxied_$client"
        echo "connections through the proxy so far: $(($(grep -c through proxy.out) > 0))"
    done
    kill $proxy
}

main() {
    local uri server
    uri=$("$program" server start --storage "$dir/storage")
    server=$(echo "${uri#mongodb://}" | cut -d/ -f1)
    for part in dead_letters read_back overrides positions batches proxy; do "$part"; done
    "$program" server stop "$server" >/dev/null
    cd / && rm -rf "$dir"
}

main 2>&1 | clean
