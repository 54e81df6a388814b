# Random programs against their oracles, optimized: three times as many as the tests run.
step "random programs, optimized"
cargo test --release --test random_programs --test whole_programs
step "random programs under the access sanitizer"
THALWEG_SANITIZE=1 THALWEG_CASES=100 cargo test --release --test random_programs --test whole_programs
