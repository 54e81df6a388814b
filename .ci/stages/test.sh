# All tests that README's command runs.
step "tests"
cargo test
