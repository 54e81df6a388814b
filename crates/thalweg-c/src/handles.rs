//! Handles: numbers that name objects of this library.
//!
//! A handle contains a slot and its generation, so a handle that was released is found, even if the slot has a new
//! object. Invariant: an object is used only while its entry is held, so releasing it on another thread is safe.

use crate::status::Problem;
use sharded_slab::{Entry, Slab};
use std::sync::LazyLock;

/// The objects of one type.
pub(crate) type Table<T> = LazyLock<Slab<T>>;

/// Returns an empty table.
pub(crate) const fn table<T>() -> Table<T> {
    LazyLock::new(Slab::new)
}

/// Stores an object and returns its handle's number, which is never 0.
pub(crate) fn insert<T>(call: &str, table: &Table<T>, object: T) -> Result<u64, Problem> {
    match table.insert(object) {
        Some(key) => Ok(key as u64 + 1),
        None => Err(Problem::invalid(call, "there are too many handles; try releasing some")),
    }
}

/// Returns the object with this handle.
pub(crate) fn get<'t, T>(call: &str, what: &str, table: &'t Table<T>, id: u64) -> Result<Entry<'t, T>, Problem> {
    key(id).and_then(|key| table.get(key)).ok_or_else(|| refuse(call, what, id))
}

/// Removes the object with this handle.
pub(crate) fn take<T>(call: &str, what: &str, table: &Table<T>, id: u64) -> Result<T, Problem> {
    key(id).and_then(|key| table.take(key)).ok_or_else(|| refuse(call, what, id))
}

fn key(id: u64) -> Option<usize> {
    id.checked_sub(1).and_then(|key| usize::try_from(key).ok())
}

#[cold]
fn refuse(call: &str, what: &str, id: u64) -> Problem {
    let problem = if id == 0 { "is zero" } else { "was released, or is not one" };
    Problem::invalid(call, &format!("its {what} {problem}; try a handle that is in use"))
}
