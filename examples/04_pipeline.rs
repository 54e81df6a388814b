//! A pipeline with bounded memory that survives the failure of an item.
//!
//! Frames pass through three stages: capture, filter, write. They share a ring of a few buffers, which bounds the
//! number of frames in memory. The capture of one frame fails. The last stage receives that failure instead of the
//! frame, and writes all other frames in order.

use std::error::Error;
use std::fmt;
use thalweg::error::TaskFailure;
use thalweg::prelude::*;

const FRAMES: usize = 200;
const BROKEN: usize = 57;
const PIXELS: usize = 1 << 12;
/// Number of buffers in the ring, which is the maximum number of frames in flight.
const RING: usize = 4;

/// The error of a capture.
#[derive(Debug)]
struct Dropped(usize);

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sensor dropped frame {}", self.0)
    }
}

impl Error for Dropped {}

/// The output of the last stage.
#[derive(Default)]
struct Film {
    /// Index and number of edges of each frame that was written.
    frames: Vec<(usize, usize)>,
    dropped: Vec<usize>,
}

fn capture(n: usize, raw: &mut [u8]) -> Result<(), Dropped> {
    if n == BROKEN {
        return Err(Dropped(n));
    }
    raw.iter_mut().enumerate().for_each(|(i, pixel)| *pixel = (i / (n + 1) % 251) as u8);
    Ok(())
}

fn filter(raw: &[u8], edges: &mut [u8]) {
    for (edge, pair) in edges.iter_mut().zip(raw.windows(2)) {
        *edge = pair[0].abs_diff(pair[1]);
    }
}

fn write(n: usize, edges: Result<&[u8], &TaskFailure>, film: &mut Film) {
    match edges {
        Ok(edges) => film.frames.push((n, edges.iter().filter(|&&edge| edge > 0).count())),
        Err(failure) => {
            // This is the original failure with the user's own error, because `filter` was skipped and did not fail
            // itself.
            assert_eq!(failure.name(), "capture");
            let dropped = failure.source().and_then(|error| error.downcast_ref::<Dropped>());
            film.dropped.extend(dropped.map(|Dropped(n)| *n));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rt = Runtime::builder().build()?;
    let ring: Vec<_> = (0..RING).map(|_| (rt.data(vec![0u8; PIXELS]), rt.data(vec![0u8; PIXELS]))).collect();
    let film = rt.value(Film::default());

    for n in 0..FRAMES {
        // `capture` overwrites a buffer only after `filter` has read it, and `filter` only after `write` has.
        let (raw, edges) = &ring[n % RING];
        rt.task("capture", raw.output()).cpu(move |_, raw| capture(n, raw)).submit()?;
        rt.task("filter", (raw.input(), edges.output())).cpu(|_, (raw, edges)| filter(raw, edges)).submit()?;
        rt.task("write", (edges.outcome(), film.inout()))
            .cpu(move |_, (edges, film)| write(n, edges, film))
            .submit()?;
    }

    // `wait` still reports the failure, once.
    let Err(RunError::Failed(failures)) = rt.wait() else { return Err("frame 57 should have failed".into()) };
    assert_eq!((failures.len(), failures[0].skipped()), (1, 1)); // that frame's `filter`
    let film = rt.take(film)?;
    assert_eq!(film.dropped, [BROKEN]);
    assert!(film.frames.iter().map(|(n, _)| *n).eq((0..FRAMES).filter(|n| *n != BROKEN)), "in the order of submission");
    println!("{} of {FRAMES} frames written in order, with {RING} buffers; {}", film.frames.len(), failures[0]);
    Ok(())
}
