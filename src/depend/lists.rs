//! Task lists in a history: the readers, or the members of a group. Lists are kept short by forgetting tasks that no
//! newcomer has to wait for, and by replacing tasks with joins.

use super::Mode;
use super::join::{MOST, Tasks, matters};
use super::register::Newcomer;
use crate::sync::Flow;

/// Returns whether an access with this mode uses the last group's value or needs only ordering.
#[inline]
pub(super) fn flow(mode: Mode) -> Flow {
    if mode.relies_on_value() { Flow::Value } else { Flow::Order }
}

/// Makes room for one more task in a list of tasks that are waited for with this flow. Forgets tasks that no longer
/// matter. If that is not enough, a join replaces all tasks except the newcomer and its siblings. Because there may be
/// many siblings, the next attempt is made only when the list is twice as long.
#[inline]
pub(super) fn make_room(list: &mut Tasks, flow: Flow, newcomer: &mut Newcomer<'_>) {
    if list.len() >= MOST && list.len().is_power_of_two() && !newcomer.keeps_finished() {
        shorten(list, flow, newcomer);
    }
}

/// Adds a reader. If there are several readers, and no newcomer has to wait for the last one any more, the new reader
/// replaces it. So if tasks read a data object one after the other and none ever writes it, only a few of these tasks
/// are kept in memory.
#[inline(always)] // on the path of every task
pub(super) fn add_reader(readers: &mut Tasks, newcomer: &mut Newcomer<'_>) {
    if readers.len() < 2 { readers.push(newcomer.share()) } else { add_to_several(readers, newcomer) }
}

fn add_to_several(readers: &mut Tasks, newcomer: &mut Newcomer<'_>) {
    if let Some(last) = readers.last_mut()
        && !newcomer.keeps_finished()
        && !matters(last, Flow::Order)
    {
        *last = newcomer.share();
        return;
    }
    make_room(readers, Flow::Order, newcomer);
    readers.push(newcomer.share());
}

#[cold]
fn shorten(list: &mut Tasks, flow: Flow, newcomer: &mut Newcomer<'_>) {
    list.retain(|task| matters(task, flow));
    if list.len() <= MOST / 2 {
        return;
    }
    let (mut others, mut siblings) = (Vec::with_capacity(list.len()), Tasks::new());
    for task in list.drain(..) {
        match newcomer.is_sibling(&task) {
            true => siblings.push(task),
            false => others.push((task, flow)),
        }
    }
    forget(list);
    list.append(&mut siblings);
    match others.len() > MOST / 2 {
        true => list.push(newcomer.join(others)),
        false => list.extend(others.into_iter().map(|(task, _)| task)),
    }
}

/// Empties a list. Frees its memory if the list has been long, which happens if finished tasks are kept for the graph
/// or if several lists were united.
#[inline]
pub(super) fn forget(list: &mut Tasks) {
    if list.capacity() > 2 * MOST {
        *list = Tasks::new();
    } else {
        list.clear();
    }
}
