//! Joins: internal tasks of the dependence layer that stand for many predecessors.
//!
//! If m tasks each waited for n others, n·m edges would be needed, and the history would keep a list of n tasks for
//! later ones. A *join* waits for the n tasks, the m tasks wait for the join, and the join replaces the list. So n + m
//! edges suffice, and no list in a history is ever longer than [`MOST`]. A join has no body, no unit and no place. The
//! thread that counts down the join's last predecessor finishes the join at once (`Engine::ready`). Drivers never see
//! joins, and joins do not count as tasks.
//!
//! Poison passes through a join: it is poisoned by every poisoned task that it waits for with [`Flow::Value`].
//!
//! A join can also combine what a group has accumulated at a part ([`super::accumulation`]). Such a join stands for the
//! group and takes the name of the group's first member.
//!
//! While the graph is being recorded, joins do not replace lists, because the graph must show the dependences between
//! the declared accesses.

use super::domain::live_domain;
use super::node::{Bodiless, Body, Kinds, Lane, Meta, Own, OwnedTask, Piece, Submitting, TaskRef};
use super::recorder::Recorder;
use super::{AccessRecord, Accumulation, Datum, Mode};
use crate::ids::{DataId, TaskId};
use crate::sync::CallSite;
use crate::sync::Flow;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A list of this many tasks is shortened before it grows any further.
pub(super) const MOST: usize = 16;

/// If several tasks are about to wait for more than this many tasks, they wait for a join instead.
pub(super) const WORTH_A_JOIN: usize = MOST / 2;

/// Tasks in a history.
pub(super) type Tasks = SmallVec<[TaskRef; 2]>;

/// A predecessor, and whether the successor uses its value.
pub(super) type Predecessor = (TaskRef, Flow);

/// The join that a newcomer made last, kept because neighbouring parts often have the same list.
#[derive(Default)]
pub(super) struct LastJoin(Option<Box<(DataId, Vec<Predecessor>, TaskRef)>>);

impl LastJoin {
    /// Returns a join that finishes when all of `tasks` have finished, along with every task that replaces them at
    /// `datum`.
    #[cold]
    pub(super) fn of(&mut self, datum: &Datum, tasks: Vec<Predecessor>, recorder: Option<&Recorder>) -> TaskRef {
        let equal = |(a, b): (&Predecessor, &Predecessor)| (a.0.address(), a.1) == (b.0.address(), b.1);
        if let Some((data, known, join)) = self.0.as_deref()
            && *data == datum.id
            && known.len() == tasks.len()
            && known.iter().zip(&tasks).all(equal)
        {
            return join.clone();
        }
        let piece = Piece { data: datum.id, block: datum.whole(), mode: Mode::Inout };
        let join = make_plain(&tasks, CallSite::caller(), &[piece], recorder);
        self.0 = Some(Box::new((datum.id, tasks, join.clone())));
        join
    }

    /// Forgets the join. Usually there is none, and inlining makes that case cheap.
    #[inline(always)] // on the path of every task
    pub(super) fn forget(&mut self) {
        if let Some(last) = self.0.take() {
            drop(last);
        }
    }
}

