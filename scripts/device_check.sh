#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that a machine with a GPU can show: all device cases, ranks that are processes and are killed, the small cases under
# compute-sanitizer, and the benchmarks of devices.
#
#   scripts/device_check.sh [--quick] [--fake] [--out STEM] [--deps DIR] [--build DIR] [--prebuilt DIR] [--limit SECONDS]
#
# Writes STEM.json (shardwise.bench/1, docs/reference/json.md) and STEM.md. Needs bash, CMake, g++, nvcc or hipcc, and no network; with
# --prebuilt the programs alone. Each part ends on a time limit and the next one goes on. docs/how-to/run-on-gpus.md says more.
#
#   --quick          fewer repeats, at most 6 minutes instead of 10
#   --fake           on the fake vendor of tests/device, whose times say nothing: shows that this script works
#   --out STEM       where to write (default: device_check)
#   --deps DIR       a folder with include/doctest and include/nlohmann, where CMake does not find them by itself
#   --build DIR      the folder to build in (default: build/device-check)
#   --prebuilt DIR   takes test_device_* and bench_device_* from there, or its tests/ and bin/, and builds nothing
#   --limit SECONDS  how long all of it may take
#
# Exit status: 0; 1 where a test failed, a benchmark did not run or nothing could be built; 2 for wrong arguments; 77 without a device.
# A goal that is missed is written down and is no failure.
set -uo pipefail
export LC_ALL=C

source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
is_quick=0 vendor="" stem=device_check deps="" build="$source_folder/build/device-check" prebuilt="" limit=""

fail() { echo "device_check: $1" >&2; exit "${2:-1}"; }

while (($# > 0)); do
    case $1 in
        --quick) is_quick=1 ;;
        --fake) vendor=fake ;;
        --out | --deps | --build | --prebuilt | --limit)
            (($# > 1)) || fail "$1 takes a value" 2
            case $1 in
                --out) stem=$2 ;;
                --deps) deps=$2 ;;
                --build) build=$2 ;;
                --prebuilt) prebuilt=$2 ;;
                --limit) limit=$2 ;;
            esac
            shift ;;
        -h | --help) sed -n '3,/^# A goal/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "does not know $1" 2 ;;
    esac
    shift
done
[[ -z $limit ]] && limit=$((is_quick ? 360 : 600))
[[ $limit =~ ^[1-9][0-9]*$ ]] || fail "--limit takes seconds" 2
for end in json md; do
    [[ -d $stem.$end ]] && fail "$stem.$end is a folder" 2
done
work=$(mktemp -d) || fail "no folder for what is read on the way"
table_job=""
trap '[[ -z $table_job ]] || kill -- "-$table_job" 2>/dev/null; rm -rf "$work"' EXIT
SECONDS=0

# left MOST: the seconds that a part may take, at most what is left of all of them.
left() {
    local rest=$((limit - SECONDS))
    ((rest < $1)) && echo $((rest > 0 ? rest : 0)) || echo "$1"
}

# Text as a JSON string's inside.
json_text() { tr -d '\000-\010\013\014\016-\037' | sed -e 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g; s/\r//g' | sed ':a;N;$!ba;s/\n/\\n/g'; }

# --- the vendor and the machine ---------------------------------------------------------------------------------------------

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || nvcc=""
hipcc=$(command -v hipcc || ls /opt/rocm/bin/hipcc 2>/dev/null) || hipcc=""

# find_program NAME: NAME of the folder with the programs.
folder=${prebuilt:-$build}
find_program() {
    local place
    for place in "$folder/$1" "$folder/tests/$1" "$folder/bin/$1"; do
        [[ -f $place && -x $place ]] && { echo "$place"; return 0; }
    done
    return 1
}
if [[ -z $vendor ]]; then
    if [[ -n $prebuilt ]]; then
        for vendor in cuda hip ""; do
            [[ -z $vendor ]] || find_program "test_device_$vendor" >/dev/null && break
        done
        [[ -n $vendor ]] || fail "$prebuilt has neither test_device_cuda nor test_device_hip"
    elif [[ -n $nvcc && ! -e /dev/kfd ]]; then
        vendor=cuda
    elif [[ -n $hipcc ]]; then
        vendor=hip
    else
        fail "neither nvcc nor hipcc is there; --fake needs none"
    fi
fi

ask_nvidia() { timeout 20 nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null | head -1; }
device=unknown driver=unknown clocks=unknown
case $vendor in
    cuda)
        if command -v nvidia-smi >/dev/null; then
            device=$(ask_nvidia name) driver=$(ask_nvidia driver_version)
            clocks="$(ask_nvidia clocks.max.sm) MHz at most, memory $(ask_nvidia clocks.max.mem) MHz, power limit $(ask_nvidia power.limit) W"
        fi ;;
    hip)
        device=$(timeout 20 rocminfo 2>/dev/null | sed -n 's/^ *Name: *\(gfx[0-9a-f]*\).*/\1/p' | head -1)
        driver=$(cat /sys/module/amdgpu/version 2>/dev/null || uname -r) ;;
    fake) device="fake vendor (an emulator: no time of it says anything)" driver=none clocks=none ;;
