# Random programs against their oracles, optimized: more programs than the tests run.
step "random programs, optimized"
THALWEG_CASES=${THALWEG_CASES:-1000} cargo test --release --test random_programs
