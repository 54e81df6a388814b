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
cargo test --quiet --test standin -- --ignored examples python

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
        graphs::graphs_of_indexed_loops_keep_results graphs::random_replays_match_direct_execution
else
    echo "Intel's OpenCL finds no device here: skipped"
fi