esac
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
commit=$(git -C "$source_folder" describe --always --dirty 2>/dev/null || echo unknown)
date=$(date -u +%Y-%m-%dT%H:%M:%SZ)

# --- the programs -----------------------------------------------------------------------------------------------------------

build_text="taken from a folder"
if [[ -z $prebuilt ]]; then
    options=(-DCMAKE_BUILD_TYPE=Release "-DVENDOR=$vendor")
    prefixes=$deps
    if [[ $vendor == cuda ]]; then
        prefixes+=";$(dirname "$(dirname "$nvcc")")"
        architecture=$(ask_nvidia compute_cap | tr -d ' .')
        [[ -n $architecture ]] && options+=("-DSHARDWISE_CUDA_ARCHITECTURES=$architecture")
    elif [[ $vendor == hip ]]; then
        [[ -n $device ]] && options+=("-DSHARDWISE_HIP_ARCHITECTURES=$device")
    fi
    options+=("-DCMAKE_PREFIX_PATH=$prefixes")
    start=$SECONDS
    # What is left is for what was built.
    seconds=$((limit / 2))
    # One program that does not compile leaves the others.
    keep_going=(-k)
    {
        timeout -k 5 "$seconds" cmake -S "$source_folder/bench/device_check" -B "$build" "${options[@]}" &&
            { ! grep -q '^CMAKE_GENERATOR:.*Ninja' "$build/CMakeCache.txt" || keep_going=(-k 0); } &&
            timeout -k 5 "$seconds" cmake --build "$build" --parallel "$(nproc)" --target device_check -- "${keep_going[@]}"
    } >"$work/build.txt" 2>&1 || { tail -40 "$work/build.txt" >&2; build_text="failed in part"; }
    [[ $build_text == "failed in part" ]] || build_text="built"
    build_text+=" in $((SECONDS - start)) s"
fi

# What bounds each kernel by its code, for the device found: compiled once more beside all that follows, on a core that is left over.
code_architecture=""
case $vendor in
    cuda) code_architecture=sm_$(ask_nvidia compute_cap | tr -d ' .') ;;
    hip) code_architecture=$device ;;
esac
if [[ $code_architecture =~ ^(sm_|gfx)[0-9a-f]+$ ]] && (($(nproc) >= 4)) && command -v python3 >/dev/null; then
    set -m
    nice taskset -c "$(($(nproc) - 1))" python3 "$source_folder/scripts/check_device_code.py" --vendor "$vendor" \
        --architectures "$code_architecture" --work "$work/code" --table "$work/table.md" >"$work/table.txt" 2>&1 &
    table_job=$!
    set +m
fi

# Libraries of the vendor that the loader does not find: where toolkits and Python packages have them.
find_libraries() {
    local name path
    for name in $(ldd "$1" 2>/dev/null | awk '/not found/ {print $1}' | sort -u); do
        path=$(ls -d /usr/local/cuda*/lib64/"$name" /usr/local/cuda*/targets/*/lib/"$name" /opt/rocm*/lib/"$name" 2>/dev/null | head -1)
        [[ -n $path ]] || path=$(timeout 20 find /usr /opt /root /home -name "$name" 2>/dev/null | head -1)
        [[ -n $path ]] && export LD_LIBRARY_PATH="$(dirname "$path")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
}

has_failed=0
has_device=1

# --- the cases --------------------------------------------------------------------------------------------------------------

# Lines of status, seconds, assertions, name.
: >"$work/tests.tsv"
: >"$work/failures.txt"

