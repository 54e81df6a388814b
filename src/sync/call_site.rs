//! The place in a program's source from which it calls the runtime, in one word.
//!
//! Rust's compiler makes a [`Location`] for each caller, and every task keeps the address of one. Programs in other
//! languages have places too, but nothing else can make a `Location`. So the lowest bit of the address tells which of
//! two types it points to.
//!
//! Invariants: the address is never null, and what it points to is never freed. Places of other languages are interned:
//! a place that is named again takes no more memory, so their number is bounded by the size of the program's source.

use super::forked::share;
use rustc_hash::FxHashMap;
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{LazyLock, Mutex};

/// Set in the address of a [`Named`].
const NAMED: usize = 1;
const _: () = assert!(align_of::<Location<'_>>() > NAMED && align_of::<Named>() > NAMED);

/// A place in a program's source: a file, a line and a column.
///
/// The runtime keeps one for each task and shows it in errors, reports and traces. A binding for another language
/// names the places of its own programs ([`TaskBuilder::submitted_at`](crate::TaskBuilder::submitted_at)).
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::CallSite;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1.0; 8]);
/// let site = CallSite::named("jacobi.f90", 31, 1);
/// rt.task("fail", (x.inout(),)).cpu(|_, _| Err::<(), _>("no")).submitted_at(site).submit()?;
/// assert!(rt.wait().unwrap_err().to_string().contains("jacobi.f90:31:1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSite(pub(super) NonNull<u8>);

/// A place that a binding has named.
#[repr(align(8))]
struct Named {
    file: Box<str>,
    line: u32,
    column: u32,
}

// SAFETY: a call site is a shared reference to one of two types that are `Sync`, and that nothing changes.
unsafe impl Send for CallSite {}
// SAFETY: as for `Send`.
unsafe impl Sync for CallSite {}

impl CallSite {
    /// The place from which the current function was called, if it is marked by `#[track_caller]`.
    #[track_caller]
    #[inline]
    pub(crate) fn caller() -> Self {
        Location::caller().into()
    }

    /// The place with these numbers in a file. Lines and columns are counted from 1.
    ///
    /// The first call for a place keeps its file name until the process ends. Each further call looks it up under a
    /// lock, so a program that submits many tasks from one place keeps the call site.
    pub fn named(file: &str, line: u32, column: u32) -> Self {
        static NAMES: LazyLock<Mutex<FxHashMap<(u32, u32), Vec<&'static Named>>>> = LazyLock::new(Mutex::default);
        let _no_fork = share();
        let mut names = NAMES.lock().unwrap_or_else(|e| e.into_inner());
        let names = names.entry((line, column)).or_default();
        let kept = names.iter().find(|kept| *kept.file == *file).copied().unwrap_or_else(|| {
            let kept: &'static Named = Box::leak(Box::new(Named { file: file.into(), line, column }));
            names.push(kept);
            kept
        });
        Self(NonNull::from(kept).cast::<u8>().map_addr(|address| address | NAMED))
    }

    /// The file: as the compiler knows it, or as the binding has named it.
    pub fn file(self) -> &'static str {
        self.parts().0
    }

    /// The line in the file, counted from 1.
    pub fn line(self) -> u32 {
        self.parts().1
    }

    /// The column in the line, counted from 1.
    pub fn column(self) -> u32 {
        self.parts().2
    }

    /// A number that differs for call sites that differ.
    #[inline]
    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    fn parts(self) -> (&'static str, u32, u32) {
        if self.address() & NAMED != 0 {
            // SAFETY: only `named` sets the bit. The rest of the address is that of a `Named`, which is never freed.
            let named = unsafe { &*self.0.as_ptr().map_addr(|address| address & !NAMED).cast::<Named>() };
            return (&named.file, named.line, named.column);
        }
        // SAFETY: without the bit, the address was made from a `&'static Location`.
        let location = unsafe { self.0.cast::<Location<'static>>().as_ref() };
        (location.file(), location.line(), location.column())
    }
}

/// The place that a function marked by `#[track_caller]` has got, for code that submits later than it was called.
impl From<&'static Location<'static>> for CallSite {
    #[inline]
    fn from(location: &'static Location<'static>) -> Self {
        Self(NonNull::from(location).cast())
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = self.parts();
        write!(f, "{file}:{line}:{column}")
    }
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallSite({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::CallSite;

    #[test]
    fn places_keep_their_parts() {
        let here = CallSite::caller();
        assert_eq!((here.file(), here.line()), (file!(), line!() - 1));
        let named = CallSite::named("solver.c", 7, 3);
        assert_eq!((named.file(), named.line(), named.column()), ("solver.c", 7, 3));
        assert_eq!(named.to_string(), "solver.c:7:3");
        assert_ne!(here, named);
    }

    #[test]
    fn a_place_is_named_once() {
        let site = CallSite::named("twice.c", 1, 2);
        assert_eq!(site, CallSite::named("twice.c", 1, 2));
        assert_ne!(site, CallSite::named("twice.c", 2, 1));
    }
}
