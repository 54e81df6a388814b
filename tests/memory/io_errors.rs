//! Errors of the system on the disk's file: EIO, a full disk, and transfers that stop early or that are refused, past
//! the page cache and through it.
//!
//! This program defines `pread64` and `pwrite64`, which the standard library calls. Both pass calls on to the system,
//! unless the file is in a folder for which a test has planned errors. A filter keeps the runtimes of these tests from
//! io_uring, whose transfers are no such calls.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(unsafe_code)] // stands in for two functions of the C library

use crate::spill::{LENS, failures, for_each_len, spilled};
use libc::{EINVAL, EIO, ENOSPC, c_int, c_long, c_void, off64_t, size_t, ssize_t};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use thalweg::prelude::*;

/// The treatment of the calls for files in a folder.
struct Plan {
    folder: String,
    /// The errors of the next reads and of the next writes; 0 lets a call pass.
    reads: Vec<c_int>,
    writes: Vec<c_int>,
    /// Calls transfer at most this many bytes, rounded down to whole blocks past the page cache.
    most_bytes: usize,
    /// Number of calls past the page cache so far.
    direct: usize,
}

static PLANS: Mutex<Vec<Plan>> = Mutex::new(Vec::new());

/// Returns the error of a call if one is planned, or else how many bytes the call may transfer.
fn planned(fd: c_int, is_write: bool, bytes: usize) -> Result<usize, c_int> {
    let mut plans = PLANS.lock().unwrap();
    if plans.is_empty() {
        return Ok(bytes);
    }
    let Ok(file) = std::fs::read_link(format!("/proc/self/fd/{fd}")) else { return Ok(bytes) };
    let Some(plan) = plans.iter_mut().find(|plan| file.starts_with(&plan.folder)) else { return Ok(bytes) };
    let errors = if is_write { &mut plan.writes } else { &mut plan.reads };
    // SAFETY: the call only queries the flags of an open file.
    let is_direct = unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_DIRECT != 0;
    plan.direct += usize::from(is_direct);
    match if errors.is_empty() { 0 } else { errors.remove(0) } {
        0 if is_direct => Ok(bytes.min(plan.most_bytes / 4096 * 4096)),
        0 => Ok(bytes.min(plan.most_bytes)),
        error => Err(error),
    }
}

fn fail(error: c_int) -> ssize_t {
    // SAFETY: the C library returns the address of this thread's error number.
    unsafe { *libc::__errno_location() = error };
    -1
}

fn system_call(call: c_long, (fd, buffer, bytes, at): (c_int, *mut c_void, size_t, off64_t)) -> ssize_t {
    match planned(fd, call == libc::SYS_pwrite64, bytes) {
        // SAFETY: the caller's promises are those of the system call; fewer bytes are transferred than it allows.
        Ok(bytes) => unsafe { libc::syscall(call, fd, buffer, bytes, at) as ssize_t },
        Err(error) => fail(error),
    }
}

/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, buffer: *mut c_void, bytes: size_t, at: off64_t) -> ssize_t {
    system_call(libc::SYS_pread64, (fd, buffer, bytes, at))
}

/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, buffer: *const c_void, bytes: size_t, at: off64_t) -> ssize_t {
    system_call(libc::SYS_pwrite64, (fd, buffer.cast_mut(), bytes, at))
}

/// Sets what happens from now on to the files in a folder.
fn plan(folder: &Path, reads: &[c_int], writes: &[c_int], most_bytes: usize) {
    let folder = folder.to_str().unwrap().to_owned();
    let mut plans = PLANS.lock().unwrap();
    plans.retain(|plan| plan.folder != folder);
    plans.push(Plan { folder, reads: reads.to_vec(), writes: writes.to_vec(), most_bytes, direct: 0 });
}

/// Returns the number of calls past the page cache since the plan was made.
fn direct_calls(folder: &Path) -> usize {
    PLANS.lock().unwrap().iter().find(|plan| folder.starts_with(&plan.folder)).map_or(0, |plan| plan.direct)
}

/// Refuses io_uring to this thread, and to the threads that it starts, as many containers do.
fn refuse_rings() {
    let load_number = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let is_setup = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_io_uring_setup as u32 };
    let returns = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let refuse = returns(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let mut filter = [load_number, is_setup, refuse, returns(libc::SECCOMP_RET_ALLOW)];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter are valid during the call, which copies them.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(set, "{}", std::io::Error::last_os_error());
}

