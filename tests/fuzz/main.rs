//! Damaged input for everything that reads text or files, and random boxes for the algebra of boxes.
//!
//! `targets/` has one function per reader. Each takes any bytes and panics only if a promise is broken. This program
//! runs the targets on damaged copies of valid inputs for a few seconds. `scripts/fuzz` runs the same targets under
//! libFuzzer, which searches for inputs that reach new code, for as long as one likes; and also `RegionMap` and whole
//! programs, which other tests draw by themselves.
//!
//! `THALWEG_CASES` sets the number of inputs per target (1000), `THALWEG_SEED` the seed of the first one.

#[path = "../common/random.rs"]
mod random;
mod targets;

use random::{Random, variable};
use std::panic::{AssertUnwindSafe, catch_unwind};
use targets::Target;

/// Returns a copy of `valid` with a few changes: bytes replaced, removed, repeated, moved, or taken from `other`.
fn damaged(valid: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..1 + random.below(4) {
        let part = random.within(&(0..bytes.len()));
        match random.below(8) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 => drop(bytes.drain(part)),
            1 => bytes.extend_from_within(part),
            2 => bytes[part].reverse(),
            3 => bytes.truncate(part.end),
            4 => bytes.extend_from_slice(&other[random.within(&(0..other.len()))]),
            5 => {
                let part = part.start..part.end.min(part.start + 3);
                drop(bytes.splice(part, random.of(&["0", "-1", "18446744073709551615", "é", ",", ":"]).bytes()));
            }
            _ => {
                let at = random.below(bytes.len());
                bytes[at] = if random.one_in(2) { random.next() as u8 } else { bytes[at] ^ (1 << random.below(8)) };
            }
        }
    }
    bytes
}

fn try_damaged_inputs(target: &Target) {
    let (cases, first) = (variable("THALWEG_CASES", 1000), variable("THALWEG_SEED", 1));
    let valid = (target.valid)();
    valid.iter().for_each(|bytes| (target.run)(bytes));
    for seed in first..first + cases {
        let mut random = Random(seed);
        let (one, other) = (random.of(&valid), random.of(&valid));
        let bytes = damaged(&one, &other, &mut random);
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes))).is_err() {
            panic!("{}, THALWEG_SEED={seed}: {:?}", target.name, String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn damaged_texts_are_read_or_refused() {
    targets::ALL.iter().filter(|target| target.is_text).for_each(try_damaged_inputs);
}

#[test]
fn damaged_files_are_read_or_refused() {
    targets::ALL.iter().filter(|target| !target.is_text).for_each(try_damaged_inputs);
}
