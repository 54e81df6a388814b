# Many machines: the crate over its network for tests and over Debian's Open MPI.
step "clusters, over a network for tests and over MPI"
if has apt-get && [ "$(id -u)" = 0 ] && ! { has mpicc && has mpirun; }; then
    from_network apt-get update -qq && from_network apt-get install -y -qq --no-install-recommends \
        libclang-dev libopenmpi-dev openmpi-bin >/dev/null
fi
# Together with the library, which the tests have built with the same features.
if has mpicc; then
    cargo build --quiet -p thalweg -p thalweg-mpi --all-features --examples
    THALWEG_REQUIRE="$THALWEG_REQUIRE,mpirun" cargo test --quiet -p thalweg -p thalweg-mpi --all-features \
        --test oracle --test recordings --test rank_faults --test rank_traces --test mpirun
    cargo test --quiet -p thalweg-mpi --all-features --doc
else
    cargo test --quiet -p thalweg-mpi --no-default-features
fi
