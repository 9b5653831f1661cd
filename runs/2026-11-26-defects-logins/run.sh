#!/bin/bash
# Logs in at real servers by certificate and by PLAIN, and greets an old one: bash run.sh PROGRAM > FILE. All servers listen on loopback
# addresses. It needs openssl, Python with PyMongo, and the servers that `cargo xtask setup` installs.
set -u
program=$(realpath "${1:?name a program}")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll
python=$cache/python/bin/python
dir=$(mktemp -d)
cd "$dir" || exit 1
export PLIMSOLL_NO_CALIBRATION=1 PLIMSOLL_NO_CANARY=1 COLUMNS=140
children=()
trap 'kill "${children[@]}" 2>/dev/null' EXIT

heading() { printf '\n== %s\n' "$*"; }

# Runs the program; prints the command, the lines that match the first argument, and the exit code.
show() {
    local lines=$1 code
    shift
    echo "\$ plimsoll $*" | sed -E "s#127.0.0.1:[0-9]+#HOST#g; s#localhost:[0-9]+#HOST#g; s#$dir#DIR#g"
    timeout -k 5 60 "$program" "$@" >out 2>&1 </dev/null
    code=$?
    grep -aE -- "$lines" out | head -6 | cut -c1-240 | sed -E "s#127.0.0.1:[0-9]+#HOST#g; s#localhost:[0-9]+#HOST#g; s#$dir#DIR#g"
    echo "exit $code"
}

# Starts a server in the background and prints the port that its log names after the words.
listen() {
    local words=$1 log=$2
    shift 2
    "$@" >"$log" 2>&1 &
    children+=($!)
    for _ in $(seq 200); do
        port=$(grep -aoE "$words.*[0-9.]+:[0-9]+" "$log" | grep -oE '[0-9]+$' | head -1)
        [ -n "$port" ] && return
        sleep 0.1
    done
    echo "no server" && exit 1
}

certificate() { # name, subject, signed by
    openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
    printf 'subjectAltName=DNS:localhost' >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
    cat "$1.crt" "$1.key" >"$1.pem"
}

work=(single-insert --set 'phases.0.stop={operations: 20}')
words='acknowledged documents were|plimsoll:|warning|Server'

heading "9 X.509 at the embedded server: CN=ann exists, CN=bob does not"
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2 2>/dev/null
for name in localhost ann bob; do certificate "$name" "/CN=$name"; done
listen 'listening on' secured.log "$cache"/secantus-mdb-*/bin/secantusd-rs --port 0 --storage-path "$dir/secured" --auth \
    --tls-cert-file localhost.crt --tls-key-file localhost.key --tls-ca-file ca.pem
"$python" - "$port" <<'PY'
import sys, pymongo
tls = dict(tls=True, tlsCAFile="ca.pem", tlsCertificateKeyFile="bob.pem", directConnection=True)
first = pymongo.MongoClient("localhost", int(sys.argv[1]), **tls)
role = [{"role": "root", "db": "admin"}]
first.admin.command("createUser", "root", pwd="word", roles=role)
root = pymongo.MongoClient("localhost", int(sys.argv[1]), username="root", password="word", **tls)
root["$external"].command("createUser", "CN=ann", roles=role, mechanisms=["MONGODB-X509"])
PY
for name in ann bob; do
    options="directConnection=true&tls=true&tlsCAFile=$dir/ca.pem&tlsCertificateKeyFile=$dir/$name.pem"
    show "$words" run "${work[@]}" --out "x509-$name" --server "mongodb://localhost:$port/?$options&authMechanism=MONGODB-X509&authSource=\$external"
done

heading "9 PLAIN at FerretDB, which has no SCRAM"
mkdir ferret
listen 'Listening on TCP' ferret.log "$cache/ferretdb/bin/ferretdb" --handler=sqlite "--sqlite-url=file:$dir/ferret/" \
    "--state-dir=$dir/ferret" --listen-addr=127.0.0.1:0 --debug-addr=- --telemetry=disable
ferret=$port
show "$words" run "${work[@]}" --out plain --server "mongodb://ann:word@127.0.0.1:$ferret/?directConnection=true&authMechanism=PLAIN"
show "$words" run "${work[@]}" --out scram --server "mongodb://ann:word@127.0.0.1:$ferret/?directConnection=true"

heading "14 mongo-java-server has no hello"
listen 'listening on' java.log java -cp "$cache/mongo-java-server/files/*:$cache/mongo-java-server/classes" MongoJavaServer 13
show "$words|mongo-java" run "${work[@]}" --out java --server "mongodb://127.0.0.1:$port/?directConnection=true"

heading "15 The hint of YCSB"
printf '[OVERALL], RunTime(ms), 1000\n[OVERALL], Throughput(ops/sec), 100\n[READ], Operations, 100\n[READ], AverageLatency(us), 500\n[READ], MinLatency(us), 100\n[READ], MaxLatency(us), 900\n[READ], 95thPercentileLatency(us), 800\n[READ], 99thPercentileLatency(us), 890\n[READ], Return=OK, 100\n' >ycsb.txt
show 'measurement' show ycsb.txt
rm -rf "$dir"