# read_cases FILE: the cases of doctest's XML, as lines of status, seconds, assertions, name; the last one may be open.
read_cases() {
    awk '
        function text(value) {
            gsub(/&lt;/, "<", value); gsub(/&gt;/, ">", value); gsub(/&quot;/, "\"", value); gsub(/&amp;/, "\\&", value)
            sub(/<[^<]*DeviceBackend<.*/, "", value); sub(/<shardwise::[a-z0-9_]*::Host>/, " (host)", value); return value
        }
        function part(key,    found) { return match($0, key "=\"[^\"]*\"") ? substr($0, RSTART + length(key) + 2, RLENGTH - length(key) - 3) : "" }
        /<TestCase / { name = text(part("name")); skipped = 0; open = 1 }
        /SKIPPED:/ { skipped = 1 }
        open && /<OverallResultsAsserts / {
            good = part("test_case_success") == "true"
            status = !good ? "failed" : skipped ? "skipped" : "passed"
            printf "%s\t%s\t%s\t%s\n", status, part("duration"), part("successes") + part("failures"), name
            open = 0
        }
        END { if (open) printf "open\t0\t0\t%s\n", name }' "$1"
}

# run_case PROGRAM INDEX SECONDS: the case of that number by itself.
run_case() { timeout -k 2 "$3" "$1" --first="$2" --last="$2" --no-colors=true >"$work/case.txt" 2>&1; }

# run_cases PROGRAM FILE SECONDS: all cases of a program, for so long at most, as lines of FILE.
run_cases() {
    local program=$1 file=$2 count first=1 deadline seen now quiet status
    : >"$file"
    count=$("$program" --list-test-cases 2>/dev/null | grep -vc '^\[doctest\]\|^=====')
    ((count > 0)) || { echo "the cases could not be listed: $("$program" --list-test-cases 2>&1 | head -2)" >>"$work/failures.txt"; has_failed=1; return; }
    deadline=$((SECONDS + $(left "$3")))
    # All in one process; where it ends early, what comes after the case at fault in another one.
    while ((first <= count && SECONDS < deadline)); do
        "$program" --first=$first --reporters=xml --duration=true >"$work/cases.xml" 2>"$work/cases.err" &
        local process=$!
        seen=0 quiet=$SECONDS
        while kill -0 $process 2>/dev/null; do
            now=$(stat -c %s "$work/cases.xml")
            ((now != seen)) && seen=$now quiet=$SECONDS
            if ((SECONDS - quiet > 40 || SECONDS >= deadline)); then kill -9 $process 2>/dev/null; fi
            sleep 0.1
        done
        wait $process 2>/dev/null
        status=$?
        read_cases "$work/cases.xml" >"$work/part.tsv"
        grep -v $'^open\t' "$work/part.tsv" >>"$file"
        first=$((first + $(grep -vc $'^open\t' "$work/part.tsv")))
        if ((first <= count)); then
            local name
            name=$(sed -n 's/^open\t[^\t]*\t[^\t]*\t//p' "$work/part.tsv")
            printf '%s\t0\t0\t%s\n' "$([[ $status == 137 ]] && echo "timed out" || echo "ended the program ($status)")" "${name:-case $first}" >>"$file"
            first=$((first + 1))
        fi
    done
    ((first > count)) || printf 'not run\t0\t0\tfrom case %s of %s on: no time left\n' "$first" "$count" >>"$file"
    # What failed once more by itself: an error of the device meets every case after it.
    local index=0 line seconds
    while IFS= read -r line; do
        index=$((index + 1))
        [[ $line == passed* || $line == skipped* || $line == "not run"* ]] && continue
        has_failed=1
        seconds=$(left 30)
        ((seconds > 0)) || continue
        run_case "$program" $index "$seconds"
        status=$?
        {
            echo "## ${line##*$'\t'}"
            echo "${line%%$'\t'*}; by itself: $( ((status == 0)) && echo passed || echo "status $status")"
            grep -v '^\[doctest\]\|^=====' "$work/case.txt" | head -c 3000
            echo
        } >>"$work/failures.txt"
    done <"$file"
    if grep -h -m 1 'SKIPPED: no device' "$work/cases.xml" >>"$work/failures.txt"; then has_device=0; fi
}

