//! Lists of tasks in a history: of readers, of the members of a group. They are kept short, by forgetting tasks that nobody
//! has to wait for, and by joins.

use super::Mode;
use super::join::{MOST, Tasks, matters};
use super::register::Newcomer;
use crate::sync::Flow;

/// What an access with this mode takes over from the last group.
#[inline]
pub(super) fn flow(mode: Mode) -> Flow {
    if mode.relies_on_value() { Flow::Value } else { Flow::Order }
}

/// Makes room for one more task in a list of those that are waited for with this flow: forgets who need not be waited
/// for, and if that is not enough, puts a join in the place of all but the newcomer and its siblings. Those may be many, so it is
/// tried again with twice as many only.
#[inline]
pub(super) fn make_room(list: &mut Tasks, flow: Flow, newcomer: &mut Newcomer<'_>) {
    if list.len() >= MOST && list.len().is_power_of_two() && !newcomer.keeps_finished() {
        shorten(list, flow, newcomer);
    }
}

/// One more reader: of more than a few in the place of the last one, if nobody has to wait for that any more. So data that
/// are read by one task after the other, and never written, keep few of them in memory.
#[inline(always)] // on the way of every task
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

/// Empties a list, and gives the memory back if it has been long: it was recorded, or several lists in one.
#[inline]
pub(super) fn forget(list: &mut Tasks) {
    if list.capacity() > 2 * MOST {
        *list = Tasks::new();
    } else {
        list.clear();
    }
}
