# Kernels, run by OpenCL on this machine's cores.
step "examples with kernels"
build_examples
for units in 1:OPENCL:1 1:CPU:1,1:OPENCL:1 1:CPU:1,2:OPENCL:1; do
    example jacobi --size 64 --block 32 --units "$units"
    example cg --class S --units "$units"
    example cg --class S --units "$units" --replay
    for benchmark in bt sp lu; do
        for fuse in $([ $benchmark = bt ] && echo step stages) whole; do
            example npb_mz $benchmark --class S --fuse $fuse --units "$units" --scheduler dynamic
        done
        example npb_mz $benchmark --class S --replay --units "$units"
    done
done
# Kernels at sizes that are not multiples of a group's, and the scheduler that divides rows.
for units in 1:OPENCL:1 1:CPU:1,1:OPENCL:1; do
    example matmul --size 150 --blocks 7 --units "$units" --scheduler fpm
    example fft2d --size 128 --blocks 7 --units "$units" --scheduler fpm
done
target/release/thalweg doctor

step "examples on the stand-in drivers of CUDA and HIP"
# Without optimization: otherwise cores take all of the small programs before a device has its first kernel.
cargo test --quiet -p thalweg --all-features --test standin -- --ignored examples python

step "the suite for machines with a GPU, in small sizes"
scripts/gpu-suite build target/gpu-suite "${quickly[@]}"
# Checks that the archive holds results, of at least this many steps.
has_results() {
    tar -xzOf "$1/gpu-suite.tar.gz" ./suite.json | python3 -c '
import json, sys
suite = json.load(sys.stdin)
assert suite["doctor"] and len(suite["steps"]) >= int(sys.argv[1]), suite' "$2"
}
suite() {
    echo "-- $*"
    local out="target/gpu-suite-$1"
    timeout 320 env "${@:2}" target/gpu-suite/gpu-suite run target/gpu-suite --units "$1" --small --seconds 300 \
        --out "$out" >target/gpu-suite.log 2>&1 || { cat target/gpu-suite.log; exit 1; }
    has_results "$out" 24
    ! grep 'not reached' "$out/suite.md" || exit 1
}
# Under the stand-in of CUDA only: the examples above have run on OpenCL. The tests have built the stand-in and some of
# its kernels.
suite CUDA LD_LIBRARY_PATH="$PWD/target/tmp/standin/CUDA" THALWEG_CACHE_DIR="$PWD/target/tmp/standin/cache"
# A run that is killed leaves the results of the steps before.
rm -rf target/gpu-suite-killed
target/gpu-suite/gpu-suite run target/gpu-suite --units OPENCL --small --out target/gpu-suite-killed >/dev/null 2>&1 &
killed=$!
while kill -0 $killed 2>/dev/null && ! grep -q '^| bt S' target/gpu-suite-killed/rows.md 2>/dev/null; do sleep 0.1; done
kill -KILL $killed
wait $killed 2>/dev/null || true
has_results target/gpu-suite-killed 5

step "a second implementation of OpenCL, by Intel, for cores"
intel=target/intel
[ -d "$intel" ] || { python3 -m venv "$intel" && from_network "$intel/bin/pip" install --quiet intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0; }
with_intel() {
    LD_LIBRARY_PATH="$PWD/$intel/lib:$LD_LIBRARY_PATH" OCL_ICD_VENDORS=/nonexistent OCL_ICD_FILENAMES="$PWD/$intel/lib/libintelocl.so" \
        THALWEG_REQUIRE=opencl STANDIN_UNITS=OPENCL STANDIN_DEVICES=1 "$@"
}
if with_intel target/release/thalweg doctor 2>&1 | grep -q "Intel(R) OpenCL"; then
    # There is one device: tests that need two report that they are skipped.
    with_intel cargo test --quiet -p thalweg --all-features --test conformance -- opencl::
    with_intel cargo test --quiet -p thalweg --all-features --test accelerators --test kernels
    # Replays, with command buffers.
    with_intel cargo test --quiet -p thalweg --all-features --test standin -- --ignored --exact \
        graphs::steady_replays_become_graphs graphs::changing_arguments_update_graphs \
        graphs::graphs_may_use_scratch_memory graphs::eviction_between_replays_keeps_results \
        graphs::graphs_of_indexed_loops_keep_results graphs::random_replays::random_replays_match_direct_execution
else
    echo "Intel's OpenCL finds no device here: skipped"
fi

