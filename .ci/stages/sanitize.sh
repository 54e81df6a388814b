# Checks by tools that watch a running program.
step "memory errors, by valgrind"
if has valgrind; then
    # Tests written for valgrind, if they exist: valgrind runs one thread at a time, so tests that try every mix of
    # units under every scheduler take too long, and accelerator libraries have errors of their own.
    checked=${THALWEG_VALGRIND:-memory_safety}
    for name in $checked; do
        [ -f "tests/$name.rs" ] || continue
        binary=$(cargo test --no-run --message-format=json --quiet -p thalweg --all-features --test "$name" |
            sed -n 's/.*"kind":\["test"\].*"executable":"\([^"]*\)".*/\1/p')
        # Without OpenCL, whose implementations open further libraries.
        THALWEG_REQUIRE="" OCL_ICD_VENDORS=/nonexistent timeout 900 valgrind --quiet --error-exitcode=9 --leak-check=full \
            --errors-for-leak-kinds=definite --show-leak-kinds=definite --fair-sched=yes \
            --suppressions=.ci/valgrind.supp "$binary" --quiet --test-threads=1
    done
else
    echo "valgrind is not installed: skipped"
fi

step "data races in kernels, by Oclgrind"
# In release, and for all members at once: the programs that it runs are already built that way.
cargo test --release --quiet --test oclgrind -- --ignored free_of_races

step "undefined behaviour, by Miri"
if cargo +nightly miri --version >/dev/null 2>&1; then
    for model in "" -Zmiri-tree-borrows; do
        MIRIFLAGS="-Zmiri-disable-isolation $model" timeout 900 cargo +nightly miri test --quiet --lib sync:: region::
    done
else
    echo "no nightly toolchain with Miri: skipped"
fi
