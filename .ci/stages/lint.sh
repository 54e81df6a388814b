# Checks by compilers and readers of manifests: lints, features, the minimum version of Rust, documentation,
# packages.
step "clippy"
cargo clippy --all-targets --quiet -- -D warnings
# Cargo builds the Python package and that for clusters only by name.
cargo clippy --package thalweg-python --all-targets --quiet -- -D warnings
if has mpicc; then
    cargo clippy --package thalweg-mpi --all-targets --quiet -- -D warnings
    cargo clippy --package thalweg-mpi-npb-mz --example mpi_npb_mz --test npb_on_ranks --quiet -- -D warnings
fi
# `--all-targets` omits the tests that are not part of `cargo test`.
cargo clippy --test mz --test lanes --test cg_numerics --quiet -- -D warnings
step "features alone, and none"
# Those that guard few lines are checked together.
for features in "" cuda hip opencl sim profile "dynamic graph macros progress signals spans"; do
    cargo clippy --package thalweg --lib --quiet --features "$features" -- -D warnings
done
step "tests without features"
cargo test --quiet --package thalweg --lib --test failures
step "programs that do not compile"
cargo test --quiet --package thalweg --all-features --test compile_fail -- --ignored
step "least version of Rust"
least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if has rustup && from_network rustup toolchain install "$least" --profile minimal --no-self-update >/dev/null 2>&1; then
    cargo "+$least" check --quiet --package thalweg --all-features --target-dir target/least
else
    echo "Rust $least cannot be installed here: skipped"
fi
step "dependencies: licences, sources, advisories"
if cargo deny --version >/dev/null 2>&1; then
    cargo deny check licenses bans sources
    # Advisories need their database; without a network, everything else has been checked.
    cargo deny check advisories || { cargo deny fetch >/dev/null 2>&1 && exit 1; echo "no network: advisories skipped"; }
else
    echo "cargo-deny is not installed: skipped"
fi
step "documentation, and the list of public items"
RUSTDOCFLAGS="-D warnings" cargo doc --package npb --package npb-cg --no-deps --quiet
# This test documents the library, and compares its public items with the list.
RUSTDOCFLAGS="-D warnings" cargo test --quiet -p thalweg --all-features --test public_api -- --ignored
step "the guide as a book"
if has mdbook; then
    mdbook build docs/guide
else
    echo "mdbook is not installed: skipped (the guide's code is tested with the tests)"
fi
step "package"
# Together, because the crates that are published with the library are in no registry yet.
cargo package --package thalweg --package thalweg-macros --package thalweg-loops --package thalweg-trace --allow-dirty --no-verify --quiet
