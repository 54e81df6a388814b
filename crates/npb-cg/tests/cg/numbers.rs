//! Operation counts, pseudorandom numbers, and the rule that chooses the storage by size.

use npb_cg::Class;
use npb_cg::random::Random;
use npb_cg::storage::is_large;

/// The official operation counts, in millions (NPB's own printout of a run).
#[test]
fn operation_counts_match_official_ones() {
    for (class, millions) in
        [(Class::S, 66.654), (Class::W, 420.63), (Class::A, 1496.46), (Class::B, 54708.7), (Class::C, 143347.0)]
    {
        let got = class.problem().operations() * 1e-6;
        assert!((got - millions).abs() < 1e-5 * millions, "{class:?}: {got}");
    }
}

/// Compares the generator with the recurrence, evaluated in arithmetic that cannot overflow.
#[test]
fn random_sequence_matches_specification() {
    let mut random = Random::default();
    let mut state = 314_159_265_u128;
    for _ in 0..10_000 {
        state = state * 5_u128.pow(13) % (1 << 46);
        assert_eq!(random.draw(), state as f64 / 2_f64.powi(46));
    }
}

/// Classes W, A, B and C.
#[test]
fn one_triangle_is_chosen_for_large_matrices_in_few_blocks() {
    let with_blocks = |blocks| {
        [(7_000, 508_402), (14_000, 1_853_104), (75_000, 13_708_072), (150_000, 36_121_058)]
            .map(|(rows, entries)| is_large(rows, entries, blocks))
    };
    assert_eq!(with_blocks(1), [false, false, true, true]);
    assert_eq!(with_blocks(16), [false, false, true, true]);
    assert_eq!(with_blocks(32), [false, false, false, true]);
    assert_eq!(with_blocks(64), [false; 4]);
}
