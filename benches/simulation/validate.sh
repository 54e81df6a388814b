#!/usr/bin/env bash
# Simulated makespans over measured ones, on this machine: records programs on several units in alternating rounds, and
# simulates them from the trace of the shortest run. `docs/validation.md` explains the table. From the root:
#
#   cargo build --release --workspace --exclude thalweg-python --bins --examples
#   benches/simulation/validate.sh [ROUNDS] [PROGRAM...]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-15}
shift $(($# > 0))
built=${CARGO_TARGET_DIR:-target}/release
# TRACES names a folder in which traces stay. Runs whose trace it has are not repeated.
traces=${TRACES:-$(mktemp -d)}
mkdir -p "$traces"
[ -n "${TRACES:-}" ] || trap 'rm -rf "$traces"' EXIT

declare -A arguments=(
    [cholesky]="cholesky --size 3072 --tile 256"
    [jacobi]="jacobi --size 2048 --block 512 --max-iterations 160 --tolerance 1e-30"
    [cg]="cg --class B --storage rows --until 1e30"
    [bt]="npb_mz bt --class A --niter 32 --fuse step"
    [sp]="npb_mz sp --class A --niter 64 --fuse step"
    [lu]="npb_mz lu --class A --niter 48 --fuse step"
)
[ $# -gt 0 ] || set -- cholesky jacobi cg bt sp lu
runs=(1:CPU:1/stealing 2:CPU:1/stealing 2:CPU:1/eft 1:CPU:1,1:EMU:1/stealing 1:CPU:1,1:EMU:1/eft 1:OPENCL:1/stealing)
# The recorded run, and those that it predicts.
predictions=(
    "1:CPU:1/stealing 1:CPU:1/stealing 2:CPU:1/stealing"
    "2:CPU:1/stealing 1:CPU:1/stealing 2:CPU:1/stealing 2:CPU:1/eft"
    "2:CPU:1/eft 2:CPU:1/eft"
    "1:CPU:1,1:EMU:1/stealing 1:CPU:1,1:EMU:1/stealing 1:CPU:1,1:EMU:1/eft"
    "1:OPENCL:1/stealing 1:OPENCL:1/stealing"
)

# Prints the files of a program's runs.
files() { echo "$traces/$1@${2//\//@}@"*.thw; }

# Runs a program. A program without a body for a unit is left out.
record() {
    local program=$1 run=$2 round=$3 file="$traces/$1@${2//\//@}@$3.thw"
    [ ! -e "$file" ] || return 0
    # shellcheck disable=SC2086 # the program's own arguments
    THALWEG_TRACE=$file THALWEG_TRACE_ACCESSES=1 "$built/examples/"${arguments[$program]} \
        --units "${run%/*}" --scheduler "${run#*/}" --no-progress >"$traces/output" 2>&1 ||
        # With fewer steps than the class has, results are not those of the class.
        grep -q "VERIFIED" "$traces/output" || rm -f "$file"
}

# Prints the trace with the shortest makespan.
shortest() {
    for file in "$@"; do
        echo "$("$built/thalweg" sim "$file" | sed -n 's/^recorded.*makespan //p' |
            awk '{ print $1 * ($2 == "s" ? 1e9 : $2 == "ms" ? 1e6 : 1e3) }') $file"
    done | sort -g | head -n 1 | cut -d ' ' -f 2
}

echo "| program | recorded on | simulated on | simulated | shortest run | ratio | work | ratio × work |" \
    "ratio to the median run | quartiles |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for program in "$@"; do
    for round in $(seq "$rounds"); do
        for run in "${runs[@]}"; do record "$program" "$run" "$round"; done
    done
    for prediction in "${predictions[@]}"; do
        read -r from to <<<"$prediction"
        # shellcheck disable=SC2046 # names without blanks
        [ -e "$(files "$program" "$from" | cut -d ' ' -f 1)" ] || continue
        best=$(shortest $(files "$program" "$from"))
        compared=()
        for run in $to; do for file in $(files "$program" "$run"); do compared+=("$file"); done; done
        line='^compare: (.*), simulated (.*), shortest of [0-9]+ runs (.*), ratio (.*), work (.*)'
        line+='; median .*, ratio (.*), quartiles (.*)'
        row="| $program | ${from/\// by } | \1 | \2 | \3 | \4 | \5 | \6 | \7 |"
        "$built/thalweg" sim "$best" --compare "${compared[@]}" | sed -nE "s#$line#$row#p" |
            awk -F '|' -v OFS='|' '{ $8 = sprintf("%s| %.3f ", $8, $7 * $8); print }'
    done
done
