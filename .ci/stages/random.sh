# Random programs against their oracles, optimized: more of them than in the tests, which run them as well.
step "random programs, optimized"
THALWEG_CASES=${THALWEG_CASES:-2000} cargo test --release --test random_programs
