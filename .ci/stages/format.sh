step "format"
cargo fmt --check
