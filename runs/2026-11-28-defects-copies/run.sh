#!/bin/bash
# Shows each defect with a program: bash run.sh PROGRAM > after.txt. It listens on loopback addresses, and ends only processes that it started.
set -u
program=$(realpath "${1:?name a program}")
here=$(dirname "$(realpath "$0")")
helper=$here/../2026-11-26-defects/helper.py
dir=$(mktemp -d)
cd "$dir" || exit 1
cp "$here"/pipelines/*.yaml "$here/scenario.yaml" .
export PLIMSOLL_NO_CALIBRATION=1 COLUMNS=140 PYTHONDONTWRITEBYTECODE=1

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

mongo() { python3 "$helper" mongo "$server" "$@"; }

# Waits for a text in the output of the running pipeline, or for the pipeline's end.
wait_for() {
    for _ in $(seq 200); do
        grep -aq "$1" "$name.out" 2>/dev/null && return
        kill -0 "$run" 2>/dev/null || return
        sleep 0.1
    done
    echo "gave up: $1"
}

# Starts a pipeline for a number of seconds, with further options.
begin() {
    name=$1
    local command=(pipeline run "$name.yaml" --server "mongodb://$server" --for "$2s" --out "$name-$2" "${@:3}")
    echo "\$ plimsoll ${command[*]}"
    "$program" "${command[@]}" >"$name.out" 2>&1 </dev/null &
    run=$!
}

# Starts a pipeline, and waits until its change stream is open.
follow() {
    begin "$1" 7
    wait_for 'no stored position'
    sleep 1
}

# Prints a command, and sends it to a database of the server.
change() {
    echo "  change: $2"
    mongo "$1" "$2" | grep -v '^$'
}

# Waits for the pipeline's end; prints its errors, its counts and its exit code.
finish() {
    local code
    wait "$run"
    code=$?
    grep -aE '^plimsoll:|^Next' "$name.out"
    awk '/^  (read|written|filtered out|dead letters|lost) / { sub(/^ +/, ""); sub(/ +[0-9.,]+$/, ""); gsub(/ +/, " "); text = text (text ? ", " : "counts: ") $0 } END { if (text) print text }' "$name.out"
    echo "exit $code"
}

# Prints the documents of collections.
found() {
    local db=$1 each
    shift
    for each in "$@"; do
        echo "  $db.$each: $(mongo "$db" "{\"find\": \"$each\", \"filter\": {}, \"sort\": {\"_id\": 1}}" | paste -sd ' ')"
    done
}

# Prints the number of stored dead letters.
letters() {
    echo "  $1.dead: $(mongo "$1" '{"find": "dead", "filter": {}, "projection": {"_id": 1}}' | wc -l) stored"
}

insert() { echo "{\"insert\": \"c\", \"documents\": [$1]}"; }
update() { echo "{\"update\": \"c\", \"updates\": [{\"q\": $1, \"u\": $2}]}"; }
delete() { echo "{\"delete\": \"c\", \"deletes\": [{\"q\": $1, \"limit\": 1}]}"; }

stages() {
    heading "1. Stages that remove a part of a change: an update while the pipeline is stopped, then a run, then one without the stages"
    for each in project unset; do
        mongo $each "$(insert '{"_id": 1, "v": 1}')" '{"insert": "copy", "documents": [{"_id": 1, "v": 1}]}'
        begin $each 4
        wait "$run"
        change $each "$(update '{"_id": 1}' '{"$set": {"v": 2}}')"
        begin $each 5
        finish
        found $each c copy
        begin $each 6 --set 'source.change_stream.stages=[]'
        finish
        found $each c copy
    done
    show '→|^plimsoll|fragments' pipeline check split.yaml
}

replays() {
    heading "2. A dead letter of an earlier version: a validator of the copy refuses v 1, then v 2 is written, then a replay"
    mongo replayed '{"create": "c"}' '{"create": "copy", "validator": {"v": {"$ne": 1}}}'
    follow replayed
    change replayed "$(insert '{"_id": 1, "v": 1}')"
    wait_for 'dead letters 1'
    change replayed "$(update '{"_id": 1}' '{"$set": {"v": 2}}')"
    finish
    found replayed c copy
    mongo replayed '{"collMod": "copy", "validator": {}}'
    echo "  the validator is removed"
    show '→|^plimsoll|older' pipeline replay replayed.yaml --server "mongodb://$server" --out replay
    found replayed c copy
}

dead_letters() {
    heading "3. Dead letters that replace each other: a validator of the copy refuses three versions"
    for each in once replaced full; do
        mongo $each '{"create": "c"}' '{"create": "copy", "validator": {"v": {"$gt": 100}}}'
        follow $each
        change $each "$(insert '{"_id": 1, "v": 1}')"
        change $each "$(update '{"_id": 1}' '{"$set": {"v": 2}}')"
        change $each "$(update '{"_id": 1}' '{"$set": {"v": 3}}')"
        finish
        letters $each
    done
    for each in vector metadata mixed; do show '→|^plimsoll' pipeline check $each.yaml; done
}

collections() {
    heading "4. A copy of a whole database: two collections have a document with the same _id"
    mongo shop '{"create": "users"}' '{"create": "orders"}'
    follow shop
    change shop '{"insert": "users", "documents": [{"_id": 1, "user": "ann"}]}'
    change shop '{"insert": "orders", "documents": [{"_id": 1, "order": 7}]}'
    finish
    found shop users orders
    found shopcopy copy
    show '→|^plimsoll' pipeline check deployment.yaml
    show '→|^plimsoll' pipeline check itself.yaml
}

filters() {
    heading "5. A filter before a copy: a delete, and a change after which a document no longer matches"
    local both='{"_id": 1, "status": 1}, {"_id": 2, "status": 1}'
    mongo filter "$(insert "$both")" "{\"insert\": \"copy\", \"documents\": [$both]}"
    follow filter
    change filter "$(delete '{"_id": 1}')"
    change filter "$(update '{"_id": 2}' '{"$set": {"status": 0}}')"
    finish
    found filter c copy
    show '→|^plimsoll' pipeline check sample.yaml
}

lines() {
    heading "6. A delete in a file of lines"
    mongo lines "$(insert '{"_id": 1}')"
    follow lines
    change lines "$(delete '{"_id": 1}')"
    finish
    echo "  bytes of lines.txt: $(od -An -tx1 lines.txt 2>&1)"
}

orders() {
    heading "7. Two changes in one batch, made while the pipeline is stopped: a unique value moves, and an _id changes its type"
    local value='{"_id": 1, "email": "x"}'
    mongo unique "$(insert "$value")" "{\"insert\": \"copy\", \"documents\": [$value]}" \
        '{"createIndexes": "copy", "indexes": [{"key": {"email": 1}, "name": "email", "unique": true}]}'
    mongo numbers "$(insert '{"_id": 1, "v": 1}')" '{"insert": "copy", "documents": [{"_id": 1, "v": 1}]}'
    for each in unique numbers; do
        begin $each 4
        wait "$run"
        change $each "$(delete '{"_id": 1}')"
        if [ $each = unique ]; then
            change $each "$(insert '{"_id": 2, "email": "x"}')"
        else
            change $each "$(insert '{"_id": 1.0, "v": 2}')"
        fi
        begin $each 5
        finish
        found $each c copy
    done
}

limits() {
    heading "8. A time limit of 0, which means no limit"
    show '^plimsoll|within|^server|version' inspect --server "mongodb://$server/?connectTimeoutMS=0"
}

# Starts the telemetry service; sets `service` and `address`.
serve() {
    "$program" serve telemetry --server "mongodb://$server" --listen 127.0.0.1:0 "$@" >service.out 2>&1 </dev/null &
    service=$!
    for _ in $(seq 200); do
        address=$(grep -aoE -m1 'http://127\.0\.0\.1:[0-9]+' service.out) && break
        sleep 0.1
    done
    address=${address#http://}
}

uploads() {
    heading "10. Four uploads of one byte each, and limits.requests_max=4"
    echo "\$ plimsoll serve telemetry --server mongodb://$server --set limits.requests_max=4 --set database.name=uploads"
    serve --set limits.requests_max=4 --set database.name=uploads
    python3 "$here/uploads.py" "$address"
    kill -TERM $service
    wait $service
}

interrupts() {
    heading "11. Ctrl-C, 3 s after the start of a run that waits for its server for up to 15 s"
    local uri='mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=15000' start=$SECONDS code
    echo "\$ plimsoll run scenario.yaml --server $uri"
    timeout --preserve-status -s INT -k 60 3 "$program" run scenario.yaml --server "$uri" --out interrupted >out 2>&1 </dev/null
    code=$?
    grep -aE '^plimsoll|stopped|no answer yet|Ctrl' out
    echo "exit $code, $([ $((SECONDS - start)) -lt 9 ] && echo 'less' || echo 'more') than 6 s after Ctrl-C"
}

buckets() {
    heading "12. Three starts with buckets: 60 minutes and 500 readings; others, which are refused; the first again"
    local limit=8 each
    for each in '60 500' '30 10' '60 500'; do
        show '^plimsoll|bucket|^http' serve telemetry --server "mongodb://$server" --listen 127.0.0.1:0 --set database.name=buckets \
            --set readings.design=bucket --set "readings.bucket_minutes=${each% *}" --set "readings.bucket_max=${each#* }"
        found buckets reading_layouts
    done
    echo "  reading_buckets has a document, and reading_layouts is dropped"
    mongo buckets '{"insert": "reading_buckets", "documents": [{"_id": "s\tstart\t0"}]}' '{"drop": "reading_layouts"}'
    show '^plimsoll|^http' serve telemetry --server "mongodb://$server" --listen 127.0.0.1:0 --set database.name=buckets \
        --set readings.design=bucket --set readings.bucket_minutes=30
    found buckets reading_layouts
}

remedies() {
    heading "13. A server that accepts connections and never answers, in a command without --set"
    python3 "$helper" silent >port &
    local silent=$!
    for _ in $(seq 50); do [ -s port ] && break; sleep 0.1; done
    show '^plimsoll' inspect --server "mongodb://127.0.0.1:$(cat port)"
    show '^plimsoll' inspect --server "mongodb://127.0.0.1:$(cat port)/?timeoutMS=500"
    show '^plimsoll|error:' inspect --server "mongodb://127.0.0.1:$(cat port)" --set timeout=30s
    kill $silent
}

passwords() {
    heading "14. A question mark in the password of an address"
    show '^plimsoll' run scenario.yaml --dry-run --server 'mongodb://ann:pa?ss@localhost/'
    show '^plimsoll' run scenario.yaml --dry-run --server 'mongodb://ann:s3/cret?x@localhost'
}

options() {
    heading "15. Options of an address without effect"
    for each in heartbeatFrequencyMS=500 serverMonitoringMode=poll enableOverloadRetargeting=true uuidRepresentation=javaLegacy \
        zlibCompressionLevel=9 tlsAllowInvalidHostnames=true; do
        show '^plimsoll|no effect' inspect --server "mongodb://$server/?$each"
    done
    show '^plimsoll' inspect --server 'mongodb://[fe80::1%25eth0]'
}

versions() {
    heading "16. A unique value that moves twice within one batch, at mongo-java-server (the embedded server frees no unique value that an update changes)"
    local java=$HOME/.cache/plimsoll/mongo-java-server embedded=$server process
    java -cp "$java/files/*:$java/classes" MongoJavaServer 13 >java.out 2>&1 &
    process=$!
    for _ in $(seq 200); do grep -aq 'listening on ' java.out && break; sleep 0.1; done
    server=$(grep -aoE '127\.0\.0\.1:[0-9]+' java.out | head -1)
    mongo versions '{"insert": "copy", "documents": [{"_id": 2, "u": "x"}]}' \
        '{"createIndexes": "copy", "indexes": [{"key": {"u": 1}, "name": "u", "unique": true}]}'
    PYTHONPATH=$(dirname "$helper") python3 -c 'import helper, sys
for n, u in [(2, "y"), (3, "x"), (2, "z"), (4, "y")]: sys.stdout.buffer.write(helper.encode({"_id": n, "u": u}))' >versions.bson
    echo "  versions.bson: {_id: 2, u: y}, {_id: 3, u: x}, {_id: 2, u: z}, {_id: 4, u: y}"
    begin versions 20
    finish
    found versions copy
    kill $process
    wait $process
    server=$embedded
}

numbers() {
    heading "17. Whole numbers beyond 64 bits in a document"
    local number
    for number in 9223372036854775808 99223372036854775808; do
        sed "s/{a: 1}/{a: 1, n: $number}/" scenario.yaml >number.yaml
        show '^plimsoll|"n":|number\.yaml:' run number.yaml --dry-run
        show '^plimsoll|"n":' run scenario.yaml --dry-run --set "document.n=$number"
    done
}

columns() {
    heading "18. The column of an invalid value, and the kind of a value in --set"
    (cat scenario.yaml && echo 'read_preference: secondery') >preference.yaml
    (cat scenario.yaml && echo 'expect: {work.errors: ["count<1", "count=0"]}') >expect.yaml
    show '^plimsoll|\^' run preference.yaml --dry-run
    show '^plimsoll|\^' run expect.yaml --dry-run
    show '^plimsoll' run scenario.yaml --dry-run --set 'title=[a]'
}

older() {
    heading "19. The replay of dead letters into vector with by: payload, which would bring an earlier version back"
    show '^plimsoll' pipeline replay embedded.yaml
    heading "20. A map that changes the _id by which deletes find their documents"
    show '→|^plimsoll' pipeline check mapped.yaml
    mongo expression '{"create": "c"}'
    follow expression
    change expression "$(insert '{"_id": 1, "ref": 5}')"
    change expression "$(delete '{"_id": 1}')"
    finish
    found expression c copy
}

suites() {
    heading "21. An option without effect in the pipeline of a suite's run"
    echo 'name,pipeline' >options.csv
    echo 'one,options.yaml' >>options.csv
    show 'fooBar' suite options.csv --out options
    heading "22. Ctrl-C, 3 s after the start of a suite that waits for the server of a scenario for up to 15 s"
    local uri='mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=15000' start=$SECONDS code
    echo 'name,scenario' >late.csv
    echo 'one,scenario.yaml' >>late.csv
    echo "\$ plimsoll suite late.csv --server $uri"
    timeout --preserve-status -s INT -k 60 3 "$program" suite late.csv --server "$uri" --out late >out 2>&1 </dev/null
    code=$?
    grep -aE '^plimsoll|stopped|no answer yet' out
    echo "exit $code, $([ $((SECONDS - start)) -lt 9 ] && echo 'less' || echo 'more') than 6 s after Ctrl-C"
}

digits() {
    heading "23. A whole number beyond 64 bits in an event that is JSON"
    printf '{"_id": 1, "n": 18446744073709551616}\n{"_id": 2, "n": 7}\n' >digits.jsonl
    mongo digits '{"create": "copy"}'
    begin digits 9
    finish
    found digits copy
    letters digits
    heading "24. The same in the filter of a scan: the collection has one document with this account"
    mongo account '{"create": "c"}'
    echo '{"_id": 1, "account": {"$numberDecimal": "99999999999999999999"}}' >fill.jsonl
    begin fill 9
    finish
    begin account 9
    finish
    rm -f account.position
    begin account 8 --set 'source.scan.filter={account: {$numberDecimal: "99999999999999999999"}}'
    finish
}

sets() {
    heading "25. A replica set in the address of mongo-java-server, which belongs to none"
    local java=$HOME/.cache/plimsoll/mongo-java-server process
    java -cp "$java/files/*:$java/classes" MongoJavaServer 13 >java.out 2>&1 &
    process=$!
    for _ in $(seq 200); do grep -aq 'listening on ' java.out && break; sleep 0.1; done
    show '^plimsoll' inspect --server "mongodb://$(grep -aoE '127\.0\.0\.1:[0-9]+' java.out | head -1)/?replicaSet=rs0"
    kill $process
    wait $process
}

uri=$("$program" server start --storage "$dir/storage")
server=${uri#mongodb://}
server=${server%/}
for part in ${2:-stages replays dead_letters collections filters lines orders limits uploads interrupts buckets remedies passwords options versions numbers columns older suites digits sets}; do
    $part 2>&1 | clean
done
"$program" server stop "$server" >/dev/null 2>&1
cd / && rm -rf "$dir"
