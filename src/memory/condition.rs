//! The number that decides whether a loop of a recording continues, read from host memory between two iterations.

use super::{DataCell, Element};
use crate::sync::Idle;

/// Returns the first element of an array between two rounds of the graph that writes it. The caller must have checked
/// that the array has elements of type `T`, is in host memory, and is written by a task of the graph to which `_idle`
/// belongs.
pub(crate) fn number_between_rounds<T: Element>(cell: &DataCell, _idle: &Idle<'_>) -> T {
    debug_assert!(cell.datum.element_bytes == size_of::<T>() && cell.datum.bytes() > 0);
    // SAFETY: `runtime/record/condition.rs` makes the checks above. No task of the graph runs, as `Idle` proves. Tasks
    // outside the graph do not write the array between two rounds of a loop, because the graph writes it and so holds
    // it until the loop has ended (`depend/replay/border.rs`). The loop keeps the data object registered.
    unsafe { cell.base().cast::<T>().read() }
}
