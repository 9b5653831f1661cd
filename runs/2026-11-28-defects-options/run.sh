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
    timeout -s INT -k 5 "${limit:-60}" "$program" "$@" >out 2>&1 </dev/null
    code=$?
    grep -aE -- "$lines" out | head -12
    echo "exit $code"
}

clean() {
    sed -E "s#$dir#DIR#g; s#127\.0\.0\.1:[3-6][0-9]{4}#127.0.0.1:PORT#g; s#\b[0-9a-f]{14}\b#RUN#g; s#\x1b\[[0-9;]*m##g"
}

mongo() { python3 "$helper" mongo "$server" "$@" >/dev/null; }

wait_for() {
    for _ in $(seq 300); do grep -aq "$1" "$2" 2>/dev/null && return; sleep 0.1; done
    echo "gave up: $1"
}

waits() {
    heading "1. A long wait for a server that does not answer"
    show 'waiting|refused|answer' inspect --server 'mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=3000'
    cat >wait.yaml <<YAML
guarantee: at-most-once
source: {generator: {events: 1000}}
sink: {insert: {uri: 'mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=5000', collection: d.c, form: bson, identity: source}}
YAML
    show 'waiting|serverSelection|refused|answer' pipeline run wait.yaml --out wait
}

pools() {
    local pool='minPoolSize=3&maxIdleTimeMS=900' lines='PoolSize|IdleTime|Connecting'
    printf 'name: one\nsteps:\n- wait: {signal: go}\n' >one.yaml
    heading "2. Pool options without effect, in commands without a load"
    show "$lines" inspect --server "mongodb://$server/?$pool"
    "$program" workflow deploy --server "mongodb://$server" --database pools one.yaml >deployed 2>&1 || head -2 deployed
    show "$lines" workflow list --server "mongodb://$server/?$pool" --database pools
    cat >pool.yaml <<YAML
guarantee: at-least-once
positions: {file: positions.json}
source: {change_stream: {uri: 'mongodb://$server/?$pool', watch: defects.c, start: now}}
sink: {insert: {uri: 'mongodb://$server/?$pool', collection: d.c, form: bson, identity: source}}
YAML
    show "$lines" pipeline check pool.yaml
}

