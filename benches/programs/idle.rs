//! Waiting for external events: futures that another thread completes after a while.

use std::error::Error;
use std::fs;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use thalweg::prelude::*;

use crate::problems::Answer;

/// Number of futures that wait at the same time.
const FUTURES: usize = 1000;

/// The event that all futures wait for.
#[derive(Debug, Default)]
struct Gate {
    is_open: bool,
    waiting: Vec<Waker>,
}

/// Returns the ratio of CPU time to wall time over a period of `milliseconds` in which neither the runtime's threads
/// nor the thread that waits for the runtime have anything to do.
pub(crate) fn run(milliseconds: usize, workers: usize) -> Result<Answer, Box<dyn Error>> {
    let rt = Runtime::builder().compute_units(format!("{workers}:CPU:1")).use_current_thread(true).build()?;
    let gate = Arc::new(Mutex::new(Gate::default()));
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..FUTURES {
        let (gate, ended) = (gate.clone(), ended.clone());
        let wait = poll_fn(move |context| {
            let mut gate = gate.lock().expect("no holder panics");
            if gate.is_open {
                ended.fetch_add(1, Ordering::Relaxed);
                return Poll::Ready(());
            }
            gate.waiting.push(context.waker().clone());
            Poll::Pending
        });
        rt.task("waits", ()).host_async(move |_, ()| wait).submit()?;
    }
    let opener = thread::spawn(move || {
        while gate.lock().expect("no holder panics").waiting.len() < FUTURES {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20)); // by now all spinning threads have gone to sleep
        let (start, before) = (Instant::now(), cpu_time());
        thread::sleep(Duration::from_millis(milliseconds as u64));
        let busy = before.zip(cpu_time()).map(|(before, after)| (after - before).as_secs_f64());
        let wall = start.elapsed().as_secs_f64();
        let waiting = {
            let mut gate = gate.lock().expect("no holder panics");
            gate.is_open = true;
            std::mem::take(&mut gate.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        busy.map(|busy| busy / wall)
    });
    rt.wait()?;
    let figure = opener.join().map_err(|_| "the thread that opens the gate has panicked")?;
    let figure = figure.ok_or("the system does not report the CPU time of threads")?;
    Ok(Answer { figure, check: ended.load(Ordering::Relaxed) as f64 })
}

/// Returns the CPU time of this process's threads on all cores.
fn cpu_time() -> Option<Duration> {
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let nanoseconds: Option<u64> = threads.map(|thread| of_thread(thread.ok()?)).sum();
    nanoseconds.map(Duration::from_nanos)
}
