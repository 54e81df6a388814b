//! A soak test: random programs run for as long as `THALWEG_SOAK_MINUTES` says (a few seconds without it), against
//! their oracles.
//!
//! Programs of `tests/faults` run in turn with work on tiles ([`tiles`]). The former each have a runtime with small
//! emulated devices that fail; the latter have more data than host memory may hold, replay recordings, and share one
//! runtime for many rounds. A line every ten seconds shows tasks, failures, mismatches, memory, file descriptors,
//! threads and throughput. The test fails if there was a mismatch, or if the process has grown: its allocations are
//! counted after each program, when its runtime is gone.
//!
//! `scripts/soak --minutes N` starts it.

#[path = "../common/mod.rs"]
mod common;
#[path = "../faults/oracle.rs"]
mod oracle;
#[path = "../faults/program.rs"]
mod program;
#[path = "../common/random.rs"]
mod random;
#[path = "../faults/run.rs"]
mod run;
#[path = "../common/steps.rs"]
mod steps;
mod tiles;

use ndarray::{Ix2, Ix3};
use program::{Act, Program};
use random::variable;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines.
const PERIOD: Duration = Duration::from_secs(10);
/// A process that does not finish a program for this long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// The process may grow by this many KiB after the first quarter of the time, for what allocators keep.
const MOST_GROWTH_KIB: u64 = 64 << 10;
/// Its allocations may grow by this many bytes, since pools keep their largest size.
const MOST_ALLOCATED: usize = 256 << 10;

/// The bytes that are allocated now.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of bytes.
struct Counting;

#[allow(unsafe_code, reason = "allocators are unsafe to implement")]
// SAFETY: all calls are passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The number of programs that have ended.
static PROGRAMS: AtomicU64 = AtomicU64::new(0);

/// Counts of events so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) tasks: u64,
    pub(crate) failures: u64,
    pub(crate) replays: u64,
    /// Replicas and homes that were evicted.
    pub(crate) evictions: u64,
    mismatches: u64,
}

/// The resources of this process.
#[derive(Debug, Default, Clone, Copy)]
struct Process {
    allocated: usize,
    resident_kib: u64,
    peak_kib: u64,
    descriptors: usize,
    threads: u64,
}

impl Process {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
        };
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            allocated: ALLOCATED.load(Ordering::Relaxed),
            resident_kib: field("VmRSS"),
            peak_kib: field("VmHWM"),
            descriptors,
            threads: field("Threads"),
        }
    }
}

/// Runs one program with faults.
fn with_faults(seed: u64, sums: &mut Sums) {
    let program = Program::new(seed);
    let failures = match program.dims {
        1 => run::run::<ndarray::Ix1>(&program),
        2 => run::run::<Ix2>(&program),
        _ => run::run::<Ix3>(&program),
    };
    sums.tasks += program.acts.iter().map(Act::tasks).sum::<usize>() as u64;
    sums.failures += failures as u64;
}

/// Ends the process if no program ends any more.
fn watch() {
    std::thread::spawn(|| {
        loop {
            let before = PROGRAMS.load(Ordering::Relaxed);
            std::thread::sleep(PATIENCE);
            if PROGRAMS.load(Ordering::Relaxed) == before {
                say(&format!("program {before} hangs"));
                std::process::abort();
            }
        }
    });
}

/// Writes a line, even if the output of the test is captured.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn random_programs_match_their_oracles_for_as_long_as_requested() {
    let minutes = variable("THALWEG_SOAK_MINUTES", 0);
    let time = if minutes == 0 { Duration::from_secs(3) } else { Duration::from_secs(60 * minutes) };
    let first = variable("THALWEG_SEED", 1);
    watch();
    std::panic::set_hook(Box::new(|_| ())); // bodies panic on purpose, and mismatches are written below
    let (start, mut sums, mut last, mut line) = (Instant::now(), Sums::default(), Sums::default(), Instant::now());
    let mut settled = None;
    say(
        "seconds  programs     tasks  failures   replays evictions mismatches KiB live  MiB now   peak descriptors threads  tasks/s",
    );
    for seed in first.. {
        let is_of_tiles = seed.is_multiple_of(8);
        let ran = catch_unwind(AssertUnwindSafe(|| match is_of_tiles {
            true => tiles::run(seed, &mut sums),
            false => with_faults(seed, &mut sums),
        }));
        if let Err(panic) = ran {
            let why = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            say(&format!("THALWEG_SEED={seed}: {}", why.unwrap_or("a panic")));
            sums.mismatches += 1;
        }
        PROGRAMS.fetch_add(1, Ordering::Relaxed);
        let is_over = start.elapsed() >= time;
        if line.elapsed() >= PERIOD || is_over {
            let (now, rate) = (Process::now(), (sums.tasks - last.tasks) as f64 / line.elapsed().as_secs_f64());
            let Sums { tasks, failures, replays, evictions, mismatches } = sums;
            say(&format!(
                "{:7} {:9} {tasks:9} {failures:9} {replays:9} {evictions:9} {mismatches:10} {:8} {:8} {:6} {:11} {:7} {rate:8.0}",
                start.elapsed().as_secs(),
                seed + 1 - first,
                now.allocated >> 10,
                now.resident_kib >> 10,
                now.peak_kib >> 10,
                now.descriptors,
                now.threads,
            ));
            (line, last) = (Instant::now(), sums);
            if start.elapsed() >= time / 4 {
                settled.get_or_insert(now);
            }
        }
        if is_over {
            break;
        }
    }
    drop(std::panic::take_hook());
    let (end, settled) = (Process::now(), settled.unwrap_or_default());
    assert_eq!(sums.mismatches, 0, "see above");
    assert!(end.allocated <= settled.allocated + MOST_ALLOCATED, "allocations grew: {settled:?}, then {end:?}");
    assert!(end.resident_kib <= settled.resident_kib + MOST_GROWTH_KIB, "memory grew: {settled:?}, then {end:?}");
    assert!(end.descriptors <= settled.descriptors + 2, "file descriptors leak: {settled:?}, then {end:?}");
    assert!(end.threads <= settled.threads + 2, "threads leak: {settled:?}, then {end:?}");
}
