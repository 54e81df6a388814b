//! Errors of the system on the disk's file: EIO, a full disk, and transfers that stop early.
//!
//! This program defines `pread64` and `pwrite64`, which the standard library calls. Both pass calls on to the system,
//! unless the file is in a folder for which a test has planned errors.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(unsafe_code)] // stands in for two functions of the C library

use crate::common::{builder, watched};
use crate::spill::failures;
use libc::{EIO, ENOSPC, c_int, c_long, c_void, off64_t, size_t, ssize_t};
use std::path::Path;
use std::sync::Mutex;
use thalweg::prelude::*;

/// Number of elements of a tile, which takes 16 KiB.
const LEN: usize = 2048;
const TILE_BYTES: u64 = 8 * LEN as u64;

/// The treatment of the calls for files in a folder.
struct Plan {
    folder: String,
    /// The errors of the next reads and of the next writes; 0 lets a call pass.
    reads: Vec<c_int>,
    writes: Vec<c_int>,
    /// Calls transfer at most this many bytes.
    most_bytes: usize,
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
    match if errors.is_empty() { 0 } else { errors.remove(0) } {
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
    plans.push(Plan { folder, reads: reads.to_vec(), writes: writes.to_vec(), most_bytes });
}

/// Builds a runtime whose memory holds two tiles, and four tiles with their numbers.
fn spilling(folder: &Path) -> (Runtime, Vec<Data<u64>>) {
    let rt = builder("1:CPU:1", false).host_memory(2 * TILE_BYTES).spill_to(folder).build().unwrap();
    let tiles: Vec<Data<u64>> = (0..4).map(|_| rt.zeros(LEN)).collect();
    for (n, tile) in tiles.iter().enumerate() {
        rt.task("fill", tile.output()).cpu(move |_, x| x.fill(n as u64)).submit().unwrap();
    }
    (rt, tiles)
}

#[test]
fn read_error_fails_its_task_and_the_next_read_finds_the_array() {
    watched("read", || {
        let folder = tempfile::tempdir().unwrap();
        let (rt, tiles) = spilling(folder.path());
        rt.wait().unwrap();
        plan(folder.path(), &[EIO], &[], usize::MAX);
        for tile in &tiles {
            rt.task("sum", tile.input()).cpu(|_, _| ()).submit().unwrap();
        }
        let failed = failures(rt.wait());
        assert_eq!(failed.len(), 1);
        let said = failed[0].to_string();
        assert!(said.contains("sum") && said.contains("read failed (system error 5"), "{said}");
        for (n, tile) in tiles.iter().enumerate() {
            assert!(rt.read(tile).unwrap() == [n as u64; LEN], "tile {n} after the error");
        }
        rt.wait().unwrap();
        for (n, tile) in tiles.into_iter().enumerate() {
            assert!(rt.take(tile).unwrap() == [n as u64; LEN]);
        }
    });
}

#[test]
fn write_error_fails_the_task_that_needs_the_room_and_loses_nothing() {
    for (error, code) in [(EIO, "system error 5"), (ENOSPC, "system error 28")] {
        watched(code, move || {
            let folder = tempfile::tempdir().unwrap();
            plan(folder.path(), &[], &[error], usize::MAX);
            let (rt, tiles) = spilling(folder.path());
            let failed = failures(rt.wait());
            assert_eq!(failed.len(), 1, "{failed:?}");
            let said = failed[0].to_string();
            assert!(said.contains("write failed") && said.contains(code), "{said}");
            let lost: Vec<_> = (0..4).filter(|n| rt.read(&tiles[*n]).is_err()).collect();
            assert_eq!(lost.len(), 1, "only the output of the failed task is missing");
            for n in (0..4).filter(|n| !lost.contains(n)) {
                assert!(rt.read(&tiles[n]).unwrap() == [n as u64; LEN]);
            }
            rt.task("again", tiles[lost[0]].output()).cpu(|_, x| x.fill(9)).submit().unwrap();
            assert!(rt.read(&tiles[lost[0]]).unwrap() == [9; LEN], "the disk can be used on");
        });
    }
}

#[test]
fn transfers_that_stop_early_are_continued() {
    watched("short", || {
        let folder = tempfile::tempdir().unwrap();
        plan(folder.path(), &[], &[], 1000);
        let (rt, tiles) = spilling(folder.path());
        for _ in 0..3 {
            for (n, tile) in tiles.iter().enumerate() {
                assert!(rt.read(tile).unwrap() == [n as u64; LEN]);
            }
        }
        assert!(rt.statistics().evictions > 4, "{}", rt.statistics());
        rt.wait().unwrap();
    });
}
