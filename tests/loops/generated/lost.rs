//! Nests that are lost because the device's compiler aborts, and their limit.
//!
//! PoCL 3.1's compiler ends the process in rare cases although the kernel is correct. Such a nest says nothing about
//! Thalweg, so another one is drawn instead: the number of nests that match is always the requested one. A compiler
//! that aborts more often fails the test, and so does a nest that fails before the compiler aborts on a simpler form of
//! it.

use super::{DRAWN, MATCHED};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// The assertions of PoCL 3.1's formation of work-item loops that fail for correct kernels: the function and the
/// condition. Both need a block between two barriers. PoCL's earlier passes should insert it, and sometimes do not.
const COMPILER_ABORTS: [[&str; 2]; 2] = [
    // A region has an edge that leads into its middle.
    ["ParallelRegion::Verify(", "Assertion `"],
    // Several blocks lead into a barrier, so no single block is the last one of the region before it.
    ["ParallelRegion::Create(", "Assertion `exit != NULL' failed"],
];
const SIGABRT: i32 = 6;

/// Returns the number of lost nests that are tolerated.
fn limit(nests: u32) -> u32 {
    2 + nests / 50
}

/// The end of a process that draws nests.
#[derive(Debug, PartialEq)]
pub(super) enum Attempt {
    /// All of its nests have matched.
    Complete,
    /// The compiler aborted on a nest after this many had matched.
    Aborted { matched: u32 },
}

impl Attempt {
    /// Reads the output of the process. Panics if it failed in another way.
    pub(super) fn of(output: &Output) -> Self {
        let said = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
        let count = |line: &str| said.lines().filter(|said| *said == line).count() as u32;
        let aborted = |line: &str| COMPILER_ABORTS.iter().any(|parts| parts.iter().all(|part| line.contains(part)));
        if output.status.signal() == Some(SIGABRT) && said.lines().any(aborted) {
            assert_eq!(count(DRAWN), count(MATCHED) + 1, "a nest failed before the compiler aborted: {said}");
            eprintln!("the device's compiler aborted, so another nest is drawn\n{said}");
            return Self::Aborted { matched: count(MATCHED) };
        }
        assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
        Self::Complete
    }
}

/// Calls `attempt` with the number of nests that are left until all have matched. Panics if too many nests are lost.
pub(super) fn match_all(nests: u32, mut attempt: impl FnMut(u32) -> Attempt) {
    let (mut left, mut lost) = (nests, 0);
    while let Attempt::Aborted { matched } = attempt(left) {
        left -= matched;
        lost += 1;
        assert!(lost <= limit(nests), "the device's compiler aborted on {lost} nests, with {left} of {nests} left");
    }
}

/// Returns the output of a process that ended by this signal, or by itself, and said this.
fn ended(signal: i32, said: &str) -> Output {
    let status = std::process::ExitStatus::from_raw(signal);
    Output { status, stdout: said.as_bytes().to_vec(), stderr: Vec::new() }
}

/// PoCL's message, as the failing assertion prints it.
const SAID: &str = "kernels: ./lib/llvmopencl/ParallelRegion.cc:204: static pocl::ParallelRegion* \
    pocl::ParallelRegion::Create(const llvm::SmallPtrSet<llvm::BasicBlock*, 8>&, llvm::BasicBlock*, llvm::BasicBlock*): \
    Assertion `exit != NULL' failed.";

#[test]
fn nests_after_a_lost_one_are_drawn_again() {
    let mut asked = Vec::new();
    match_all(24, |nests| {
        asked.push(nests);
        match asked.len() {
            1 => Attempt::of(&ended(SIGABRT, &format!("{DRAWN}\n{MATCHED}\n{DRAWN}\n{SAID}\n"))),
            2 => Attempt::Aborted { matched: 0 },
            _ => Attempt::of(&ended(0, "test result: ok. 1 passed")),
        }
    });
    assert_eq!(asked, [24, 23, 23]);
}

#[test]
#[should_panic(expected = "aborted on 3 nests, with 24 of 24 left")]
fn compiler_that_always_aborts_fails_the_test() {
    match_all(24, |_| Attempt::of(&ended(SIGABRT, &format!("{DRAWN}\n{SAID}\n"))));
}

#[test]
#[should_panic(expected = "a nest failed before the compiler aborted")]
fn mismatch_is_not_hidden_by_an_abort_while_it_is_simplified() {
    Attempt::of(&ended(SIGABRT, &format!("{DRAWN}\n{DRAWN}\n{SAID}\n")));
}

#[test]
#[should_panic(expected = "signal: 6")]
fn other_aborts_fail_the_test() {
    Attempt::of(&ended(SIGABRT, &format!("{DRAWN}\ncorrupted size vs. prev_size\n")));
}
