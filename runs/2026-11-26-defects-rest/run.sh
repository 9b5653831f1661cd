#!/bin/bash
# Runs the commands of the table with a program: bash run.sh PROGRAM > after.txt
set -u
program=$(realpath "${1:?name a program}")
here=$(dirname "$(realpath "$0")")
bash "$here/../2026-11-26-defects/defects.sh" "$program" 3_without_stamps 8_options_of_the_uri 10_tls_and_time_limits
dir=$(mktemp -d)
cat >"$dir/sink.yaml" <<'EOF'
guarantee: at-most-once
source: {generator: {events: 1000}}
sink: {insert: {uri: 'mongodb://127.0.0.1:9', collection: d.c, form: bson, identity: source}}
EOF
printf '\n== A sink on a closed port\n$ plimsoll pipeline run sink.yaml\n'
began=$(date +%s.%N)
"$program" pipeline run "$dir/sink.yaml" --out "$dir/out" 2>&1 >/dev/null | grep '^plimsoll'
echo "exit ${PIPESTATUS[0]}, after $(echo "$(date +%s.%N) - $began" | bc | cut -c1-4) s"
rm -rf "$dir"
