//! Streams and events, on a backend that writes down what it is told and ends what it is told to end.

use super::*;
use crate::kernel::{ArgumentValue, Enqueue, KernelText, Program};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The n-th event of a stream.
type Moment = (usize, usize);

/// What the backend was told.
#[derive(Debug, Clone, PartialEq)]
enum Call {
    /// A moment on a stream was asked for.
    Record(Moment),
    /// What follows on the stream waits for the moment.
    Wait(usize, Moment),
}

#[derive(Default)]
struct Scripted {
    streams: AtomicUsize,
    calls: Mutex<Vec<Call>>,
    /// How much memory was asked for: the address of the next.
    allocated: AtomicUsize,
    complete: Mutex<BTreeSet<Moment>>,
}

impl Backend for Arc<Scripted> {
    const API: &'static str = "scripted";
    type Memory = ();
    type Stream = usize;
    type Event = Moment;
    type Module = ();
    type Function = ();

    fn name(&self) -> &str {
        "scripted"
    }

    fn domain(&self) -> usize {
        0
    }

    fn free_bytes(&self) -> u64 {
        1 << 20
    }

    fn allocate(&self, bytes: usize) -> Result<((), usize), DeviceError> {
        Ok(((), self.allocated.fetch_add(bytes, Ordering::Relaxed)))
    }

    fn stream(&self) -> Result<usize, DeviceError> {
        Ok(self.streams.fetch_add(1, Ordering::Relaxed))
    }

    unsafe fn copy_in(&self, _: &usize, _: *const u8, _: usize, _: &Slab) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn copy_out(&self, _: &usize, _: usize, _: *mut u8, _: &Slab) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn copy_across(&self, _: &usize, _: usize, _: usize, _: &Slab) -> Result<(), DeviceError> {
        Ok(())
    }

    fn module(&self, _: &Program) -> Result<(), DeviceError> {
        Ok(())
    }

    fn function(&self, (): &(), _: &KernelText) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: &usize,
        (): &(),
        _: &KernelText,
        _: [u32; 3],
        _: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    fn record(&self, stream: &usize) -> Result<Moment, DeviceError> {
        let mut calls = self.calls.lock();
        let moment = (*stream, calls.iter().filter(|call| matches!(call, Call::Record((s, _)) if s == stream)).count());
        calls.push(Call::Record(moment));
        Ok(moment)
    }

    fn wait(&self, stream: &usize, event: &Moment) -> Result<(), DeviceError> {
        self.calls.lock().push(Call::Wait(*stream, *event));
        Ok(())
    }

    fn is_complete(&self, event: &Moment) -> Result<bool, DeviceError> {
        Ok(self.complete.lock().contains(event))
    }

    fn notify(&self, _: &Moment, _: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn synchronize(&self, _: &Moment) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A task without kernels.
struct Empty;

impl Work for Empty {
    fn privates(&mut self) -> Vec<(*mut u8, usize)> {
        Vec::new()
    }

    fn enqueue(&mut self, _: &mut dyn Enqueue, _: &[usize]) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Bench {
    backend: Arc<Scripted>,
    gpu: Gpu<Arc<Scripted>>,
}

impl Bench {
    fn new() -> Self {
        let backend = Arc::new(Scripted::default());
        Self { gpu: Gpu::new(backend.clone()).unwrap(), backend }
    }

    /// Issues a task; the moments that its stream has been told to wait for, and the moment of its end.
    fn issue(&self, task: u64, after: &[u64]) -> (Vec<Moment>, Moment) {
        let after: Vec<_> = after.iter().map(|task| TaskId(*task)).collect();
        self.gpu.issue(TaskId(task), &after, &mut Empty).unwrap();
        let calls = std::mem::take(&mut *self.backend.calls.lock());
        let (Some(Call::Record((stream, _))), waits) = (calls.last().cloned(), &calls[..calls.len() - 1]) else {
            panic!("a task ends with an event: {calls:?}")
        };
        let waits = waits.iter().map(|call| match call {
            Call::Wait(on, event) if *on == stream => *event,
            other => panic!("not on the task's own stream: {other:?}"),
        });
        // The log was emptied, so moments are numbered by task here.
        (waits.collect(), (stream, 0))
    }
}

#[test]
fn a_task_waits_for_the_events_of_those_before_it_on_other_streams() {
    let bench = Bench::new();
    let (_, (one, _)) = bench.issue(1, &[]);
    let (_, (other, _)) = bench.issue(2, &[]);
    assert_ne!(one, other, "tasks that know nothing of each other go to different streams");
    let (waits, (third, _)) = bench.issue(3, &[1, 2]);
    assert_eq!((waits, third), (vec![(one, 0)], other), "behind the second, after the event of the first");
    assert_eq!(bench.issue(4, &[3]), (vec![], (other, 0)), "a chain needs no event");
}

/// A body that uses its own device: issues a task behind each that is in flight, copies, polls, and asks to be woken.
struct Busy<'a>(&'a Bench, u64);

impl Work for Busy<'_> {
    fn privates(&mut self) -> Vec<(*mut u8, usize)> {
        Vec::new()
    }

    fn enqueue(&mut self, launcher: &mut dyn Enqueue, _: &[usize]) -> Result<(), BoxError> {
        let Self(bench, nested) = self;
        let of_ours = launcher.scratch(1000)?;
        if *nested > 0 {
            bench.gpu.issue(TaskId(10 + *nested), &[], &mut Busy(bench, *nested - 1))?;
        }
        bench.gpu.poll(&mut Vec::new());
        bench.gpu.arm(&(Arc::new(|| ()) as Waker));
        assert_ne!(launcher.scratch(1000)?, of_ours, "it is still in use");
        Ok(())
    }
}

#[test]
fn a_body_may_use_its_own_device() {
    let bench = Bench::new();
    // More tasks inside each other than there are streams.
    bench.gpu.issue(TaskId(1), &[], &mut Busy(&bench, 2 * STREAMS as u64)).unwrap();
    let scratch: usize = bench.gpu.streams.iter().map(|stream| stream.state.lock().scratch.len()).sum();
    assert_eq!(scratch, 2 * (2 * STREAMS + 1), "all is given back");
}

#[test]
fn what_has_ended_is_reported_in_order_and_not_waited_for() {
    let bench = Bench::new();
    let (_, (stream, _)) = bench.issue(1, &[]);
    let mut ended = Vec::new();
    bench.gpu.poll(&mut ended);
    assert!(ended.is_empty(), "nothing has ended yet");
    bench.backend.complete.lock().insert((stream, 0));
    bench.gpu.poll(&mut ended);
    assert!(matches!(&ended[..], [Completion { mark: Mark::Task(TaskId(1)), result: Ok(_) }]), "{ended:?}");
    bench.issue(2, &[]);
    assert!(bench.issue(3, &[1]).0.is_empty(), "the first task is not in flight any more");
}
