# Many machines: the crate over its network for tests, over Debian's Open MPI and over its MPICH.
step "clusters, over a network for tests and over MPI"
# Together with the library, which the tests have built with the same features.
if has mpicc; then
    cargo build --quiet -p thalweg -p thalweg-mpi --all-features --examples
    THALWEG_REQUIRE="$THALWEG_REQUIRE,mpirun" cargo test --quiet -p thalweg -p thalweg-mpi --all-features \
        --test oracle --test recordings --test rank_faults --test rank_traces --test rank_devices --test mpirun \
        --bench ranks
    if has mpicc.mpich && has mpirun.mpich; then
        step "clusters, over MPICH"
        mpich=target/mpich
        mkdir -p "$mpich"
        for command in mpicc mpirun; do
            printf '#!/bin/sh\nexec %s.mpich "$@"\n' "$command" >"$mpich/$command"
            chmod +x "$mpich/$command"
        done
        # The declarations of an MPI are generated once for a target folder. Cleaning them costs less than another folder.
        cargo clean --quiet -p mpi-sys
        (
            export PATH="$PWD/$mpich:$PATH" THALWEG_REQUIRE="$THALWEG_REQUIRE,mpirun"
            cargo build --quiet -p thalweg -p thalweg-mpi --all-features --examples
            cargo test --quiet -p thalweg -p thalweg-mpi --all-features --test mpirun
        )
        cargo clean --quiet -p mpi-sys
    fi
else
    cargo test --quiet -p thalweg-mpi --no-default-features
fi