test_program=$(find_program "test_device_$vendor") || { [[ $vendor == fake ]] && test_program=$(find_program test_device); }
if [[ -n ${test_program:-} ]]; then
    find_libraries "$test_program"
    run_cases "$test_program" "$work/tests.tsv" $((is_quick ? 120 : 240))
else
    has_failed=1
    echo "the test program is not there: $build_text" >>"$work/failures.txt"
    [[ -f $work/build.txt ]] && tail -20 "$work/build.txt" >>"$work/failures.txt"
fi

# Ranks that are processes: in a program of their own, since no process may fork that has called the vendor. Of the fake vendor, and of
# programs that were built before there were any, the cases above are all.
: >"$work/processes.tsv"
if ((has_device)) && processes_program=$(find_program "test_device_processes_$vendor"); then
    find_libraries "$processes_program"
    run_cases "$processes_program" "$work/processes.tsv" $((is_quick ? 40 : 90))
fi

# --- the benchmarks ---------------------------------------------------------------------------------------------------------

: >"$work/rows.txt"
: >"$work/benches.tsv"
# add_bench NAME SECONDS STATUS FILE: the rows of a benchmark's line.
add_bench() {
    local line
    line=$(grep -m 1 '^{"schema":"shardwise.bench/1".*]}$' "$4")
    if [[ -z $line ]]; then
        has_failed=1
        printf '%s\t%s\t%s\n' "$1" "$2" "$([[ $3 == 124 || $3 == 137 ]] && echo "timed out" || echo "no rows, status $3")" >>"$work/benches.tsv"
        { echo "## $1"; tail -c 1500 "$4"; tail -c 1500 "$4.err" 2>/dev/null; echo; } >>"$work/failures.txt"
        return
    fi
    # A row a line, with the benchmark that it is of.
    sed -e 's/^.*"rows":\[//; s/\]}$//; s/},{"case":/}\n{"case":/g' <<<"$line" | sed -e '/^$/d; s/^{"case":/{"bench":"'"$1"'","case":/' >>"$work/rows.txt"
    grep -q '"error":' <<<"$line" && has_failed=1
    printf '%s\t%s\tran\n' "$1" "$2" >>"$work/benches.tsv"
}

run_benches() {
    local program name seconds start python torch="" arguments=(--json)
    ((is_quick)) && arguments+=(--quick)
    # The copy first: others are measured by it. A name without a vendor's is a program of this one.
    local programs=()
    for program in "$folder"/bench_device_* "$folder"/bin/bench_device_*; do
        [[ -f $program && -x $program ]] || continue
        case ${program##*/} in
            *-cuda | *-hip | *-fake) [[ $program == *-$vendor ]] || continue ;;
            *.*) continue ;;
        esac
        [[ $program == */bench_device_copy* ]] && programs=("$program" ${programs[@]+"${programs[@]}"}) || programs+=("$program")
    done
    # Peers that this machine happens to have.
    for python in "${SHARDWISE_PEER_PYTHON:-}" /opt/torch/.venv/bin/python python3; do
        [[ -n $python && $vendor != fake && -z $torch ]] || continue
        timeout 60 "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && torch=$python
    done
    if ((!is_quick)) && [[ -n $torch && -z ${SHARDWISE_PYTHON:-} ]]; then export SHARDWISE_PYTHON=$torch; fi
    for program in ${programs[@]+"${programs[@]}"}; do
        name=${program##*/bench_}
        name=${name%-"$vendor"}
        seconds=$(left $((is_quick ? 40 : 90)))
        if ((seconds < 1)); then
            has_failed=1
            printf '%s\t0\tnot run: no time left\n' "$name" >>"$work/benches.tsv"
            continue
        fi
        start=$SECONDS
        find_libraries "$program"
        # Its sections begin while there is time, so that what it has measured is not lost with what it has not.
        timeout -k 2 "$seconds" "$program" "${arguments[@]}" --seconds $((seconds * 9 / 10)) >"$work/bench.txt" 2>"$work/bench.txt.err"
        add_bench "$name" $((SECONDS - start)) $? "$work/bench.txt"
    done
    # The shape that most goals are of; with --quick one sequence and a prompt.
    if program=$(find_program "bench_device_generate-$vendor") && [[ $vendor != fake ]]; then
        local words=()
        ((is_quick)) && words=("8B bf16, decode" "8B bf16, prefill")
        seconds=$(left $((is_quick ? 60 : 150)))
        start=$SECONDS
        if ((seconds < 20)); then
            has_failed=1
            printf '%s\t0\tnot run: no time left\n' "device_generate --large" >>"$work/benches.tsv"
        else
            timeout -k 2 "$seconds" "$program" "${arguments[@]}" --large --seconds $((seconds * 2 / 3)) ${words[@]+"${words[@]}"} \
                >"$work/bench.txt" 2>"$work/bench.txt.err"
            add_bench "device_generate --large" $((SECONDS - start)) $? "$work/bench.txt"
        fi
    fi
    local peer="$source_folder/bench/device_peer.py"
    [[ -f $peer ]] || peer="$folder/device_peer.py"
    if [[ -n $torch && -f $peer ]]; then
        start=$SECONDS
        seconds=$(left 60)
        if ((seconds > 1)); then
            timeout -k 2 "$seconds" "$torch" "$peer" "${arguments[@]}" >"$work/bench.txt" 2>"$work/bench.txt.err"
            add_bench device_peer $((SECONDS - start)) $? "$work/bench.txt"
        fi
    fi
}
((has_device)) && run_benches