/// Makes a join that combines what the group of `members` has accumulated at `part`. Also returns the join's owner if
/// all members have already finished.
pub(super) fn combining(
    members: &[Predecessor],
    group: Arc<Accumulation>,
    part: Piece,
    recorder: Option<&Recorder>,
) -> (TaskRef, Option<OwnedTask>) {
    let first = members[0].0.shared();
    let accesses = {
        let group = group.clone();
        move |visit: &mut dyn FnMut(AccessRecord<'_>)| group.visit(&part.block, visit)
    };
    let body = Bodiless::new(Kinds::NONE, accesses).at([part]).completing(move || group.combine(&part.block));
    make(members, (first.id, first.name.clone(), first.location), body, recorder)
}

/// Makes a join that finishes when all accesses to the piece by the children of `task`, which holds the piece weakly,
/// have ended.
#[cold]
pub(super) fn at_piece(task: &TaskRef, flow: Flow, piece: Piece, recorder: Option<&Recorder>) -> TaskRef {
    make_plain(&[(task.clone(), flow)], task.shared().location, &[piece], recorder)
}

/// Makes a join that finishes when all of `tasks` have finished, along with the tasks that replace them at these
/// pieces. The join is made for a task that is submitted at `location`.
#[cold]
pub(super) fn standing_for(tasks: &[Predecessor], location: CallSite, pieces: &[Piece]) -> TaskRef {
    make_plain(tasks, location, pieces, None)
}

fn make_plain(tasks: &[Predecessor], location: CallSite, pieces: &[Piece], recorder: Option<&Recorder>) -> TaskRef {
    let body = Bodiless::new(Kinds::NONE, |_| ()).at(pieces);
    let (join, ready) = make(tasks, (next_id(), Cow::Borrowed("join"), location), body, recorder);
    if let Some(ready) = ready {
        ready.finish(|_| unreachable!("no task waits for a new join"));
    }
    join
}

/// Makes a bodiless task with these accesses and a unique ID. It has no predecessors yet.
pub(super) fn bodiless(
    own: Own,
    accesses: impl Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send + Sync + 'static,
) -> Submitting {
    helper(own, true, accesses)
}

/// Like [`bodiless`], but the task is run like any other task; running it does nothing.
pub(super) fn starter(own: Own) -> Submitting {
    helper(own, false, |_| ())
}

fn helper(
    own: Own,
    join: bool,
    accesses: impl Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send + Sync + 'static,
) -> Submitting {
    let meta = Meta { join, ..header((next_id(), Cow::Borrowed("replay"), CallSite::caller())) };
    let body = Bodiless::new(Kinds::NONE, accesses);
    Submitting::new(|| meta, own, body, 1, |body| body as *mut (dyn Body + 'static))
}

/// Returns an ID that no other task gets.
fn next_id() -> TaskId {
    static NEXT: AtomicU64 = AtomicU64::new(TaskId::FIRST_INTERNAL);
    TaskId(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn header((id, name, location): (TaskId, Cow<'static, str>, CallSite)) -> Meta {
    let (lane, domain) = (Lane::new(0), OnceLock::new());
    Meta { id, name, location, priority: 0, internal: true, queues: false, join: true, lane, domain }
}

fn make<B: Body + 'static>(
    tasks: &[Predecessor],
    made_for: (TaskId, Cow<'static, str>, CallSite),
    body: B,
    recorder: Option<&Recorder>,
) -> (TaskRef, Option<OwnedTask>) {
    let meta = header(made_for);
    let mut join = Submitting::new(|| meta, Own::default(), body, 1, |body| body as *mut (dyn Body + 'static));
    let mut left = tasks.to_vec();
    while let Some((task, flow)) = left.pop() {
        if let Some(recorder) = recorder {
            recorder.edge(task.shared(), join.shared(), flow, None);
        }
        if join.wait_for(&task, flow).is_ok() {
            continue;
        }
        task.pass_poison(flow, &join);
        if let Some(domain) = live_domain(&task) {
            join.body().stands_at().iter().for_each(|piece| domain.predecessors(*piece, &join, &mut left));
        }
    }
    (join.share(), join.commit())
}

/// Whether a newcomer may still have to wait for `task`, or to be poisoned because the task's results must not be used.
pub(super) fn matters(task: &TaskRef, flow: Flow) -> bool {
    !task.is_finished() || flow == Flow::Value && task.is_poisoned() || live_domain(task).is_some()
}

#[cfg(test)]
mod tests {
    use super::MOST;
    use crate::depend::tests::Program;
    use crate::depend::{Mode, OpId};
    use crate::error::TaskFailure;
    use crate::region::Block;
    use std::ops::Range;
    use std::sync::Arc;

    fn one(mode: Mode, range: Range<usize>) -> [(Mode, Block); 1] {
        [(mode, Block::interval(range))]
    }

    const ACCUMULATE: Mode = Mode::Reduction(OpId(1 | 3 << 30));
    const GROUPS: [Mode; 4] = [Mode::Concurrent, Mode::Commutative, Mode::Reduction(OpId(1)), ACCUMULATE];

    /// Returns the number of edges of n tasks with one access followed by n with the other.
    fn edges(n: u64, first: Mode, then: Mode) -> u64 {
        let mut program = Program::over(&[1]);
        program.submit(&one(Mode::Out, 0..1));
        (0..n).map(|_| program.submit(&one(first, 0..1))).sum::<u64>()
            + (0..n).map(|_| program.submit(&one(then, 0..1))).sum::<u64>()
    }

    #[test]
    fn edges_between_groups_and_readers_grow_linearly() {
        for group in GROUPS {
            for (first, then) in [(group, Mode::In), (Mode::In, group), (group, Mode::Concurrent)] {
                for n in [100, 800] {
                    let edges = edges(n, first, then);
                    // One edge to the earlier output, one to a join, and as many edges as are not yet worth a join.
                    assert!(edges <= 12 * n, "{n} {first}, {n} {then}: {edges} edges");
                }
            }
        }
    }

    #[test]
    fn readers_of_many_parts_have_one_edge_each_to_the_writer_of_all() {
        const PARTS: usize = 50;
        for n in [100, 800] {
            let mut program = Program::over(&[PARTS]);
            for part in 0..PARTS {
                program.submit(&one(Mode::Out, part..part + 1));
                program.finish(part as u64);
            }
            let readers: u64 = (0..n).map(|_| program.submit(&one(Mode::In, 0..PARTS))).sum();
            let writer = program.submit(&one(Mode::Out, 0..PARTS));
            assert!(readers + writer <= n + n / 8 + 1, "{readers} edges to joins, {writer} to the writer");
            for reader in 0..n {
                assert_eq!(program.ready().len() as u64, n - reader, "the writer waits for every reader");
                program.finish(PARTS as u64 + reader);
            }
            assert_eq!(program.ready(), [PARTS as u64 + n]);
        }
    }

    #[test]
    fn few_predecessors_get_one_direct_edge_each() {
        let mut program = Program::over(&[20]);
        (0..10).for_each(|_| _ = program.submit(&one(Mode::In, 0..20)));
        (0..20).for_each(|part| _ = program.submit(&one(Mode::In, part..part + 1)));
        assert_eq!(program.submit(&one(Mode::Out, 0..20)), 30);
    }

    #[test]
    fn task_after_a_group_waits_for_its_last_member() {
        for group in GROUPS {
            let mut program = Program::over(&[1]);
            (0..100).for_each(|_| _ = program.submit(&one(group, 0..1)));
            (0..100).for_each(|_| _ = program.submit(&one(Mode::In, 0..1)));
            (0..100).for_each(|_| _ = program.submit(&one(group, 0..1)));
            for (from, then) in [(0, 100), (100, 200), (200, 300)] {
                for member in (from..then).rev() {
                    assert_eq!(program.ready(), (from..=member).collect::<Vec<_>>());
                    program.finish(member);
                }
            }
        }
    }

    #[test]
    fn poison_of_one_member_reaches_only_users_of_the_value() {
        for failing in [0, 3, 99] {
            let mut program = Program::over(&[1]);
            (0..100).for_each(|_| _ = program.submit(&one(Mode::Concurrent, 0..1)));
            // Some fail before the join is made, some after.
            let fail = |program: &mut Program| {
                program.tasks[failing as usize].set_poison(Arc::new(TaskFailure::for_tests("one")));
                program.finish(failing);
            };
            if failing == 3 {
                fail(&mut program);
            }
            (0..40).for_each(|_| _ = program.submit(&one(Mode::In, 0..1)));
            program.submit(&one(Mode::Reduction(OpId(7)), 0..1));
            program.submit(&one(Mode::Out, 0..1));
            program.submit(&one(Mode::In, 0..1));
            if failing != 3 {
                fail(&mut program);
            }
            (0..100).filter(|member| *member != failing).for_each(|member| program.finish(member));
            (100..140).for_each(|reader| program.finish(reader));
            (140..143).for_each(|task| program.finish(task));
            let poisoned = |task: usize| program.tasks[task].is_poisoned();
            assert!((100..=140).all(poisoned), "the readers and the task that updates the value");
            assert!(!poisoned(141) && !poisoned(142), "the task that overwrites the value, and its reader");
        }
    }

    #[test]
    fn poison_of_an_ended_member_survives_shortening() {
        let mut program = Program::over(&[1]);
        (0..5).for_each(|_| _ = program.submit(&one(Mode::Concurrent, 0..1)));
        program.tasks[3].set_poison(Arc::new(TaskFailure::for_tests("one")));
        program.finish(3);
        (5..100).for_each(|_| _ = program.submit(&one(Mode::Concurrent, 0..1)));
        program.submit(&one(Mode::In, 0..1));
        (0..100).filter(|member| *member != 3).for_each(|member| program.finish(member));
        assert!(program.tasks[100].is_poisoned());
    }

    #[test]
    fn reader_after_ended_readers_takes_no_room() {
        let mut program = Program::over(&[1]);
        for reader in 0..100 {
            program.submit(&one(Mode::In, 0..1));
            program.finish(reader);
        }
        assert_eq!(program.datum.history.lock().longest_list(), 2);
        assert_eq!(program.submit(&one(Mode::Out, 0..1)), 0, "it has no predecessor");
        assert_eq!(program.ready(), [100]);
    }

    #[test]
    fn lists_stay_short() {
        for mode in [Mode::In, Mode::Concurrent] {
            for before in [Mode::In, Mode::Commutative] {
                let mut program = Program::over(&[1]);
                (0..1000).for_each(|_| _ = program.submit(&one(before, 0..1)));
                (0..1000).for_each(|_| _ = program.submit(&one(mode, 0..1)));
                let longest = program.datum.history.lock().longest_list();
                assert!(longest <= 2 * MOST, "{before}, then {mode}: room for {longest}");
            }
        }
    }

    #[test]
    fn long_chain_of_joins_finishes_without_recursion() {
        let mut program = Program::over(&[1]);
        (0..200_000).for_each(|_| _ = program.submit(&one(Mode::In, 0..1)));
        program.submit(&one(Mode::Out, 0..1));
        (0..200_000).rev().for_each(|reader| program.finish(reader));
        assert_eq!(program.ready(), [200_000]);
    }

    #[test]
    fn only_giving_up_memory_waits_for_an_empty_region() {
        let mut program = Program::over(&[8]);
        (0..50).for_each(|_| _ = program.submit(&one(Mode::Inout, 3..3)));
        assert_eq!(program.submit(&one(Mode::Inout, 0..8)), 0);
        program.finish(50);
        assert!(program.give_up() > 0);
        for task in (0..50).rev() {
            assert_eq!(program.ready().len() as u64, task + 1);
            program.finish(task);
        }
        assert_eq!(program.ready(), [51]);
    }
}
