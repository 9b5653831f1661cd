#!/bin/bash
# Shows each defect with a program: bash defects.sh PROGRAM [NAME…] > before.txt. A name is that of a function below, without `defect_`.
# All servers listen on loopback addresses. The script ends only processes that it started.
set -u
program=$(realpath "${1:?name a program}")
shift
script=$(realpath "$0")
helper=${script%/*}/helper.py
cache=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll
dir=$(mktemp -d)
cd "$dir" || exit 1
export PLIMSOLL_NO_CALIBRATION=1 PLIMSOLL_NO_CANARY=1 COLUMNS=140

main() {
    start_server storage
    [ $# -gt 0 ] || mapfile -t all < <(sed -n 's/^defect_\([a-z0-9_]*\)() {$/\1/p' "$script")
    for name in "${@:-${all[@]}}"; do one "$name" 2>&1 | clean; done
    kill "$server_pid"
    await 30 ended "$server_pid"
    "$program" server status >/dev/null
    cd / && rm -rf "$dir"
}

# Runs one function, and ends the processes that it left in the background.
one() {
    "defect_$1"
    local left
    left=$(jobs -p)
    [ -z "$left" ] || kill $left 2>/dev/null
}

# Tries a command until it succeeds, for so many seconds.
await() {
    local tries=$(($1 * 10))
    shift
    until "$@" 2>/dev/null; do
        ((tries--)) || { echo "gave up: $*"; return 1; }
        sleep 0.1
    done
}

ended() { ! kill -0 "$1"; }

# Prints a heading.
heading() { printf '\n== %s\n' "$*"; }

# Runs the program; prints the command, the lines of its output that match the first argument, and the exit code.
show() {
    local lines=$1 code
    shift
    echo "\$ plimsoll $*"
    timeout -k 5 55 "$program" "$@" >out 2>&1 </dev/null
    code=$?
    matching "$lines" out
    echo "exit $code"
}

# Prints at most 14 matching lines of a file.
matching() { grep -aE -- "$1" "$2" | head -14; }

# Replaces the parts that differ from run to run.
clean() {
    sed -E "s#$dir#DIR#g; s#(/tmp|$HOME)/[^ ,:\"]*plimsoll-[^ ,:\"]*#DIR#g
        s#(127\.0\.0\.1|\[::1\]|localhost):[3-6][0-9]{4}#\1:PORT#g; s#::1:[0-9]{5}#::1:PORT#g
        s#\b[0-9a-f]{14}\b#RUN#g; s#[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z#TIME#g; s#\x1b\[[0-9;]*m##g"
}

# Starts an embedded server with this directory and sets `server` and `server_pid`.
start_server() {
    local uri
    uri=$("$program" server start --storage "$dir/$1")
    server=${uri#mongodb://}
    server_pid=$("$program" server status | sed -n "s#.*$server .*process \([0-9]*\).*#\1#p")
}

# Starts a part of helper.py in the background and sets `port` to the port that it prints.
start_helper() {
    local file
    file=$(mktemp port-XXXX)
    python3 "$helper" "$@" >"$file" &
    await 10 [ -s "$file" ]
    port=$(cat "$file")
}

# Starts the telemetry service in the background; sets `service` to its address and `service_pid`.
start_service() {
    echo "\$ plimsoll serve telemetry $*"
    : >service.out
    "$program" serve telemetry --listen 127.0.0.1:0 "$@" >service.out 2>service.log &
    service_pid=$!
    await 30 has_started
    service=$(sed 's#http://##; s#/$##' service.out)
}

# Whether the service listens, or has ended.
has_started() { grep -q http service.out || ended $service_pid; }

# Waits for the service, at most 12 s, and prints its exit code.
service_exit() {
    (sleep 12 && kill $service_pid 2>/dev/null && echo "ended by this script after 12 s") &
    wait $service_pid
    echo "exit $?"
}

# Sends commands to the shared server: mongo DATABASE COMMAND…
mongo() { python3 "$helper" mongo "$server" "$@"; }

# Prints a value of a run.json: value FILE EXPRESSION, where `run` is the content of the file.
value() { python3 -c 'import json, sys; run = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }

# Writes a scenario: scenario NAME OPERATION STOP [FURTHER LINES]. Its collection is defects.NAME.
scenario() {
    cat >"$1.yaml" <<EOF
title: $1
collection: defects.$1
document: {n: {\$number: {}}, k: {\$int: {min: 1, max: 3}}}
${4:-}
phases:
  - load: {work: {operation: {$2}, arrivals: {closed: {writers: 2}}}}
    stop: {$3}
EOF
}

# The lines of a summary that give the verdict, its reasons, and errors.
verdict='^(PASS|FAIL|INVALID)|^  •.*(error|fail|succe|integrity|interrupt|cut short|reach|complete)|^plimsoll:|Integrity:'

# 1. A success that is none

defect_1_no_operation_succeeds() {
    heading "1. Every write has a write concern that the server refuses"
    scenario most 'insert: {}' 'operations: 1000' 'write_concern: {w: most}'
    show "$verdict" run most.yaml --server "mongodb://$server" --out most
}

defect_1_no_transactions() {
    heading "1. Transactions on FerretDB, which has none"
    if [ ! -x "$cache/ferretdb/bin/ferretdb" ]; then
        echo "FerretDB is not installed: run cargo xtask setup"
        return
    fi
    mkdir ferret
    "$cache/ferretdb/bin/ferretdb" --handler=sqlite "--sqlite-url=file:$dir/ferret/" "--state-dir=$dir/ferret" \
        --listen-addr=127.0.0.1:0 --debug-addr=- --telemetry=disable >ferret.log 2>&1 &
    await 30 grep -q 'Listening on TCP ' ferret.log
    local address
    address=$(sed -n 's#.*Listening on TCP \(127.0.0.1:[0-9]*\).*#\1#p' ferret.log)
    scenario pairs 'transaction: {operations: [{insert: {}}, {insert: {}}]}' 'operations: 200'
    show "$verdict" run pairs.yaml --server "mongodb://$address/?directConnection=true" --out pairs
}

defect_1_duplicate_keys() {
    heading "1. 997 of 1,000 inserts are duplicate keys"
    mongo defects '{"create": "keys"}' \
        '{"createIndexes": "keys", "indexes": [{"key": {"k": 1}, "name": "k", "unique": true}]}'
    scenario keys 'insert: {}' 'operations: 1000'
    show "$verdict" run keys.yaml --server "mongodb://$server" --out keys
}

defect_2_message_of_the_server() {
    heading "2. The server's code, message and command"
    scenario message 'insert: {}' 'operations: 100' 'write_concern: {w: most}'
    show 'UnknownReplWriteConcern|No write concern mode' run message.yaml --server "mongodb://$server" --out message
    echo "run.json: $(value message/run.json 'run["operations"]["work"].get("first_errors")')"
    echo "lines of the page with the message: $(grep -c 'No write concern mode' message/report.html)"
}

# Runs a scenario twice at the same time, and audits one run: at_once NAME FURTHER LINE
at_once() {
    local at n codes=()
    cat >"$1.yaml" <<EOF
title: $1
collection: defects.$1
document: {n: {\$number: {}}}
$2
phases:
  - load: {work: {operation: {insert: {}}, arrivals: {constant: {rate: 100, connections: 4}}}}
    stop: {duration: 3s}
EOF
    at=$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)
    for n in 1 2; do
        "$program" run "$1.yaml" --server "mongodb://$server" --seed $n --start-at "$at" --out "$1-$n" >"$1-$n.out" 2>&1 &
    done
    for n in 1 2; do
        wait %$n
        codes+=($?)
    done
    echo "\$ plimsoll run $1.yaml --seed 1 --out $1-1, at the same time --seed 2 --out $1-2"
    matching "$verdict|not of this run|never sent" "$1-1.out"
    echo "exit ${codes[0]} and ${codes[1]}"
    show 'found intact|phantom|foreign|of others|broken' audit "$1-1"
}

defect_3_two_runs_at_once() {
    heading "3. Two runs at once into one empty collection"
    at_once both 'stamp: true'
}

defect_3_without_stamps() {
    heading "3. The same without stamps"
    at_once plain 'stamp: false'
}

defect_4_signal_during_the_read_back() {
    heading "4. SIGINT during the read-back of a complete load"
    scenario back 'insert: {batch: 1000}' 'documents: 400_000'
    echo "\$ plimsoll run back.yaml --out back, SIGINT at the event \"auditing\""
    python3 "$helper" interrupt back/events.ndjson '"event":"auditing"' 1 \
        "$program" run back.yaml --server "mongodb://$server" --out back >out 2>&1
    echo "exit $?"
    matching "$verdict|Ctrl-C|found intact" out
}

defect_4_two_signals() {
    heading "4. Two SIGINTs within 10 ms, as timeout -s INT sends them"
    scenario twice 'insert: {batch: 10}' 'duration: 30s'
    echo "\$ plimsoll run twice.yaml --out twice, two SIGINTs 5 ms apart after the first second"
    python3 "$helper" interrupt twice/events.ndjson '"event":"interval"' 2 \
        "$program" run twice.yaml --server "mongodb://$server" --out twice >out 2>&1
    echo "exit $?"
    matching "$verdict|found intact|[Ss]topp" out
    [ -f twice/run.json ] && echo "twice/run.json exists" || echo "twice/run.json is missing"
}

# Shows a load of requests of 3 s: load NAME SERVICE_S RATE CONNECTIONS BODY
load() {
    local port
    start_helper slow_service "$2"
    cat >"$1.yaml" <<EOF
title: $1
http: {url: 'http://127.0.0.1:$port'}
phases:
  - load: {post: {request: {post: /x, body: $5}, arrivals: {constant: {rate: $3, connections: $4}}}}
    stop: {duration: 3s}
EOF
    echo "# rate $3/s for 3 s, connections $4, each answer takes $2 s"
    show "$verdict|% of the|requests were" run "$1.yaml" --out "$1"
    echo "run.json: achieved $(value "$1/run.json" 'round(run["operations"]["post"]["achieved"], 3)')"
}

defect_5_requests_in_flight_at_the_end() {
    heading "5. HTTP requests in flight at the end of the load"
    local batch='{batch: {documents: 1000, document: {n: {$number: {}}}}}'
    load drain 0.2 100 20 '{n: {$number: {}}}'
    load batches 1 1 1 "$batch"
    load backlog 4 1 2 "$batch"
}

defect_6_killed_server() {
    heading "6. kill -9 of the server under load: lines of the terminal"
    local server server_pid
    start_server killed-storage
    scenario killed 'insert: {batch: 10}' 'duration: 20s' 'unreachable_for: 8s'
    (sleep 3 && kill -9 "$server_pid") &
    show '^ *[0-9.]+ s  |unreachable|^INVALID' run killed.yaml --server "mongodb://$server" --out killed
}

defect_7_median_of_two() {
    heading "7. The median of two runs"
    scenario plain 'insert: {}' 'documents: 300'
    {
        cat plain.yaml
        printf '%s\n' 'matrix:' '  repetitions: 2' '  axes:' '    - name: batch' '      values:' \
            '        one: {phases.0.load.work.operation.insert.batch: 1}' \
            '        ten: {phases.0.load.work.operation.insert.batch: 10}'
    } >median.yaml
    show '^plimsoll:' run median.yaml --server "mongodb://$server" --out median
    python3 "$helper" medians_of_a_matrix median
    printf '%s\n' 'name,scenario,in_flight,repetitions,warm_up,existing' 'plain,plain.yaml,2,2,0s,drop' >suite.csv
    show '^plimsoll:' suite suite.csv --server "mongodb://$server" --out suite
    python3 "$helper" median_of_a_suite suite
}

# 2. A setting that is dropped

# Shows a run with an option of the URI, with both clients.
with_option() {
    local client
    for client in lean driver; do
        rm -rf option
        show "$verdict|^plimsoll" run option.yaml --server "mongodb://$server/?$1" --set client=$client --out option
    done
}

defect_8_options_of_the_uri() {
    heading "8. Options of the URI"
    cat >option.yaml <<'EOF'
title: option
collection: defects.option
existing: drop
document: {n: {$number: {}}}
unreachable_for: 3s
phases:
  - load: {insert: {operation: {insert: {}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: 20}
  - load: {find: {operation: {find: {}}, arrivals: {closed: {writers: 2}}}}
    stop: {operations: 20}
EOF
    local option
    for option in w=most w=1\&journal=true\&wTimeoutMS=77 readConcernLevel=bogus readPreference=secondary loadBalanced=true; do
        with_option "$option"
    done
}

defect_8_wrong_replica_set() {
    heading "8. The wrong replica set with existing: drop"
    scenario wrong 'insert: {}' 'documents: 20' 'existing: drop'
    mongo defects '{"insert": "wrong", "documents": [{"_id": "precious"}]}'
    show "$verdict" run wrong.yaml --server "mongodb://$server/?replicaSet=wrong" --out wrong
    echo "the document that was there: $(mongo defects '{"find": "wrong", "filter": {"_id": "precious"}}')"
}

defect_9_addresses() {
    heading "9. IPv6, a host without a scheme"
    mongo small '{"create": "collection"}'
    local port
    start_helper relay "$server"
    show 'Inspection of|^plimsoll' inspect --database small --server "mongodb://[::1]:$port/?directConnection=true"
    show 'Inspection of|^plimsoll' inspect --database small --server "localhost:${server#*:}"
    show 'Inspection of|^plimsoll' inspect --database small --server localhost
}

defect_9_options_without_effect() {
    heading "9. Unknown and invalid options: warnings"
    mongo small '{"create": "collection"}'
    local option
    for option in foo=bar maxIdleTimeMS= compressors=lz4 w=-2 readPreference=invalid retryWrites=invalid heartbeatFrequencyMS=499 \
        timeoutMS=5000\&maxPoolSize=10\&serverMonitoringMode=poll; do
        show 'Inspection of|option|^plimsoll' inspect --database small --server "mongodb://$server/?$option"
    done
}

defect_9_malformed() {
    heading "9. Malformed URIs: exit code 2 and one sentence"
    local uri
    for uri in 'mongodb://' 'mongodb://localhost:' 'mongodb://localhost:0' 'mongodb://localhost:foo' 'mongodb://[::1' \
        'mongodb://localhost::27017' 'mongodb://ann:w@rd@localhost' 'mongodb://localhost/?w' 'mongodb://localhost/a b' \
        'mongodb://localhost/?tls=true&ssl=false' 'mongodb://a,b/?directConnection=true' \
        'mongodb://localhost/?minPoolSize=5&maxPoolSize=4' 'mongodb://ann@localhost/?authMechanism=GSSAPI' \
        'mongodb+srv://a.example.com:27017'; do
        show '.' inspect --database small --server "$uri"
    done
}

defect_10_tls_and_time_limits() {
    heading "10. TLS to a plain port, and a server that does not answer"
    local port
    scenario tls 'insert: {}' 'documents: 20'
    show '^plimsoll' run tls.yaml --server "mongodb://$server/?tls=true" --out tls
    cat >tls-pipeline.yaml <<EOF
guarantee: at-least-once
source: {scan: {uri: 'mongodb://$server/?tls=true', collection: defects.tls}}
security: {rules: [{allow: {topic: '*'}}]}
sink: {insert: {uri: 'mongodb://$server', collection: defects.tls_copy, form: bson, identity: payload}}
positions: {file: tls.positions}
EOF
    show '^plimsoll|^[a-z]+ after' pipeline run tls-pipeline.yaml --for 5s --out tls-pipeline
    start_helper silent
    show '^plimsoll' run tls.yaml --server "mongodb://127.0.0.1:$port" --out silent
}

# 3. Data that vanish

# Writes a pipeline from a change stream: pipeline NAME SINK COLLECTION OPTIONS
pipeline() {
    cat >"$1.yaml" <<EOF
guarantee: effectively-once
source: {change_stream: {uri: 'mongodb://$server', watch: pipes.$1}}
security: {rules: [{allow: {topic: '*'}}]}
sink: {$2: {uri: 'mongodb://$server', collection: pipes.$1_copy${3:-}}}
positions: {file: $1.positions}
EOF
}

# After two seconds: inserts two documents into a collection, changes one, and with `delete` deletes the other.
changes() {
    sleep 2
    mongo pipes "{\"insert\": \"$1\", \"documents\": [{\"_id\": 1, \"state\": \"new\"}, {\"_id\": 2, \"state\": \"new\"}]}" \
        "{\"update\": \"$1\", \"updates\": [{\"q\": {\"_id\": 1}, \"u\": {\"\$set\": {\"state\": \"paid\"}}}]}"
    [ -z "${2:-}" ] || mongo pipes "{\"delete\": \"$1\", \"deletes\": [{\"q\": {\"_id\": 2}, \"limit\": 1}]}"
}

# Prints the documents of a collection and of its copy.
copies() {
    echo "the source:"
    mongo pipes "{\"find\": \"$1\"}"
    echo "the copy:"
    mongo pipes "{\"find\": \"$1_copy\"}"
}

defect_11_changes_of_a_document() {
    heading "11. A change stream into insert with identity: payload"
    local lines='^plimsoll|^ +6 s|written|replayed|^finished'
    mongo pipes '{"create": "orders"}' '{"create": "keyed"}'
    pipeline orders insert ', form: bson, identity: payload'
    changes orders &
    show "$lines" pipeline run orders.yaml --for 6s --out orders
    wait %1
    copies orders
    pipeline keyed keyed
    changes keyed delete &
    show "$lines" pipeline run keyed.yaml --for 6s --out keyed --set source.change_stream.start=now
    wait
    copies keyed
}

defect_11_not_a_number() {
    heading "11. map yields NaN and an infinite number"
    cat >nan.yaml <<'EOF'
guarantee: at-least-once
source: {file: {path: numbers.ndjson, format: ndjson}}
security: {rules: [{allow: {topic: '*'}}]}
transforms: [{map: {set: {x: 'if .n == 1 then nan elif .n == 2 then infinite else 3 end'}}}]
sink: {file: {path: mapped.ndjson}}
dead_letters: {file: {path: dead.ndjson, form: whole}}
positions: {file: nan.positions}
EOF
    printf '{"n":%s}\n' 1 2 3 >numbers.ndjson
    show '^plimsoll|written|dead letters' pipeline run nan.yaml --out nan
    echo "mapped.ndjson:"
    cat mapped.ndjson
    echo "dead letters: $(cat dead.ndjson 2>/dev/null | grep -o '"plimsoll-message":"[^"]*"' | sort | uniq -c)"
}

defect_11_missing_positions() {
    heading "11. A change stream without its positions file"
    mongo pipes '{"create": "resumed"}' '{"insert": "resumed", "documents": [{"_id": 1}, {"_id": 2}]}'
    pipeline resumed insert
    sed -i "s/watch: pipes.resumed/&, payload: event/" resumed.yaml
    show '^plimsoll|stored position|^finished|^failed|  read ' pipeline run resumed.yaml --for 3s --out resumed
}

# Starts a Kafka broker and creates a topic; sets `broker`.
start_broker() {
    local ports
    mkdir kafka
    ports=$(python3 "$helper" free_ports)
    broker=127.0.0.1:${ports% *}
    cat >kafka/server.properties <<EOF
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://$broker,CONTROLLER://127.0.0.1:${ports#* }
advertised.listeners=PLAINTEXT://$broker
controller.quorum.voters=1@127.0.0.1:${ports#* }
log.dirs=$dir/kafka/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
EOF
    java_of_kafka kafka.tools.StorageTool format --cluster-id cGxpbXNvbGwta2Fma2EtMQ --config kafka/server.properties >kafka/format.log 2>&1
    java -Xmx256m -cp "$cache/kafka-4.1.0/*" kafka.Kafka kafka/server.properties >kafka/log 2>&1 &
    broker_pid=$!
    await 2 java_of_kafka org.apache.kafka.tools.TopicCommand --bootstrap-server "$broker" --create --topic orders \
        --partitions 2 >kafka/topic.log 2>&1
}

java_of_kafka() { timeout 20 java -Xmx128m -cp "$cache/kafka-4.1.0/*" "$@"; }

defect_11_killed_pipeline() {
    heading "11. kill -9 of a pipeline from Kafka, then the next start"
    if ! "$program" schema pipeline | grep -q '"kafka"'; then
        echo "this build has no Kafka"
        return
    fi
    if [ ! -d "$cache/kafka-4.1.0" ]; then
        echo "Kafka is not installed: run cargo xtask setup"
        return
    fi
    local broker broker_pid killed
    start_broker
    cat >feed.yaml <<EOF
guarantee: at-most-once
source: {generator: {payload: 20B, rate: 100}}
security: {rules: [{allow: {topic: '*'}}]}
sink: {kafka: {brokers: '$broker', topic: orders}}
EOF
    cat >take.yaml <<EOF
guarantee: at-least-once
source: {kafka: {brokers: '$broker', topic: orders, group: takers, start: earliest}}
security: {rules: [{allow: {topic: '*'}}]}
sink: {noop: {}}
EOF
    "$program" pipeline run feed.yaml --out feed --for 100s >feed.log 2>&1 &
    "$program" pipeline run take.yaml --out take-1 >take.log 2>&1 &
    killed=$!
    sleep 5
    kill -9 $killed
    wait $killed 2>/dev/null
    echo "\$ plimsoll pipeline run take.yaml, kill -9 after 5 s, and the same again for 52 s"
    timeout 70 "$program" pipeline run take.yaml --out take-2 --for 52s >out 2>&1
    echo "the first line with an event: $(grep -aE '^ +[0-9]+ s  in [1-9]' out | head -1 | cut -c1-40)"
    echo "messages before it: $(grep -aE 'group|session|wait' out | head -3)"
    kill $broker_pid
}

# Sends a reading of the sensor s and prints the answer: reading METRIC VALUE [TIMESTAMP]
reading() {
    python3 "$helper" send "$service" POST /api/telemetry/ingest \
        "{\"sensorId\": \"s\", \"timestamp\": ${3:-$(date +%s)000}, \"$1\": $2}"
}

defect_12_partial_readings() {
    heading "12. Three readings of one instant: temperature, humidity, another humidity"
    local service service_pid at
    start_service --server "mongodb://$server" --set database.name=parts
    at=$(date +%s)000
    echo "temperature 21.5: $(reading temperature 21.5 "$at")"
    echo "humidity 40: $(reading humidity 40 "$at")"
    echo "humidity 41: $(reading humidity 41 "$at")"
    echo "the latest: $(python3 "$helper" send "$service" GET /api/telemetry/s/latest | sed "s/$at/MILLISECONDS/")"
}

defect_12_another_design() {
    heading "12. Another design of readings on existing storage"
    local service service_pid
    start_service --server "mongodb://$server" --set database.name=design
    reading temperature 1
    kill $service_pid
    wait $service_pid
    start_service --server "mongodb://$server" --set database.name=design --set readings.design=bucket
    if [ -n "$service" ]; then
        echo "the latest: $(python3 "$helper" send "$service" GET /api/telemetry/s/latest)"
    else
        wait $service_pid
        echo "exit $?"
        matching '^plimsoll' service.log
    fi
}

defect_12_managed_database_dies() {
    heading "12. The database that the service started dies"
    local service service_pid
    start_service --server embedded
    kill -9 "$(pgrep -P $service_pid)"
    sleep 2
    echo "a write: $(reading temperature 1)"
    service_exit
    matching 'died|ERROR|WARN.*database|^plimsoll' service.log
}

defect_12_streams_with_a_window_of_zero() {
    heading "12. HTTP/2 connections with a window of 0: memory, and the reads of others"
    local service service_pid kind
    for kind in '9 100 batches' '8 100 statistics'; do
        start_service --server "mongodb://$server" --set database.name=windows
        python3 "$helper" fill "$service" 1 3600
        # shellcheck disable=SC2086
        python3 "$helper" zero_window "$service" $service_pid $kind
        kill $service_pid
    done
}

defect_12_slow_uploads() {
    heading "12. Eight uploads of 8 MiB that send one byte each 0.2 s, then a write"
    local service service_pid
    start_service --server "mongodb://$server" --set database.name=uploads
    python3 "$helper" trickle "$service"
}

defect_12_many_readers() {
    heading "12. Ingest with 200 readers"
    local service service_pid
    start_service --server "mongodb://$server" --set database.name=readers
    python3 "$helper" fill "$service" 10 3600
    python3 "$helper" readers "$service" 200 8
}

# Two signals within 10 ms

defect_signals_to_the_service() {
    heading "Two SIGINTs within 10 ms to the telemetry service, with half of a request received"
    local service service_pid
    start_service --server "mongodb://$server" --set database.name=signals
    python3 "$helper" half_a_request "$service" $service_pid
    service_exit
}

defect_signals_to_a_pipeline() {
    heading "Two SIGINTs within 10 ms to a pipeline"
    cat >endless.yaml <<EOF
guarantee: at-most-once
source: {generator: {payload: 20B}}
security: {rules: [{allow: {topic: '*'}}]}
sink: {insert: {uri: 'mongodb://$server', collection: pipes.endless}}
EOF
    echo "\$ plimsoll pipeline run endless.yaml --out endless, two SIGINTs 5 ms apart after the first second"
    python3 "$helper" interrupt endless/seconds.ndjson '}' 2 "$program" pipeline run endless.yaml --out endless >out 2>&1
    echo "exit $?"
    matching '^[a-z]+ after|unsettled|^  lost |Ctrl-C|^plimsoll' out
}

main "$@"