# --- compute-sanitizer ------------------------------------------------------------------------------------------------------

: >"$work/sanitizer.tsv"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
if [[ $vendor == cuda && -n ${test_program:-} && $has_device == 1 && -n $sanitizer ]]; then
    # Cases that took little time without it, in their order, until a tool's time is over.
    for tool in memcheck racecheck synccheck; do
        start=$SECONDS most=$(left $((is_quick ? 20 : 45))) done=0 bad=0
        index=0
        while IFS=$'\t' read -r status seconds _ name; do
            index=$((index + 1))
            [[ $status == passed ]] || continue
            awk -v s="$seconds" 'BEGIN { exit !(s < 0.5) }' || continue
            rest=$((most - (SECONDS - start)))
            ((rest > 1)) || break
            timeout -k 2 "$rest" "$sanitizer" --tool $tool --error-exitcode 99 "$test_program" --first=$index --last=$index >"$work/sanitizer.txt" 2>&1
            code=$?
            ((code == 124 || code == 137)) && break
            # A case that calls nothing of the vendor is none for a tool.
            grep -q "terminated before first instrumented API call" "$work/sanitizer.txt" && continue
            done=$((done + 1))
            if ((code != 0)); then
                bad=$((bad + 1)) has_failed=1
                { echo "## $tool: $name"; head -c 2000 "$work/sanitizer.txt"; echo; } >>"$work/failures.txt"
                # A tool that does not work here fails the same way every time.
                ((done == bad && bad == 3)) && break
            fi
        done <"$work/tests.tsv"
        printf '%s\t%s\t%s\n' $tool $done $bad >>"$work/sanitizer.tsv"
    done
fi

# --- what was found ---------------------------------------------------------------------------------------------------------

# publish FILE END: puts FILE at STEM.END. What is no regular file (a device, a pipe, a link) is written into, never renamed over.
publish() {
    local to=$stem.$2
    if [[ ! -e $to && ! -L $to ]] || [[ -f $to && ! -L $to ]]; then
        local beside
        beside=$(mktemp "$(dirname "$to")/.device_check.XXXXXX") || fail "cannot write beside $to"
        cat "$1" >"$beside" && chmod 644 "$beside" && mv -f "$beside" "$to" || fail "cannot write $to"
    else
        cat "$1" >"$to" || fail "cannot write $to"
    fi
}
mkdir -p "$(dirname "$stem")"

count() { grep -c "$1" "$2" || true; }
cat "$work/processes.tsv" >>"$work/tests.tsv"
cases=$(count . "$work/tests.tsv") passed=$(count '^passed' "$work/tests.tsv")
goals=$(count '"goal":[0-9.]*,"met":\(true\|false\)' "$work/rows.txt") met=$(count '"met":true' "$work/rows.txt")
kernel_state=$( ((is_quick)) && echo quick || echo full)

