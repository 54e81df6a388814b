# Many machines: the crate over its network for tests and over Debian's Open MPI. Takes about a minute.
step "clusters, over a network for tests and over MPI"
if has apt-get && [ "$(id -u)" = 0 ] && ! { has mpicc && has mpirun; }; then
    from_network apt-get update -qq && from_network apt-get install -y -qq --no-install-recommends \
        libclang-dev libopenmpi-dev openmpi-bin >/dev/null
fi
if has mpicc; then
    cargo clippy -p thalweg-mpi --all-targets --quiet -- -D warnings
    THALWEG_REQUIRE="$THALWEG_REQUIRE,mpirun" cargo test --quiet -p thalweg-mpi
else
    cargo test --quiet -p thalweg-mpi --no-default-features
fi
