//! Streams and events, on a backend that records its calls and completes events on request.

use super::*;
use crate::kernel::{ArgumentValue, Groups, KernelText, Module, Program, RawHandles};
use crate::trace::HostClock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The n-th event of a stream.
type Moment = (usize, usize);

/// A call of the backend.
#[derive(Debug, Clone, PartialEq)]
enum Call {
    /// A moment on a stream was recorded.
    Record(Moment),
    /// Later work on the stream waits for the moment.
    Wait(usize, Moment),
    /// The host waits for the moment.
    Synchronize(Moment),
}

impl Call {
    fn recorded(&self) -> Option<Moment> {
        if let Self::Record(moment) = self { Some(*moment) } else { None }
    }
}

#[derive(Default)]
struct Scripted {
    streams: AtomicUsize,
    calls: Mutex<Vec<Call>>,
    /// The amount of memory allocated so far, which is the address of the next allocation.
    allocated: AtomicUsize,
    complete: Mutex<BTreeSet<Moment>>,
    /// The callbacks of armed events.
    armed: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// The number of points of which the device notes the time.
    stamps: AtomicUsize,
    /// The times of points, by number, as far as they have been reached.
    times: Mutex<BTreeMap<usize, i64>>,
    /// The beginning of the device's clock, if it has one.
    clock: Option<Instant>,
}

impl Backend for Arc<Scripted> {
    const API: &'static str = "scripted";
    const KIND: UnitKind = UnitKind::Gpu;
    type Memory = ();
    type HostMemory = ();
    type Stream = usize;
    type Event = Moment;
    type Stamp = usize;
    type Begun = usize;
    type Module = ();
    type Function = ();
    type Graph = ();

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

