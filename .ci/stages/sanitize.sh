# What tools find that watch a program run.
step "memory errors, by valgrind"
if has valgrind; then
    # Tests made for it, if they are there: valgrind runs one thread at a time, so tests that try every mix of units under
    # every scheduler take too long, and libraries of accelerators have errors of their own.
    checked=${THALWEG_VALGRIND:-memory_safety}
    for name in $checked; do
        [ -f "tests/$name.rs" ] || continue
        binary=$(cargo test --no-run --message-format=json --quiet -p thalweg --all-features --test "$name" |
            sed -n 's/.*"kind":\["test"\].*"executable":"\([^"]*\)".*/\1/p')
        # Without OpenCL: its implementations open libraries of their own.
        THALWEG_REQUIRE="" OCL_ICD_VENDORS=/nonexistent timeout 900 valgrind --quiet --error-exitcode=9 --leak-check=no \
            --fair-sched=yes --suppressions=.ci/valgrind.supp "$binary" --quiet --test-threads=1
    done
else
    echo "valgrind is not installed: skipped"
fi

step "data races in kernels, by Oclgrind"
# In release, and all members at once: the programs that it runs are there.
cargo test --release --quiet --test oclgrind -- --ignored free_of_races

step "undefined behaviour, by Miri"
if cargo +nightly miri --version >/dev/null 2>&1; then
    for model in "" -Zmiri-tree-borrows; do
        MIRIFLAGS="-Zmiri-disable-isolation $model" timeout 900 cargo +nightly miri test --quiet --lib sync:: region::
    done
else
    echo "no nightly toolchain with Miri: skipped"
fi
