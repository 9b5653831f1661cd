P=${1:-plimsoll}
D=$(mktemp -d); cd $D
base() { printf 'title: test\ncollection: plimsoll_test.%s\ndocument: {n: {$number: {}}, text: {$text: {bytes: 40}}}\nwrite_concern: {w: 1, j: true}\nphases:\n  - load:\n      insert:\n        operation: {insert: {batch: 10}}\n        arrivals: {closed: {writers: 2}}\n    stop: {documents: 100}\n' "$1"; }
base a > s.yaml
r() { echo "\$ plimsoll $*"; $P "$@" 2>&1 | head -8; echo "exit ${PIPESTATUS[0]}"; echo; }
slip() { sed "$1" s.yaml > slip.yaml; r run slip.yaml; }
slip 's/title: test/title: null/'
slip 's/{w: 1, j: true}/{w: [1]}/'
slip 's/bacth/x/; s/batch/bacth/'
slip 's/closed: {writers: 2}/closed/'
slip "s/title: test/title: 'test/"
slip 's/title: test/\ttitle: test/'
slip 's/writers: 2/writers: 5_000_000_000/'
printf '{title: %s, titel: b}\n' "$(head -c 70 /dev/zero | tr '\0' x)" > slip.yaml; r run slip.yaml
printf 'title: t\nquestion: caf\xe9\n' > latin.yaml; r run latin.yaml
: > empty.yaml; r run empty.yaml
printf 'guarantee: at-most-once\nsource: {generator: {events: one}}\nsink: {noop: {}}\n' > p.yaml; r pipeline run p.yaml
printf 'listen: 127.0.0.1:0\nlimits: {connections_max: ten}\n' > c.yaml; r serve telemetry --config c.yaml
printf 'tests:\n  - {naem: a, scenario: bulk-baseline}\n' > t.yaml; r suite t.yaml
slip 's/{$number: {}}/{$int: {max: 3_000_000_000}}/'
r run $D; r run p.yaml; r pipeline run s.yaml; r suite p.yaml; r run generator-to-noop
mkdir used; touch used/x; r run s.yaml --server mongodb://127.0.0.1:1/?directConnection=true --out used
r run s.yaml --server mongodb://127.0.0.1:1/ --set collection=a.$(head -c 254 /dev/zero | tr '\0' b)
r run s.yaml --server mongodb://127.0.0.1:1/ --set 'collection="a b.c"'