{
    printf '{"schema":"shardwise.bench/1","name":"device_check","mode":"%s",' "$kernel_state"
    printf '"machine":{"vendor":"%s","device":"%s","driver":"%s","clocks":"%s","cpu":"%s","date":"%s","commit":"%s"},' "$vendor" \
        "$(json_text <<<"$device")" "$(json_text <<<"$driver")" "$(json_text <<<"$clocks")" "$(json_text <<<"$cpu")" "$date" "$commit"
    printf '"tests":['
    awk -F '\t' '{ gsub(/\\/, "\\\\", $4); gsub(/"/, "\\\"", $4)
                   printf "%s{\"case\":\"%s\",\"status\":\"%s\",\"seconds\":%s,\"assertions\":%s}", (NR > 1 ? "," : ""), $4, $1, $2 + 0, $3 + 0 }' "$work/tests.tsv"
    printf '],"sanitizers":['
    awk -F '\t' '{ printf "%s{\"tool\":\"%s\",\"cases\":%s,\"failed\":%s}", (NR > 1 ? "," : ""), $1, $2, $3 }' "$work/sanitizer.tsv"
    printf '],"benches":['
    awk -F '\t' '{ printf "%s{\"name\":\"%s\",\"seconds\":%s,\"status\":\"%s\"}", (NR > 1 ? "," : ""), $1, $2, $3 }' "$work/benches.tsv"
    printf '],"rows":[%s]}\n' "$(paste -sd, "$work/rows.txt")"
} >"$work/out.json"

{
    echo "# Device check, $date"
    echo
    echo "$device, driver $driver; clocks: $clocks. Host: $cpu, $(nproc) threads. shardwise $commit, programs $build_text, $kernel_state run of $SECONDS s."
    echo
    echo "## Cases: $passed of $cases passed"
    echo
    echo "| case | status | s | assertions |"
    echo "|---|---|---|---|"
    awk -F '\t' '{ gsub(/\|/, "\\|", $4); printf "| %s | %s | %.3g | %s |\n", $4, $1, $2, $3 }' "$work/tests.tsv"
    echo
    if [[ -s $work/sanitizer.tsv ]]; then
        echo "compute-sanitizer: $(awk -F '\t' '{ printf "%s%s %s cases, %s failed", (NR > 1 ? "; " : ""), $1, $2, $3 }' "$work/sanitizer.tsv")."
    else
        echo "compute-sanitizer: not run$([[ $vendor == cuda && -z $sanitizer ]] && echo ", it is not installed")."
    fi
    echo
    echo "## Benchmarks: $met of $goals goals met"
    echo
    awk -F '\t' '{ printf "%s%s: %s, %s s", (NR > 1 ? "; " : ""), $1, $3, $2 } END { if (NR) print "." }' "$work/benches.tsv"
    echo
    echo "| bench | case | ours | unit | peer | theirs | ratio | goal | met |"
    echo "|---|---|---|---|---|---|---|---|---|"
    awk '
        function part(key) {
            if (match($0, "\"" key "\":\"([^\"\\\\]|\\\\.)*\"")) return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
            if (match($0, "\"" key "\":[^,}]*")) return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
            return ""
        }
        function shown(value) { gsub(/\|/, "\\|", value); return value == "null" ? "-" : value }
        {
            error = part("error")
            if (error != "") printf "| %s | %s | failed: %s | | | | | | no |\n", part("bench"), shown(part("case")), shown(error)
            else printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", part("bench"), shown(part("case")), shown(part("ours")), part("unit"),
                shown(part("peer")), shown(part("theirs")), shown(part("ratio")), part("goal") == "0" ? "-" : part("goal"),
                part("met") == "true" ? "yes" : part("met") == "false" ? "**no**" : "-"
        }' "$work/rows.txt"
    echo
    echo "## What bounds the kernels by their code"
    echo
    if [[ -s $work/table.md ]]; then
        echo "To be read beside what was measured above: scripts/check_device_code.py --table says what the columns are."
        echo
        cat "$work/table.md"
    else
        echo "Not made: $(grep -s -m 1 'skipped: ' "$work/table.txt" || echo "no compiler for the device found, or no time")."
    fi
    if [[ -s $work/failures.txt ]]; then
        echo
        echo "## What failed"
        echo
        sed 's/^/    /' "$work/failures.txt"
    fi
} >"$work/out.md"

publish "$work/out.json" json
publish "$work/out.md" md
echo "device_check: $passed of $cases cases passed, $met of $goals goals met, $SECONDS s: $stem.json, $stem.md"
((has_device)) || { echo "device_check: no device: $(grep -h -m 1 SKIPPED: "$work/failures.txt")" >&2; exit 77; }
exit $has_failed
