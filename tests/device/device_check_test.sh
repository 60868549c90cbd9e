#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/device_check.sh with programs that fail, crash, hang and print nonsense: the others' results are written all the same.
set -uo pipefail
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/device_check.sh
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
expect() { "${@:2}" || { echo "not so: $1"; failures=$((failures + 1)); }; }
has() { grep -qF -- "$2" "$1" || { echo "not in $1: $2"; failures=$((failures + 1)); }; }

# write NAME: a program of what is read.
mkdir "$work/programs"
write() { { echo '#!/usr/bin/env bash' && cat; } >"$work/programs/$1" && chmod +x "$work/programs/$1"; }

# Speaks as doctest does: five cases, of which the second fails, the fourth ends the program, and the fifth has been skipped.
write test_device_fake <<'END'
first=1 is_xml=0
for word in "$@"; do
    case $word in
        --list-test-cases) printf '[doctest] listing\n=====\na sum\na "quoted" <name>\nthird\nfourth\nfifth\n=====\n'; exit 0 ;;
        --first=*) first=${word#*=} ;;
        --reporters=xml) is_xml=1 ;;
    esac
done
names=("" "a sum" 'a &quot;quoted&quot; &lt;name>' third fourth fifth)
((is_xml)) || { echo "[doctest] run"; echo "by itself: case $first"; ((first != 2)); exit $?; }
for ((i = first; i <= 5; ++i)); do
    good=true
    ((i == 2)) && good=false
    echo "    <TestCase name=\"${names[i]}\" filename=\"x.hpp\" line=\"1\">"
    ((i == 4)) && kill -SEGV $$
    ((i == 5)) && echo "SKIPPED: no reason"
    echo "      <OverallResultsAsserts successes=\"3\" failures=\"$((i == 2))\" test_case_success=\"$good\" duration=\"0.25\"/>"
    echo "    </TestCase>"
done
echo '  <OverallResultsAsserts successes="12" failures="1"/>'
END
# Ranks that are processes have a program of their own.
write test_device_processes_fake <<'END'
case " $* " in
    *" --list-test-cases "*) printf '[doctest] listing\n=====\nwhoever is killed\n=====\n'; exit 0 ;;
esac
echo '    <TestCase name="whoever is killed" filename="x.cpp" line="1">'
echo '      <OverallResultsAsserts successes="7" failures="0" test_case_success="true" duration="0.5"/>'
echo '    </TestCase>'
END
write bench_device_copy-fake <<'END'
echo 'a warning first'
# It is told when to begin no further section.
[[ " $* " == *" --seconds "[1-9]* ]] || exit 5
kept='{"case":"kept","ours":4,"peer":"","theirs":null,"unit":"GB/s","ratio":2,"goal":1,"met":true}'
missed='{"case":"missed","ours":1,"peer":"a | b","theirs":2,"unit":"us","ratio":0.5,"goal":1,"met":false}'
none='{"case":"no goal","ours":1,"peer":"","theirs":null,"unit":"us","ratio":null,"goal":0,"met":null}'
echo '{"schema":"shardwise.bench/1","name":"device_copy","rows":['"$kept,$missed,$none]}"
END
write bench_device_broken-fake <<'END'
echo '{"schema":"shardwise.bench/1","name":"broken","rows":[{"case":'
exit 3
END
write bench_device_error-fake <<'END'
echo '{"schema":"shardwise.bench/1","name":"error","rows":[{"case":"part","error":"no luck","met":false}]}'
exit 1
END
write bench_device_hangs-fake <<'END'
exec sleep 60
END
write bench_device_other-cuda <<'END'
exit 9
END

# What is no regular file stays what it is.
echo old >"$work/target"
ln -s target "$work/out.md"
mkfifo "$work/out.json"
timeout 60 cat "$work/out.json" >"$work/read.json" &
"$script" --fake --quick --prebuilt "$work/programs" --limit 8 --out "$work/out" >"$work/said.txt" 2>&1
status=$?
wait
expect "a failure is status 1" test $status = 1
expect "the pipe is a pipe" test -p "$work/out.json"
expect "the link is a link" test -L "$work/out.md"
has "$work/target" '# Device check'

json=$work/read.json
has "$json" '{"schema":"shardwise.bench/1","name":"device_check","mode":"quick"'
has "$json" '{"case":"a sum","status":"passed","seconds":0.25,"assertions":3}'
has "$json" '{"case":"a \"quoted\" <name>","status":"failed","seconds":0.25,"assertions":4}'
has "$json" '{"case":"third","status":"passed"'
has "$json" '{"case":"fourth","status":"ended the program (139)"'
has "$json" '{"case":"fifth","status":"skipped"'
has "$json" '{"case":"whoever is killed","status":"passed","seconds":0.5,"assertions":7}'
has "$json" '{"bench":"device_copy","case":"kept","ours":4,"peer":"","theirs":null,"unit":"GB/s","ratio":2,"goal":1,"met":true}'
has "$json" '{"bench":"device_error","case":"part","error":"no luck","met":false}'
has "$json" '"status":"no rows, status 3"}'
has "$json" '"status":"timed out"}'
expect "a vendor's program is not taken for another's" test "$(grep -c device_other "$json")" = 0
if command -v python3 >/dev/null; then
    expect "it is JSON" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$json"
fi
has "$work/target" '## Cases: 3 of 6 passed'
has "$work/target" 'failed; by itself: status 1'
has "$work/target" 'ended the program (139); by itself: passed'
has "$work/target" 'by itself: case 2'
has "$work/target" '## Benchmarks: 1 of 2 goals met'
has "$work/target" '| device_copy | missed | 1 | us | a \| b | 2 | 0.5 | 1 | **no** |'
has "$work/target" '| device_error | part | failed: no luck'

# Nothing fails: status 0, and files are put in place.
rm "$work"/programs/bench_device_{broken,error,hangs}-fake "$work/out.json" "$work/out.md"
sed -i 's/i == 2/i == 0/g; s/i == 4/i == 0/' "$work/programs/test_device_fake"
"$script" --fake --quick --prebuilt "$work/programs" --limit 20 --out "$work/out" >"$work/said.txt" 2>&1
status=$?
expect "no failure is status 0" test $status = 0
has "$work/out.md" '## Cases: 5 of 6 passed'
expect "nothing is left beside" test -z "$(find "$work" -name '.device_check*')"

"$script" --fake --sometimes >"$work/said.txt" 2>&1
expect "an unknown option is status 2" test $? = 2
((failures == 0)) || { cat "$work/said.txt" "$work/target"; exit 1; }
