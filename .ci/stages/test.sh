# The tests of the library, by README's command, and of the loop compiler.
step "tests"
cargo test -p thalweg --all-features
step "tests of the compiler of loops"
cargo test --quiet -p thalweg-loops -p thalweg-macros
step "tests of the format of traces and of the tools that show them"
cargo test --quiet -p thalweg-trace -p thalweg-trace-tools --features thalweg-trace-tools/sqlite
step "tests of the C, C++ and Fortran interfaces"
cargo test --quiet -p thalweg-c --features cuda,hip,opencl
step "tests of the Python package"
# In the dev profile, in which the C interface has just built the library with the same features.
(cd crates/thalweg-python && VIRTUAL_ENV="${THALWEG_PYTHON%/bin/python}" PATH="${THALWEG_PYTHON%/python}:$PATH" maturin develop --quiet &&
    "$THALWEG_PYTHON" -X dev -m pytest)
step "the code of the guide, and of the documentation of clusters"
# Together, so that the library is compiled once for both.
# shellcheck disable=SC2046 # words of their own
cargo test --quiet -p thalweg-guide $(has mpicc && echo "-p thalweg-mpi --all-features") --doc
