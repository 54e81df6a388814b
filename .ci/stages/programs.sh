# The examples, verified on cores and in simulation; the evaluation's tables; the benches at small sizes.
step "examples, built"
build_examples
step "tests of the benchmarks' numerics, of the examples, the guide and the command line"
# All members at once, as the examples are built: with the same features, so that nothing is compiled again.
cargo test --release --quiet --test mz --test lanes --test cg_numerics --test guide --test originals --test programs \
    --test numpy --test doctor --test kernel --test trace --test sim --bin thalweg --example jacobi --example 09_own_scheduler --example quicksort \
    --example schedulers --example matmul --example fft2d --example eviction
step "examples, verified"
example hello
example ingest
example ingest --serial
for units in 2:CPU:1 1:CPU:2 1:CPU:1,2:EMU:1; do
    for scheduler in stealing dynamic; do
        example jacobi --size 32 --block 16 --units "$units" --scheduler "$scheduler"
        example sparse --size 32 --block 200 --units "$units" --scheduler "$scheduler"
        example cg --class S --units "$units" --scheduler "$scheduler"
        example cg --class S --units "$units" --scheduler "$scheduler" --replay
    done
done
(
    export THALWEG_SANITIZE=1 # finds nothing in programs that keep to their declarations
    for name in hello ingest kmeans quicksort smith_waterman sparse strassen sweeps cholesky jacobi cg; do
        example "$name"
    done
    example npb_mz bt --class S --units 1:CPU:1,2:EMU:1
)
example cg --class A
for storage in rows sliced; do
    example cg --class W --storage $storage
done
schedulers="stealing dynamic eft priority static static-pcf:pcf=2 pcf-static:pcf=2 pcf-guided:pcf=2
    guided-sizes guided-runtime clustered-guided adjacency certified bottom-level auto"
for benchmark in bt sp lu; do
    for units in 1:CPU:1 2:CPU:1 1:CPU:2 1:CPU:1,2:EMU:1; do
        # Differences between schedulers depend neither on the size of zones nor on the benchmark: BT's class S runs under
        # all of them, class W under one kind for each mix of units.
        for scheduler in $([ $benchmark = bt ] && echo "$schedulers"); do
            example npb_mz $benchmark --class S --units $units --scheduler "$scheduler"
        done
        case $units in 1:CPU:1) scheduler=stealing ;; 1:CPU:2) scheduler=dynamic ;; *) scheduler=clustered-guided ;; esac
        example npb_mz $benchmark --class W --units $units --scheduler "$scheduler"
        example npb_mz $benchmark --fuse step --units $units
        example npb_mz $benchmark --fuse stages --units $units
        example npb_mz $benchmark --replay --units $units
        example npb_mz $benchmark --fuse planes --units $units
    done
    example npb_mz $benchmark --class A
    # The code for vectors narrower than this processor's, down to none.
    for lanes in 4 1; do
        example npb_mz $benchmark --class S --lanes $lanes
        example npb_mz $benchmark --class W --lanes $lanes
    done
done
target/release/thalweg topo --units 1:CPU:1,1:EMU:1

if has mpicc && has mpirun; then
    step "the multi-zone benchmarks on ranks"
    # Selected as for `build_examples`, so that nothing is compiled again.
    cargo test --release --quiet --workspace --exclude thalweg-python --test npb_on_ranks
    ranks() {
        local output
        output=$(timeout 100 mpirun --allow-run-as-root --oversubscribe -np "$1" target/release/examples/mpi_npb_mz "${@:2}")
        [ "$(echo "$output" | tail -n 1)" = VERIFIED ] || { echo "$output"; exit 1; }
    }
    for benchmark in bt sp lu; do
        for count in 1 2 3 4; do ranks $count $benchmark; done
        ranks 4 $benchmark --class W
    done
fi

step "traces of the examples"
for mistake in small-tasks wide-region ping-pong; do
    trace=target/sweeps-$mistake.thw
    example sweeps --units 1:CPU:1,1:EMU:1 --mistake $mistake --trace "$trace"
    target/release/thalweg trace "$trace" --check "failed=0" --html "$trace.html" --perfetto "$trace.pftrace" --paraver "$trace"
done
target/release/thalweg trace target/sweeps-ping-pong.thw --check "copies>100"
THALWEG_TRACE=target/jacobi.thw THALWEG_TRACE_ACCESSES=1 example jacobi --size 32 --block 16 --units 2:CPU:1
target/release/thalweg sim target/jacobi.thw --scheduler stealing,eft
[ "$(benches/simulation/validate.sh 1 cholesky | grep -c '^| cholesky')" -ge 7 ]

step "machines that are simulated"
for machine in machines/*.toml; do
    programs=(hello jacobi "matmul --size 4096" "cg --class S")
    # The benchmarks' tasks have times of their own only in these files.
    case $machine in *epyc* | *dgx* | *laptop*) programs+=("npb_mz bt --class A" "npb_mz sp --class E --niter 2") ;; esac
    for program in "${programs[@]}"; do
        # shellcheck disable=SC2086 # the program's own arguments
        ends_with "NOT COMPARED" $program --simulate "$machine"
    done
done

timeout 300 target/release/examples/schedulers --benchmark lu --check docs/evaluation/evaluation.csv | grep '^SAME'
timeout 300 target/release/examples/schedulers --benchmark lu --seeds 30 --check docs/evaluation/seeds.csv | grep '^SAME'
timeout 300 target/release/examples/schedulers --suite factor --check docs/evaluation/suite.csv | grep '^SAME'
timeout 300 target/release/examples/schedulers --suite Cholesky --check docs/evaluation/suite.csv | grep '^SAME'
for case in "LU 12, a GPU slows down" "zones, a GPU speeds up" "Cholesky 20"; do
    timeout 300 target/release/examples/schedulers --moving "$case" --check docs/evaluation/moving.csv | grep '^SAME'
done
timeout 300 target/release/examples/schedulers --class S --real --steps 16 --out target/evaluation | grep '^VERIFIED'

step "benches, with the contenders that are installed"
# Small sizes: check that the benches build, agree with each other on the problems, and run. A contender in C must
# compile if its compiler is installed.
contended=$(cargo test --release --quiet --bench overhead --bench metg --bench programs --bench cliffs --bench roofline -- 2>&1) || { echo "$contended"; exit 1; }
for compiler in gcc:libgomp clang:libomp; do
    if command -v "${compiler%:*}" >/dev/null && grep -q "^skipped: ${compiler#*:}" <<<"$contended"; then
        echo "$contended" | grep '^skipped'
        exit 1
    fi
done
grep '^skipped' <<<"$contended" || true
