# Many machines: the crate over its network for tests and over Debian's Open MPI.
step "clusters, over a network for tests and over MPI"
# Together with the library, which the tests have built with the same features.
if has mpicc; then
    cargo build --quiet -p thalweg -p thalweg-mpi --all-features --examples
    THALWEG_REQUIRE="$THALWEG_REQUIRE,mpirun" cargo test --quiet -p thalweg -p thalweg-mpi --all-features \
        --test oracle --test recordings --test rank_faults --test rank_traces --test rank_devices --test mpirun \
        --bench ranks
else
    cargo test --quiet -p thalweg-mpi --no-default-features
fi