/// Builds a runtime whose memory holds two tiles, and four tiles with their numbers.
fn spilling(folder: &Path, len: usize) -> (Runtime, Vec<Data<u64>>) {
    refuse_rings();
    spilled(folder, len, 0)
}

#[test]
fn read_error_fails_its_task_and_the_next_read_finds_the_array() {
    for_each_len("read", |folder, len| {
        let (rt, tiles) = spilling(folder, len);
        rt.wait().unwrap();
        plan(folder, &[EIO], &[], usize::MAX);
        for tile in &tiles {
            rt.task("sum", tile.input()).cpu(|_, _| ()).submit().unwrap();
        }
        let failed = failures(rt.wait());
        assert_eq!(failed.len(), 1);
        let said = failed[0].to_string();
        assert!(said.contains("sum") && said.contains("read failed (system error 5"), "{said}");
        for (n, tile) in tiles.iter().enumerate() {
            assert!(rt.read(tile).unwrap() == vec![n as u64; len], "tile {n} after the error");
        }
        rt.wait().unwrap();
        for (n, tile) in tiles.into_iter().enumerate() {
            assert!(rt.take(tile).unwrap() == vec![n as u64; len]);
        }
    });
}

#[test]
fn write_error_fails_the_task_that_needs_the_room_and_loses_nothing() {
    for error in [EIO, ENOSPC] {
        for_each_len("write", move |folder, len| {
            plan(folder, &[], &[error], usize::MAX);
            let (rt, tiles) = spilling(folder, len);
            let failed = failures(rt.wait());
            assert_eq!(failed.len(), 1, "{failed:?}");
            let said = failed[0].to_string();
            assert!(said.contains(&format!("write failed (system error {error}")), "{said}");
            let lost: Vec<_> = (0..4).filter(|n| rt.read(&tiles[*n]).is_err()).collect();
            assert_eq!(lost.len(), 1, "only the output of the failed task is missing");
            for n in (0..4).filter(|n| !lost.contains(n)) {
                assert!(rt.read(&tiles[n]).unwrap() == vec![n as u64; len]);
            }
            rt.task("again", tiles[lost[0]].output()).cpu(|_, x| x.fill(9)).submit().unwrap();
            assert!(rt.read(&tiles[lost[0]]).unwrap() == vec![9; len], "the disk can be used on");
        });
    }
}

/// Reads all tiles several times, which evicts them.
fn all_are_exact((rt, tiles): (Runtime, Vec<Data<u64>>), len: usize) {
    for _ in 0..3 {
        for (n, tile) in tiles.iter().enumerate() {
            assert!(rt.read(tile).unwrap() == vec![n as u64; len]);
        }
    }
    assert!(rt.statistics().evictions > 4, "{}", rt.statistics());
    rt.wait().unwrap();
}

#[test]
fn transfers_that_stop_early_are_continued() {
    for_each_len("short", |folder, len| {
        plan(folder, &[], &[], 5000);
        all_are_exact(spilling(folder, len), len);
    });
}

/// Returns whether tiles of this length are transferred past the page cache in a folder.
fn is_direct(folder: &Path, len: usize) -> bool {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).custom_flags(libc::O_DIRECT);
    len == LENS[1] && options.open(folder.join("probe")).is_ok()
}

#[test]
fn only_large_arrays_pass_by_the_page_cache() {
    for_each_len("direct", |folder, len| {
        plan(folder, &[], &[], usize::MAX);
        all_are_exact(spilling(folder, len), len);
        assert_eq!(direct_calls(folder) > 0, is_direct(folder, len));
    });
}

#[test]
fn page_cache_serves_file_systems_that_refuse_direct_transfers() {
    for_each_len("refused", |folder, len| {
        // The three transfers of the first array are in progress when the refusal is noticed. No further one is tried.
        let is_direct = is_direct(folder, len);
        plan(folder, &[], if is_direct { &[EINVAL] } else { &[] }, usize::MAX);
        all_are_exact(spilling(folder, len), len);
        assert_eq!(direct_calls(folder), if is_direct { 3 } else { 0 });
    });
}