refusals() {
    heading "3. Options that a client lacks: the dry run, then the run"
    cat >names.yaml <<YAML
title: names
client: driver
collection: defects.names
document: {a: 1}
phases:
  - load: {work: {operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: 10}
YAML
    local uri="mongodb://$server/?tlsAllowInvalidHostnames=true"
    show 'Hostnames' run names.yaml --dry-run --server "$uri"
    show 'Hostnames' run names.yaml --server "$uri" --out names
    sed 's/client: driver/client: lean/' names.yaml >small.yaml
    show 'PoolSize' run small.yaml --dry-run --server "mongodb://$server/?maxPoolSize=1"
    show 'PoolSize' run small.yaml --server "mongodb://$server/?maxPoolSize=1" --out small
}

stores() {
    heading "4. A workflow store with a weaker write concern"
    local uri="mongodb://$server/?w=1" limit=8
    show 'journaled|majority|journal' workflow list --server "$uri"
    show 'journaled|majority|journal' serve workflow --server "$uri" --set listen=127.0.0.1:0
}

services() {
    heading "5. Options of the address of a database behind a service that a run starts"
    local limit=90
    show '`w`|w=1|option|^PASS|^FAIL|^INVALID|^plimsoll' run baseline-short --server "mongodb://$server/?w=1" --set 'phases.0.stop={duration: 5s}' --out service
}

causes() {
    heading "6. A --set without a fault, and a slip in the file; then a slip in a --set"
    cat >slip.yaml <<'YAML'
title: slip
collection: defects.slip
document: {a: 1}
phases:
  - load: {put: {operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: 10}
  - load: {bump: {operation: {update: {update: {$inc: {a: {$int: {mx: 9}}}}}}, arrivals: {closed: {writers: 2}}}}
    stop: {operations: 10}
YAML
    show 'mx|line|--set' run slip.yaml --dry-run --set phases.1.load.bump.arrivals.closed.writers=3
    sed 's/mx: 9/max: 9/' slip.yaml >right.yaml
    show 'mx|line|--set' run right.yaml --dry-run --set 'phases.1.load.bump.operation.update.filter={a: {$int: {mx: 9}}}'
}

strangers() {
    heading "7. An audit after a run with one phantom, when two further documents came later"
    cat >strangers.yaml <<YAML
title: strangers
collection: defects.strangers
document: {a: 1}
phases:
  - load: {work: {operation: {insert: {batch: 1}}, arrivals: {constant: {rate: 200}}}}
    stop: {duration: 4s}
YAML
    echo "\$ plimsoll run strangers.yaml, and a document of another client meanwhile"
    "$program" run strangers.yaml --server "mongodb://$server" --out strangers >strangers.out 2>&1 &
    local run=$!
    wait_for '"event":"interval"' strangers/events.ndjson
    mongo defects '{"insert": "strangers", "documents": [{"_id": "one"}]}'
    wait $run
    echo "exit $?"
    grep -aE -A1 'acknowledged +found' strangers.out
    mongo defects '{"insert": "strangers", "documents": [{"_id": "two"}, {"_id": "three"}]}'
    show 'phantom|of others|of no run' audit strangers --server "mongodb://$server"
}

standstills() {
    heading "8. The server stands still for 3 s in the read-back, twelve times"
    cat >hangs.yaml <<YAML
title: hangs
collection: defects.hangs
document: {a: 1}
phases:
  - load: {work: {operation: {insert: {batch: 1000}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: 200000}
YAML
    for n in $(seq 12); do
        "$program" run hangs.yaml --out hangs$n >hangs.out 2>&1 &
        local run=$! child
        wait_for '"event":"auditing"' hangs$n/events.ndjson
        child=$(pgrep -P $run | head -1)
        kill -STOP "$child"
        sleep 3
        kill -CONT "$child"
        wait $run
        echo "exit $?: $(grep -aE 'Integrity:|lost$|was lost|could not be read' hangs.out | head -1)"
    done | sort | uniq -c
}

lists() {
    heading "9. A capped collection behind others, on a server that ignores the filter of a list and lists two in a batch"
    for name in a b c d; do mongo listed "{\"create\": \"$name\"}"; done
    mongo listed '{"create": "z", "capped": true, "size": 1000000}'
    python3 "$here/lists.py" "$server" >port &
    local relay=$!
    wait_for . port
    cat >listed.yaml <<YAML
title: listed
collection: listed.z
document: {a: 1}
phases:
  - load: {work: {operation: {insert: {batch: 10}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: 1000}
YAML
    show 'capped|^PASS|^FAIL|^INVALID|Integrity' run listed.yaml --server "mongodb://127.0.0.1:$(cat port)/?directConnection=true" --out listed
    kill $relay
}

concerns() {
    heading "10. Two addresses with different write concerns: the dry run"
    sed 's/client: driver/client: lean/' names.yaml >concerns.yaml
    echo "servers: ['mongodb://$server/?w=1', 'mongodb://$server/?w=2']" >>concerns.yaml
    show 'concerns' run concerns.yaml --dry-run
}

late() {
    heading "11. A suite whose pipeline reads from a server that does not answer"
    local uri='mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=3000'
    printf '%s\n' "source: {change_stream: {uri: '$uri', watch: d.c, start: now}}" 'positions: {file: p}' 'sink: {noop: {}}' >late.yaml
    printf 'name,pipeline\nlate,late.yaml\n' >late.csv
    show 'waiting|refused the connection' suite late.csv --out late
}

lost() {
    heading "12. A change stream whose server ends after 3 s"
    local other pid
    other=$("$program" server start --storage "$dir/other")
    printf '%s\n' "source: {change_stream: {uri: '$other?serverSelectionTimeoutMS=4000', watch: d, start: now}}" 'positions: {file: l}' 'sink: {noop: {}}' >lost.yaml
    (sleep 3; "$program" server stop "${other#mongodb://}") >stopped 2>&1 &
    show 'waiting|cannot be read' pipeline run lost.yaml --out lost --for 14s
}

uri=$("$program" server start --storage "$dir/storage")
server=${uri#mongodb://}
for part in waits pools refusals stores services causes strangers standstills lists concerns late lost; do $part 2>&1 | clean; done
"$program" server stop "$server" >/dev/null 2>&1
cd / && rm -rf "$dir"
