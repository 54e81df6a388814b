//! Processes that call `fork`: a child is refused the use of its parent's runtimes, ends promptly, and may build new
//! ones.
//!
//! Each case runs in a separate process of this same program. There is no test harness, because it would hide how a
//! child treats the locks of other threads and how it returns from `main`. A child that hangs is killed after a while
//! and counts as failed.

#![cfg(unix)]
#![allow(unsafe_code)] // for `fork` itself

mod cases;

use libtest_mimic::{Arguments, Failed, Trial};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt;

/// Environment variable that names the case that this process runs.
const CASE: &str = "THALWEG_FORK_CASE";
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE) {
        let (_, run) = cases::ALL.iter().find(|(case, _)| *case == name).expect("the case is known");
        run();
        return ExitCode::SUCCESS; // in most cases, the children end here as well
    }
    let trials = cases::ALL.iter().map(|(name, _)| Trial::test(*name, || passes(name)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Runs a case, with all processes that it forks, as a process group.
fn passes(name: &str) -> Result<(), Failed> {
    let mut process = Command::new(std::env::current_exe()?);
    let mut process = process.env(CASE, name).process_group(0).stderr(Stdio::inherit()).spawn()?;
    match process.wait_timeout(PATIENCE)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{name}: {status}").into()),
        None => {
            // SAFETY: a system call without memory arguments. The group was created above, and its leader has not been
            // waited for, so its ID cannot have been reused.
            unsafe { libc::kill(-(process.id() as libc::pid_t), libc::SIGKILL) };
            process.wait()?;
            Err(format!("{name}: hangs").into())
        }
    }
}

/// The process that returns from a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Child,
    Parent(libc::pid_t),
}

fn fork() -> Side {
    // SAFETY: a system call. The child uses only the allocator and this library, and the library's behaviour after a
    // fork is what this test checks.
    match unsafe { libc::fork() } {
        0 => Side::Child,
        pid => {
            assert!(pid > 0, "the system can create a process");
            Side::Parent(pid)
        }
    }
}

impl Side {
    fn is_child(self) -> bool {
        self == Self::Child
    }

    /// In the parent, waits for the child and returns its status.
    fn outcome(self) -> Option<std::process::ExitStatus> {
        let Self::Parent(pid) = self else { return None };
        let mut status = 0;
        // SAFETY: a system call that writes to `status`, which is valid. The child has not been waited for, so `pid` is
        // still its ID.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid);
        Some(std::process::ExitStatus::from_raw(status))
    }

    /// In the parent, waits for the child and asserts that it has succeeded.
    fn expect_success(self) {
        let outcome = self.outcome();
        assert!(outcome.is_none_or(|status| status.success()), "{outcome:?}");
    }

    /// In the parent, waits for the child and asserts that it was aborted.
    fn expect_abort(self) {
        let outcome = self.outcome().expect("the child has returned already");
        assert_eq!(outcome.signal(), Some(libc::SIGABRT), "{outcome:?}");
    }
}

/// Ends this process at once.
fn leave(code: i32) -> ! {
    // SAFETY: a system call that does not return.
    unsafe { libc::_exit(code) }
}

/// Calls `child` in a child process, which then exits successfully unless `child` panics, and waits for this process.
fn in_child(child: impl FnOnce()) {
    match fork() {
        Side::Child => {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            leave(i32::from(ended.is_err()));
        }
        parent => parent.expect_success(),
    }
}