    fn queues(&self) -> usize {
        COPY_STREAMS + KERNEL_STREAMS
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

    unsafe fn copy_across(&self, _: &usize, _: usize, _: [usize; 2], _: &Slab) -> Result<(), DeviceError> {
        Ok(())
    }

    fn module(&self, _: &Program) -> Result<(), DeviceError> {
        Ok(())
    }

    fn own_module(&self, _: &Module) -> Result<(), DeviceError> {
        Ok(())
    }

    fn function(&self, (): &(), _: &KernelText) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: &usize,
        (): &(),
        _: [u32; 3],
        _: Groups,
        _: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn graph(&self, _: &[GraphNode<'_, Self>], _: &[Vec<u32>]) -> Result<(), DeviceError> {
        unreachable!("there are no graphs")
    }

    unsafe fn launch_graph(&self, _: &usize, (): &()) -> Result<(), DeviceError> {
        Ok(())
    }

    fn raw(&self, stream: &usize) -> Result<RawHandles, DeviceError> {
        Ok(RawHandles { stream: *stream, context: 0, device: 0 })
    }

    fn after_raw(&self, _: &usize) {}

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

    fn notify(&self, _: &Moment, then: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        self.armed.lock().push(then);
        Ok(())
    }

    fn synchronize(&self, event: &Moment) -> Result<(), DeviceError> {
        self.calls.lock().push(Call::Synchronize(*event));
        Ok(())
    }

    fn begin_work(&self, _: &usize) -> Result<usize, DeviceError> {
        Ok(self.stamps.fetch_add(1, Ordering::Relaxed))
    }

    fn end_work(&self, _: &usize, begun: usize) -> Result<[usize; 2], DeviceError> {
        Ok([begun, self.stamps.fetch_add(1, Ordering::Relaxed)])
    }

    fn time_of(&self, stamp: &usize) -> Result<Option<i64>, DeviceError> {
        Ok(self.times.lock().get(stamp).copied())
    }

    fn clock_ns(&self) -> Option<i64> {
        self.clock.map(|began| began.elapsed().as_nanos() as i64)
    }
}

/// The number of streams for kernels.
const KERNEL_STREAMS: usize = 16;

struct Bench {
    backend: Arc<Scripted>,
    gpu: Gpu<Arc<Scripted>>,
}

impl Bench {
    fn new() -> Self {
        let backend = Arc::new(Scripted::default());
        Self { gpu: Gpu::new(backend.clone(), false).unwrap(), backend }
    }

    /// Issues a task; returns its stream, and the moments that the stream was made to wait for.
    fn issue(&self, task: u64, after: &[u64], forks: bool) -> (usize, Vec<Moment>) {
        let after: Vec<_> = after.iter().map(|task| TaskId(*task)).collect();
        let before = self.backend.calls.lock().len();
        self.gpu.open(TaskId(task), &after, &[]).unwrap().close(forks).unwrap();
        let stream = self.gpu.tasks.lock()[&TaskId(task)].0;
        let calls = self.backend.calls.lock();
        let wait = |call: &Call| match call {
            Call::Wait(on, event) => {
                assert_eq!(*on, stream, "the wait is not on the task's own stream");
                Some(*event)
            }
            _ => None,
        };
        (stream, calls[before..].iter().filter_map(wait).collect())
    }

    /// Returns how many events were recorded.
    fn recorded(&self) -> usize {
        self.backend.calls.lock().iter().filter(|call| matches!(call, Call::Record(_))).count()
    }

    /// Makes all tasks count as short from now on.
    fn with_short_tasks(self) -> Self {
        self.gpu.mean_ns.store(0, Ordering::Relaxed);
        self
    }
}

#[test]
fn task_waits_for_events_of_predecessors_on_other_streams() {
    let bench = Bench::new();
    let (one, _) = bench.issue(1, &[], false);
    let (other, _) = bench.issue(2, &[], false);
    assert_ne!(one, other, "independent tasks go to different streams");
    let (third, waits) = bench.issue(3, &[1, 2], false);
    assert_eq!(
        (third, waits),
        (other, vec![(one, 0)]),
        "on the stream of the second task, after the event of the first"
    );
    assert_eq!(bench.issue(4, &[1, 3], false), (other, vec![]), "a chain needs no event, and no wait is repeated");
}

#[test]
fn task_that_follows_several_waits_only_for_the_last_of_a_chain() {
    let bench = Bench::new().with_short_tasks();
    bench.issue(0, &[], true);
    bench.issue(1, &[0], false);
    let (second, waits) = bench.issue(2, &[0], false);
    assert_eq!(waits.len(), 1, "on another stream than the first task");
    bench.backend.calls.lock().clear();
    let mut session = bench.gpu.open(TaskId(3), &[], &[]).unwrap();
    session.follow(&[TaskId(0), TaskId(2)]).unwrap();
    session.close(false).unwrap();
    let calls = std::mem::take(&mut *bench.backend.calls.lock());
    let waits: Vec<_> = calls.iter().filter(|call| matches!(call, Call::Wait(..))).collect();
    assert!(matches!(waits[..], [Call::Wait(_, (stream, 0))] if *stream == second), "{calls:?}");
}

#[test]
fn task_goes_to_the_stream_of_a_task_that_it_follows_if_all_are_equally_busy() {
    let bench = Bench::new().with_short_tasks();
    let streams: Vec<_> = (0..KERNEL_STREAMS as u64).map(|task| bench.issue(task, &[], false).0).collect();
    bench.gpu.open(TaskId(99), &[], &[TaskId(5)]).unwrap().close(false).unwrap();
    assert_eq!(bench.gpu.tasks.lock()[&TaskId(99)].0, streams[5]);
}

#[test]
fn branches_go_to_separate_streams() {
    let bench = Bench::new().with_short_tasks();
    let (one, _) = bench.issue(0, &[], true);
    let streams: BTreeSet<_> = (1..9).map(|task| bench.issue(task, &[0], false)).collect();
    assert_eq!(streams.len(), 8, "{streams:?}");
    for (stream, waits) in streams {
        let expected = if stream == one { vec![] } else { vec![(one, 0)] };
        assert_eq!(waits, expected, "the event of the first task only, not of later ones on its stream");
    }
    assert_eq!(bench.recorded(), 1);
}

#[test]
fn independent_tasks_go_to_all_streams() {
    let bench = Bench::new();
    let streams: Vec<_> = (0..2 * KERNEL_STREAMS as u64).map(|task| bench.issue(task, &[], false).0).collect();
    for turn in streams.chunks(KERNEL_STREAMS) {
        assert_eq!(
            turn.iter().collect::<BTreeSet<_>>().len(),
            KERNEL_STREAMS,
            "every stream is used before one is used twice: {streams:?}"
        );
    }
}

#[test]
fn chains_on_equally_busy_streams_need_no_events() {
    const CHAINS: u64 = 4 * KERNEL_STREAMS as u64;
    let bench = Bench::new().with_short_tasks();
    for task in 0..20 * CHAINS {
        let (_, waits) = bench.issue(task, task.checked_sub(CHAINS).as_slice(), false);
        assert_eq!(waits, [], "task {task}");
    }
    assert_eq!(bench.recorded(), 0);
}

#[test]
fn chain_of_short_tasks_has_one_event_per_poll() {
    let bench = Bench::new().with_short_tasks();
    for round in 0..3 {
        for task in 0..50u64 {
            let before = (task > 0).then(|| round * 50 + task - 1);
            bench.issue(round * 50 + task, before.as_slice(), false);
        }
        let mut ended = Vec::new();
        bench.gpu.poll(&mut ended);
        assert!(ended.is_empty(), "nothing has ended yet");
        let calls = std::mem::take(&mut *bench.backend.calls.lock());
        let [Call::Record(end)] = calls[..] else { panic!("{calls:?}") };
        bench.backend.complete.lock().insert(end);
        (0..2).for_each(|_| bench.gpu.poll(&mut ended));
        assert_eq!(ended.len(), 50);
        bench.backend.complete.lock().clear();
        bench.gpu.mean_ns.store(0, Ordering::Relaxed);
    }
}

#[test]
fn long_tasks_have_an_event_each_if_few_are_in_flight() {
    let bench = Bench::new();
    for task in 1..5 {
        bench.issue(task, (task > 1).then(|| task - 1).as_slice(), false);
        assert_eq!(bench.recorded(), task as usize);
    }
    (5..200).for_each(|task| _ = bench.issue(task, &[task - 1], false));
    assert!(
        (10..30).contains(&bench.recorded()),
        "the more tasks are in flight, the fewer events: {}",
        bench.recorded()
    );
}

/// Issues a task whose body uses its own device: it issues another task, polls, and arms a waker.
fn issue_busy(gpu: &Gpu<Arc<Scripted>>, task: u64, nested: usize) {
    let mut session = gpu.open(TaskId(task), &[], &[]).unwrap();
    let of_ours = session.scratch(1000).unwrap();
    if nested > 0 {
        issue_busy(gpu, task + 1, nested - 1);
    }
    gpu.poll(&mut Vec::new());
    gpu.arm(&(Arc::new(|| ()) as Waker));
    assert_ne!(session.scratch(1000).unwrap(), of_ours, "the first block is still in use");
    session.close(false).unwrap();
}

#[test]
fn body_may_use_its_own_device() {
    let bench = Bench::new();
    // More nested tasks than there are streams.
    let nested = 2 * bench.gpu.streams.len();
    issue_busy(&bench.gpu, 1, nested);
    let scratch: usize = bench.gpu.streams.iter().map(|stream| stream.state.lock().scratch.len()).sum();
    assert_eq!(scratch, 2 * (nested + 1), "all scratch memory is given back");
}

#[test]
fn dropped_session_is_waited_for_and_not_in_flight() {
    let bench = Bench::new();
    let mut session = bench.gpu.open(TaskId(1), &[], &[]).unwrap();
    session.add_private([0u8; 8].as_mut_ptr(), 8).unwrap();
    session.scratch(1000).unwrap();
    drop(session);
    let calls = std::mem::take(&mut *bench.backend.calls.lock());
    assert!(matches!(calls[..], [Call::Record(end), Call::Synchronize(waited)] if end == waited), "{calls:?}");
    assert!(!bench.gpu.arm(&(Arc::new(|| ()) as Waker)), "nothing is in flight");
    assert!(bench.issue(2, &[1], false).1.is_empty());
    let scratch: usize = bench.gpu.streams.iter().map(|stream| stream.state.lock().scratch.len()).sum();
    assert_eq!(scratch, 1, "the scratch memory is given back");
}

#[test]
fn ended_tasks_are_reported_and_not_waited_for() {
    let bench = Bench::new();
    let (stream, _) = bench.issue(1, &[], false);
    let mut ended = Vec::new();
    bench.gpu.poll(&mut ended);
    assert!(ended.is_empty(), "nothing has ended yet");
    bench.backend.complete.lock().insert((stream, 0));
    bench.gpu.poll(&mut ended);
    assert!(matches!(&ended[..], [Completion { mark: Mark::Task(TaskId(1)), result: Ok(_) }]), "{ended:?}");
    bench.issue(2, &[], false);
    assert!(bench.issue(3, &[1], false).1.is_empty(), "the first task is not in flight any more");
}

#[test]
fn armed_moment_is_found_regardless_of_earlier_polls() {
    for looks_before in 0..6 {
        let bench = Bench::new().with_short_tasks();
        (0..9).for_each(|task| _ = bench.issue(task, if task > 0 { &[0] } else { &[] }, false));
        assert!(bench.gpu.arm(&(Arc::new(|| ()) as Waker)));
        let mut ended = Vec::new();
        (0..looks_before).for_each(|_| bench.gpu.poll(&mut ended));
        assert!(ended.is_empty());
        let recorded: Vec<_> = bench.backend.calls.lock().iter().filter_map(Call::recorded).collect();
        bench.backend.complete.lock().extend(recorded);
        bench.backend.armed.lock().drain(..).for_each(|then| then());
        bench.gpu.poll(&mut ended); // as a woken thread does
        assert!(!ended.is_empty(), "after {looks_before} polls");
    }
}

#[test]
fn times_on_the_device_are_converted_without_changing_durations() {
    let clock = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
    let backend = Arc::new(Scripted { clock: Some(clock), ..Scripted::default() });
    let gpu = Gpu::new(backend.clone(), true).unwrap();
    let host = HostClock::new();
    let before = host.now_ns();
    for task in 1..=3 {
        gpu.open(TaskId(task), &[TaskId(task - 1)], &[]).unwrap().close(false).unwrap();
    }
    // The first two tasks follow each other closely. The times of the third are not available.
    let begun = clock.elapsed().as_nanos() as i64;
    *backend.times.lock() = BTreeMap::from([(0, begun), (1, begun + 1000), (2, begun + 1000), (3, begun + 1500)]);
    while clock.elapsed().as_nanos() as i64 <= begun + 1500 {}
    let mut ended = Vec::new();
    gpu.poll(&mut ended);
    let recorded: Vec<_> = backend.calls.lock().iter().filter_map(Call::recorded).collect();
    backend.complete.lock().extend(recorded);
    gpu.poll(&mut ended);
    let after = host.now_ns();
    let times: Vec<_> = ended.iter().map(|ended| ended.result.as_ref().unwrap().on_device).collect();
    let [Some(one), Some(two), None] = times[..] else { panic!("times of two of three tasks: {times:?}") };
    assert_eq!((one.ended - one.begun, two.ended - two.begun), (1000, 500));
    assert_eq!(one.ended, two.begun);
    assert!(before <= one.enqueued && one.enqueued <= one.begun && two.ended <= after, "{one:?} {two:?}");
}

#[test]
fn times_are_not_noted_without_a_trace() {
    let bench = Bench::new();
    bench.issue(1, &[], true);
    assert_eq!(bench.backend.stamps.load(Ordering::Relaxed), 0);
}
