# The tests of the library, by README's command, and of the loop compiler.
step "tests"
cargo test -p thalweg --all-features
step "tests of the compiler of loops"
cargo test --quiet -p thalweg-loops -p thalweg-macros
step "tests of the format of traces and of the tools that show them"
cargo test --quiet -p thalweg-trace -p thalweg-trace-tools --features thalweg-trace-tools/sqlite
step "tests of the C, C++ and Fortran interfaces"
cargo test --quiet -p thalweg-c --features cuda,hip,opencl
step "the guide's code"
cargo test --quiet -p thalweg-guide --doc
