//! Tests of task blocks, in a separate file because `tests/loom` compiles theirs over other primitives.

use super::pool::ALIGN;
use super::successors::Closed;
use super::tail::{LONG, NOTES, Tail};
use super::{Flow, Helper, Kind, OwnedTask, Rounds, Submitting, TaskRef};
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

struct Plain;

impl Kind for Plain {
    type Shared = u32;
    type Owned = ();
    type Body = dyn Send;
    type Cause = &'static str;

    fn is_bare((): &()) -> bool {
        true
    }
}

fn task(n: u32, body: impl Send + 'static) -> Submitting<Plain> {
    Submitting::new(|| n, (), body, 0, |p| p as *mut (dyn Send + 'static))
}

/// A body with a large alignment, or of size zero, is stored at an aligned address and dropped as a whole.
#[test]
fn bodies_are_aligned() {
    #[repr(align(128))]
    struct Apart(
        #[allow(dead_code, reason = "takes room")] [u8; 5],
        #[allow(dead_code, reason = "has a destructor")] Arc<()>,
    );
    #[repr(align(4096))]
    struct Page(#[allow(dead_code, reason = "has a destructor")] Arc<()>);
    #[repr(align(65536))]
    struct Nothing;
    fn address<P: Send + 'static>(body: P) -> usize {
        let owner = task(7, body).commit().unwrap();
        let body: *mut (dyn Send + 'static) = std::ptr::from_ref(owner.body()).cast_mut();
        assert_eq!(*owner.shared(), 7);
        body.cast::<u8>().addr()
    }
    let alive = Arc::new(());
    for _ in 0..200 {
        assert_eq!(address(Apart([1; 5], alive.clone())) % 128, 0);
        assert_eq!(address(Page(alive.clone())) % 4096, 0);
        assert_eq!(address(Nothing) % 65536, 0);
    }
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Header and body together are larger than every class of the pool.
#[test]
fn huge_body_is_allocated() {
    const HUGE: usize = 32 << 20;
    let thread = std::thread::Builder::new().stack_size(16 * HUGE).spawn(|| {
        let owner = task(7, [3u8; HUGE]).commit().unwrap();
        let body: *mut (dyn Send + 'static) = std::ptr::from_ref(owner.body()).cast_mut();
        // SAFETY: the body is of this type, and `owner` keeps it.
        let body = unsafe { &*body.cast::<[u8; HUGE]>() };
        assert!(body.iter().all(|byte| *byte == 3));
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn panic_before_a_task_exists_drops_captured_values() {
    let alive = Arc::new(());
    let captured = alive.clone();
    let new = || Submitting::<Plain>::new(|| panic!("no"), (), captured, 0, |p| p as *mut (dyn Send + 'static));
    assert!(catch_unwind(AssertUnwindSafe(new)).is_err());
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// The edges are in the task's header, in its tail if it is long, and in chunks.
#[test]
fn task_becomes_ready_when_its_last_predecessor_finishes() {
    for count in [1, 3, 4, 10, 11, 12, 18, 27, 40] {
        becomes_ready_after(count, [0u8; 300]);
        becomes_ready_after(count, [0u8; 1000]);
        becomes_ready_after(count, [0u8; 5000]);
    }
}

fn becomes_ready_after(count: u32, body: impl Send + 'static) {
    let before = |n| if n % 2 == 0 { task(n, ()) } else { task(n, [0u8; 900]) };
    let before: Vec<_> = (0..count).map(|n| before(n).commit().unwrap()).collect();
    let mut last = task(99, body);
    for predecessor in &before {
        last.wait_for(&predecessor.share(), Flow::Order).unwrap();
    }
    assert!(last.commit().is_none());
    let mut ready = vec![];
    for (n, predecessor) in before.into_iter().enumerate() {
        assert!(ready.is_empty(), "ready after {n} of {count}");
        predecessor.expect_successors();
        predecessor.finish(|task| ready.push(task));
    }
    assert_eq!(*ready[0].shared(), 99);
}

/// The lines that a long task's notes lead to.
fn noted(task: &OwnedTask<Plain>) -> Vec<usize> {
    // SAFETY: the tail belongs to a task that is alive.
    unsafe { Tail::noted(task.tail().unwrap(), task.address_of().cast()) }.map(<*const u8>::addr).collect()
}

#[test]
fn long_task_notes_the_addresses_of_its_successors() {
    let (short, long) = (task(0, ()).commit().unwrap(), task(1, [0u8; 1000]).commit().unwrap());
    assert!(short.tail().is_none());
    assert!(noted(&long).is_empty());
    let mut after = [task(2, ()), task(3, ()), task(4, [0u8; 3000])];
    for successor in &mut after {
        for flow in [Flow::Order, Flow::Value] {
            successor.wait_for(&short.share(), flow).unwrap();
            successor.wait_for(&long.share(), flow).unwrap();
        }
    }
    // Of the four edges of each, the second is in the second line of its header; the fourth edge of the last task is in
    // its tail.
    let [two, three, four] = after.each_ref().map(Submitting::address);
    let known = noted(&long);
    assert_eq!(known[..2], [two + ALIGN, two]);
    let last: Vec<_> = known.iter().filter(|line| (four..four + after[2].block_bytes).contains(*line)).collect();
    assert_eq!(known.iter().filter(|line| **line == three).count(), 1, "a block is noted once");
    assert_eq!(last.len(), 3, "two edges and the block");
    assert!(after.into_iter().all(|successor| successor.commit().is_none()));
    let mut ready = vec![];
    for task in [short, long] {
        assert!(ready.is_empty());
        task.expect_successors();
        task.finish(|task| ready.push(task));
    }
    assert_eq!(ready.iter().map(|task| *task.shared()).collect::<Vec<_>>(), [4, 3, 2]);
}

/// Successors that do not fit are not noted; the list still has them.
#[test]
fn task_can_have_more_successors_than_notes() {
    let long = task(0, [0u8; 1000]).commit().unwrap();
    for n in 0..100 {
        let mut successor = task(n, ());
        successor.wait_for(&long.share(), Flow::Value).unwrap();
        assert!(successor.commit().is_none());
    }
    assert_eq!(noted(&long).len(), NOTES);
    let mut ready = 0;
    long.finish(|_| ready += 1);
    assert_eq!(ready, 100);
}

#[test]
fn only_long_blocks_have_a_tail_at_a_cache_line() {
    for (bytes, align) in (1..3000).flat_map(|bytes| [1, 8, 64, 4096].map(|align| (bytes, align))) {
        let added = Tail::<Plain>::added_to(Layout::from_size_align(bytes, align).unwrap()).unwrap();
        assert_eq!(added.align(), align);
        assert_eq!(Tail::<Plain>::is_in(added.size()), bytes >= LONG, "{bytes}");
        let start = added.size() - if bytes >= LONG { size_of::<Tail<Plain>>() } else { 0 };
        assert!(start >= bytes && (bytes < LONG || start.is_multiple_of(ALIGN)), "{bytes}");
    }
    let huge = Layout::from_size_align(isize::MAX as usize - 63, 64).unwrap();
    assert!(Tail::<Plain>::added_to(huge).is_none());
}

#[test]
fn only_values_carry_poison() {
    let first = task(0, ()).commit().unwrap();
    let (mut user, mut overwriter) = (task(1, ()), task(2, ()));
    user.wait_for(&first.share(), Flow::Value).unwrap();
    overwriter.wait_for(&first.share(), Flow::Order).unwrap();
    assert!(user.commit().is_none() && overwriter.commit().is_none());
    first.set_poison(Arc::new("first"));
    let mut ready = vec![];
    first.finish(|task| ready.push(task));
    let poisoned: Vec<_> = ready.iter().map(|t| (*t.shared(), t.is_poisoned())).collect();
    assert_eq!(poisoned, [(2, false), (1, true)]);
}

/// Counts how often it is dropped. A drop after the end of its task counts as a hundred.
#[derive(Clone, Default)]
struct Witness {
    task: Arc<std::sync::Mutex<Option<TaskRef<Plain>>>>,
    drops: Arc<AtomicU32>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let task = self.task.lock().unwrap().take();
        self.drops.fetch_add(if task.is_some_and(|task| task.is_finished()) { 100 } else { 1 }, Ordering::Relaxed);
    }
}

#[test]
fn owner_drops_the_body_once_before_the_task_is_finished() {
    let witness = Witness::default();
    let (known, drops) = (witness.task.clone(), witness.drops.clone());
    let mut task = task(0, witness);
    let reference = task.share();
    *known.lock().unwrap() = Some(task.share());
    task.commit().unwrap().finish(|_| unreachable!());
    assert!(reference.is_finished());
    assert_eq!(drops.load(Ordering::Relaxed), 1, "the body is dropped before the task is finished");
    drop(reference);
    assert_eq!(drops.load(Ordering::Relaxed), 1, "the last reference frees memory and nothing else");
}

#[test]
fn body_of_an_abandoned_task_is_dropped_with_its_owner() {
    let alive = Arc::new(());
    let mut refused = task(0, alive.clone());
    let reference = refused.share();
    drop(refused);
    assert_eq!(Arc::strong_count(&alive), 1);
    let owner = task(0, alive.clone()).commit().unwrap();
    drop((owner.share(), owner));
    assert_eq!(Arc::strong_count(&alive), 1);
    drop(reference);
}

#[test]
fn panicking_destructor_does_not_block_successors() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Shell);
        }
    }
    struct Shell;
    impl Drop for Shell {
        fn drop(&mut self) {
            panic!("a panic payload's destructor may panic too");
        }
    }
    drop(task(0, Bomb));
    let first = task(1, Bomb).commit().unwrap();
    let mut second = task(2, ());
    second.wait_for(&first.share(), Flow::Order).unwrap();
    assert!(second.commit().is_none());
    let mut ready = vec![];
    first.finish(|task| ready.push(task));
    assert_eq!(ready.len(), 1, "the task's successor becomes ready");
}

#[test]
fn finished_task_is_not_waited_for() {
    let first = task(0, ()).commit().unwrap();
    let reference = first.share();
    first.finish(|_| ());
    let mut second = task(1, ());
    assert_eq!(second.wait_for(&reference, Flow::Value), Err(Closed));
    assert!(second.commit().is_some());
}

/// Two layers of tasks and a last task: each task of the second layer waits for two of the first, and the last task for
/// all. Every body holds a share.
fn layers(width: u32, share: &Arc<()>) -> Rounds<Plain> {
    let mut ready = vec![];
    let mut all: Vec<TaskRef<Plain>> = vec![];
    let mut enter = |all: &mut Vec<TaskRef<Plain>>, before: &[(usize, Flow)]| {
        let mut new = task(all.len() as u32, share.clone());
        before.iter().for_each(|(n, flow)| new.wait_for(&all[*n], *flow).unwrap());
        all.push(new.share());
        ready.extend(new.commit());
    };
    let width = width as usize;
    (0..width).for_each(|_| enter(&mut all, &[]));
    (0..width).for_each(|n| enter(&mut all, &[(n, Flow::Value), ((n + 1) % width, Flow::Order)]));
    let second: Vec<_> = (width..2 * width).map(|n| (n, Flow::Value)).collect();
    enter(&mut all, &second);
    Rounds::new(all, ready, |helper| task(if helper == Helper::Last { LAST } else { HELPER }, [0u8; 16]))
}

const LAST: u32 = u32::MAX;
const HELPER: u32 = u32::MAX - 1;

#[test]
fn each_round_runs_every_task_once_after_its_predecessors() {
    for width in [2, 3, 50, 150] {
        let share = Arc::new(());
        let mut rounds = layers(width, &share);
        for round in 0..3 {
            let (queue, ran) = (Mutex::new(vec![]), Mutex::new(vec![]));
            assert!(rounds.begin(|task| queue.lock().unwrap().push(task)));
            assert!(rounds.idle().is_none() && !rounds.begin(|_| unreachable!("one at a time")));
            let last = Mutex::new(None);
            let work = || {
                while last.lock().unwrap().is_none() {
                    let Some(task) = queue.lock().unwrap().pop() else {
                        std::thread::yield_now();
                        continue;
                    };
                    match *task.shared() {
                        LAST => *last.lock().unwrap() = Some(task),
                        n => {
                            if n != HELPER {
                                ran.lock().unwrap().push(n);
                            }
                            task.end_round(|next| queue.lock().unwrap().push(next));
                        }
                    }
                }
            };
            std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(work)));
            rounds.end(last.into_inner().unwrap().unwrap());
            let ran = ran.into_inner().unwrap();
            let place = |n: u32| ran.iter().position(|other| *other == n).expect("the task has run");
            assert_eq!(ran.len() as u32, 2 * width + 1, "round {round}");
            for n in 0..width {
                assert!(place(n) < place(width + n) && place((n + 1) % width) < place(width + n));
                assert!(place(width + n) < place(2 * width));
            }
        }
        assert_eq!(Arc::strong_count(&share) as u32, 2 * width + 2, "bodies stay from round to round");
        drop(rounds);
        assert_eq!(Arc::strong_count(&share), 1);
    }
}

#[test]
fn poison_passes_through_one_round_only() {
    let share = Arc::new(());
    let mut rounds = layers(3, &share);
    for poisoned in [true, false] {
        let mut ready = vec![];
        assert!(rounds.begin(|task| ready.push(task)));
        if poisoned {
            rounds.task(1).set_poison(Arc::new("one"));
        }
        let mut last = None;
        while let Some(task) = ready.pop() {
            match *task.shared() {
                LAST => last = Some(task),
                _ => task.end_round(|next| ready.push(next)),
            }
        }
        assert!(!rounds.absolve(), "poison cannot be cleared during a round");
        rounds.end(last.unwrap());
        let found: Vec<_> = (0..7).map(|n| rounds.task(n).is_poisoned()).collect();
        assert_eq!(found, [false, true, false, false, true, false, true].map(|is| is && poisoned));
        assert!(rounds.absolve());
    }
}

/// A graph that is dropped during a round is leaked, except for the bodies of the tasks that were handed out, which are
/// dropped with their owners.
#[test]
#[cfg_attr(miri, ignore = "leaks, as it should")]
fn graph_dropped_in_a_round_is_leaked() {
    let share = Arc::new(());
    let mut rounds = layers(3, &share);
    let mut ready = vec![];
    assert!(rounds.begin(|task| ready.push(task)));
    drop(rounds);
    assert_eq!(Arc::strong_count(&share), 8);
    drop(ready);
    assert_eq!(Arc::strong_count(&share), 5, "the tasks without predecessors were owned");
}

/// Calls `code` in a child process, which must abort instead of returning.
fn assert_aborts(code: impl FnOnce()) {
    const IN_CHILD: &str = "THALWEG_TEST_ABORTS";
    if std::env::var_os(IN_CHILD).is_some() {
        code();
        std::process::exit(0);
    }
    let name = std::thread::current().name().expect("the test harness names its threads").to_owned();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--nocapture"]).env(IN_CHILD, "1").output().unwrap();
    assert_eq!(output.status.code(), None, "{}", String::from_utf8_lossy(&output.stdout));
}

/// 2^32 forgotten clones would bring the count back to zero, and the next drop would free the task in use.
#[test]
fn task_reference_beyond_the_limit_aborts() {
    assert_aborts(|| {
        let task = task(1, ()).commit().unwrap();
        task.refs.set(u32::MAX / 2 + 1);
        std::mem::forget(task.share());
    });
}

#[test]
fn successor_reference_beyond_the_limit_aborts() {
    assert_aborts(|| {
        let task = task(1, ()).commit().unwrap();
        task.refs.set(u32::MAX / 2 + 1);
        // SAFETY: the task's owner keeps it alive.
        std::mem::forget(unsafe { TaskRef::to(task.address_of()) });
    });
}

#[test]
fn task_reference_below_the_limit_is_counted() {
    let task = task(1, ()).commit().unwrap();
    task.refs.set(u32::MAX / 2 - 1);
    let shares = [task.share(), task.share()];
    task.refs.set(3);
    drop(shares);
    assert!(task.refs.is_one());
}

#[test]
fn shared_value_reference_beyond_the_limit_aborts() {
    assert_aborts(|| {
        let (one, _other) = super::Counted::pair(());
        one.set_references(u32::MAX / 2 + 1);
        std::mem::forget(one.clone());
    });
}

#[test]
fn reader_beyond_the_limit_aborts() {
    assert_aborts(|| {
        let readers = super::Readers::<()>::new();
        readers.set((1 << 30) + 1);
        readers.enter();
    });
}
