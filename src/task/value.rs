//! Handles of objects that are always accessed as a whole: values of any type, and tokens, which have no content.
//!
//! A value is a data object with one element that never leaves host memory (`Residence`), so tasks that access values
//! run on CPU units. A token has no memory, so tasks that access tokens run on any unit. On devices, a task ordered by
//! a token releases its successors on other devices when it has ended, not when it has been issued.

use super::access::{AccessSpec, UntypedAccess};
use super::handle::{Handle, Kept, Owner};
use super::outcome::Outcome;
use crate::depend::{AccessRecord, Datum};
use crate::error::SubmitError;
use crate::memory::{
    Commutes, DataCell, Follows, OfValue, Overwrites, Reads, Shares, Unseen, Updates, ValueMode, WeaklyReads,
    WeaklyUpdates,
};
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// A value of any type that is registered with a runtime: a mesh, a sparse matrix, an open file. Clones are handles
/// of the same value.
///
/// Made by [`Runtime::value`](crate::Runtime::value), returned by [`Runtime::take`](crate::Runtime::take). Tasks access
/// it as a whole: [`input`](Self::input) gives `&T`, while [`inout`](Self::inout) and
/// [`commutative`](Self::commutative) give `&mut T`. The value lives only in host memory, so tasks that access it run
/// on CPU units; array regions that these tasks also access are copied to the host for them.
///
/// When the last handle is dropped, the value is dropped as soon as the tasks that use it are done. Its destructor
/// runs once, inside an internal task; if it panics, the panic ends there.
///
/// ```
/// use std::collections::BTreeMap;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let words: Value<BTreeMap<&str, usize>> = rt.value(BTreeMap::new()).named("words");
/// for word in ["to", "be", "or", "not", "to", "be"] {
///     rt.task("count", words.commutative()).cpu(move |_, words| *words.entry(word).or_default() += 1).submit()?;
/// }
/// rt.task("print", words.input()).cpu(|_, words| println!("{words:?}")).submit()?;
/// assert_eq!(rt.take(words)?["be"], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Value<T> {
    pub(crate) cell: Arc<DataCell>,
    handle: Arc<Handle>,
    /// Makes the handle invariant in `T`, because a value written through one handle is read through others.
    value: PhantomData<fn(T) -> T>,
}

/// An object that orders tasks and has no memory. It represents state that the runtime cannot see, such as a file, or
/// the state of a device or a library.
///
/// Made by [`Runtime::token`](crate::Runtime::token). A token is accessed like a region, and bodies get `()` for it.
/// Tasks that access it can run on any unit.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let log = rt.token().named("log");
/// for line in ["one", "two", "three"] {
///     rt.task("print", log.inout()).cpu(move |_, ()| println!("{line}")).submit()?; // one after the other
/// }
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Token {
    pub(crate) cell: Arc<DataCell>,
    handle: Arc<Handle>,
}

/// An access to a value with a mode `M`, made by [`Value::input`] and its siblings.
///
/// ```
/// use thalweg::memory::Updates;
/// use thalweg::prelude::*;
/// use thalweg::task::ValueAccess;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let names = rt.value(vec!["one"]);
/// let access: ValueAccess<'_, Vec<&str>, Updates> = names.inout();
/// rt.task("push", access).cpu(|_, names| names.push("two")).submit()?;
/// assert_eq!(rt.take(names)?, ["one", "two"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ValueAccess<'v, T, M>(&'v Value<T>, PhantomData<fn() -> M>);

/// An access to a token with a mode `M`, made by [`Token::input`] and its siblings.
///
/// ```
/// use thalweg::memory::Reads;
/// use thalweg::prelude::*;
/// use thalweg::task::TokenAccess;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let opened = rt.token();
/// let access: TokenAccess<'_, Reads> = opened.input();
/// rt.task("use", access).cpu(|_, ()| ()).submit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TokenAccess<'v, M>(&'v Token, PhantomData<fn() -> M>);

impl<T: Send + Sync + 'static> Value<T> {
    pub(crate) fn new(cell: DataCell, owner: Weak<dyn Owner>) -> Self {
        let cell = Arc::new(cell);
        Self { handle: Handle::new(&cell, owner), cell, value: PhantomData }
    }

    /// Names the value in error messages. The first call wins.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        self.cell.datum.set_name(name.into());
        self
    }

    /// `in`: the task reads the value and gets `&T`.
    pub fn input(&self) -> ValueAccess<'_, T, Reads> {
        ValueAccess(self, PhantomData)
    }

    /// `out`: the task gets `&mut T` but does not rely on the old content, so it runs even after a failure. Once the
    /// task has run, the value is good again. A task that changes nothing accepts the value as it is, as
    /// [`Runtime::accept`] does for regions.
    ///
    /// [`Runtime::accept`]: crate::Runtime::accept
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let list = rt.value(vec![1, 2, 3]);
    /// rt.task("fails", list.inout()).cpu(|_, list| { list.pop(); Err("no") }).submit()?;
    /// rt.task("accept", list.output()).cpu(|_, _| ()).submit()?;
    /// assert!(rt.wait().is_err()); // reports the failure, once
    /// assert_eq!(rt.take(list)?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output(&self) -> ValueAccess<'_, T, Overwrites> {
        ValueAccess(self, PhantomData)
    }

    /// `inout`: the task gets `&mut T`.
    pub fn inout(&self) -> ValueAccess<'_, T, Updates> {
        ValueAccess(self, PhantomData)
    }

    /// `commutative`: the task gets `&mut T`, in any order with other commutative tasks, one at a time.
    pub fn commutative(&self) -> ValueAccess<'_, T, Commutes> {
        ValueAccess(self, PhantomData)
    }

    /// `concurrent`: the task gets `&T` concurrently with other such tasks, and changes only data that a shared
    /// reference can change, such as an atomic or data guarded by a lock. It comes after earlier tasks that read or
    /// update the value, and before later ones.
    pub fn concurrent(&self) -> ValueAccess<'_, T, Shares> {
        ValueAccess(self, PhantomData)
    }

    /// `after`: the task comes after the tasks that change the value, and gets `()`. It can run on any unit, and runs
    /// even if the earlier tasks have failed.
    pub fn after(&self) -> ValueAccess<'_, T, Follows> {
        ValueAccess(self, PhantomData)
    }

    /// `outcome`: the task reads the value, and runs even if the tasks that change it have failed. Its body gets
    /// `Result<&T, &TaskFailure>`; see [`Region::outcome`](super::Region::outcome).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let list = rt.value(vec![1]);
    /// rt.task("fails", list.inout()).cpu(|_, _| "x".parse::<u8>().map(drop)).submit()?;
    /// let look = rt.task("look", list.outcome()).returns(|_, list| match list {
    ///     Ok(list) => list.len().to_string(),
    ///     Err(failure) => failure.to_string(),
    /// });
    /// assert!(look.submit()?.get()?.contains("invalid digit"));
    /// # assert!(rt.wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outcome(&self) -> Outcome<ValueAccess<'_, T, Reads>> {
        Outcome(self.input())
    }

    /// Weak `in`: the task does not wait, gets `()` and can run on any unit; its [children](crate::Context::task)
    /// read the value.
    pub fn weak_input(&self) -> ValueAccess<'_, T, WeaklyReads> {
        ValueAccess(self, PhantomData)
    }

    /// Weak `inout`: the task does not wait, gets `()` and can run on any unit; its [children](crate::Context::task)
    /// may access the value in any way.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let words = rt.value(Vec::new());
    /// let inner = words.clone();
    /// let body = move |cx: &thalweg::Context, ()| {
    ///     for word in ["to", "be"] {
    ///         cx.task("push", inner.inout()).cpu(move |_, words| words.push(word)).submit()?;
    ///     }
    ///     Ok::<(), SubmitError>(())
    /// };
    /// rt.task("parent", words.weak_inout()).cpu(body).submit()?;
    /// assert_eq!(rt.take(words)?, ["to", "be"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weak_inout(&self) -> ValueAccess<'_, T, WeaklyUpdates> {
        ValueAccess(self, PhantomData)
    }
}

impl Token {
    pub(crate) fn new(cell: DataCell, owner: Weak<dyn Owner>) -> Self {
        let cell = Arc::new(cell);
        Self { handle: Handle::new(&cell, owner), cell }
    }

    /// Names the token in error messages. The first call wins.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        self.cell.datum.set_name(name.into());
        self
    }

    /// `in`: the task comes after all tasks that update the token, and may run concurrently with tasks that read it.
    pub fn input(&self) -> TokenAccess<'_, Reads> {
        TokenAccess(self, PhantomData)
    }

    /// `out`: the task comes after all tasks that use the token, and runs even if they have failed.
    pub fn output(&self) -> TokenAccess<'_, Overwrites> {
        TokenAccess(self, PhantomData)
    }

    /// `inout`: the task comes after all earlier tasks that use the token, and before all later ones.
    pub fn inout(&self) -> TokenAccess<'_, Updates> {
        TokenAccess(self, PhantomData)
    }

    /// `commutative`: the task runs in any order with other commutative tasks, one at a time.
    pub fn commutative(&self) -> TokenAccess<'_, Commutes> {
        TokenAccess(self, PhantomData)
    }

    /// `concurrent`: the task may run concurrently with other `concurrent` tasks, but not with any other task that uses
    /// the token.
    pub fn concurrent(&self) -> TokenAccess<'_, Shares> {
        TokenAccess(self, PhantomData)
    }

    /// `after`: like [`input`](Self::input), but the task runs even if the tasks that it comes after have failed.
    pub fn after(&self) -> TokenAccess<'_, Follows> {
        TokenAccess(self, PhantomData)
    }

    /// `outcome`: like [`input`](Self::input), but the task runs even if the tasks that it comes after have failed. Its
    /// body gets `Result<(), &TaskFailure>`.
    pub fn outcome(&self) -> Outcome<TokenAccess<'_, Reads>> {
        Outcome(self.input())
    }

    /// Weak `in`: the task does not wait; its children access the token by [`input`](Self::input) or
    /// [`after`](Self::after).
    pub fn weak_input(&self) -> TokenAccess<'_, WeaklyReads> {
        TokenAccess(self, PhantomData)
    }

    /// Weak `inout`: the task does not wait; its children may access the token in any way.
    pub fn weak_inout(&self) -> TokenAccess<'_, WeaklyUpdates> {
        TokenAccess(self, PhantomData)
    }
}

/// Checks that a task of `runtime` may access this value or token.
#[inline]
fn check(cell: &DataCell, runtime: u64) -> Result<(), SubmitError> {
    let datum: &Datum = &cell.datum;
    datum.expect_access();
    if cell.runtime == runtime { Ok(()) } else { refuse(cell) }
}

#[cold]
fn refuse(cell: &DataCell) -> Result<(), SubmitError> {
    // The caller knows the task's name.
    Err(SubmitError::ForeignData { task: "".into(), data: cell.datum.to_string() })
}

impl<T, M> Sealed for ValueAccess<'_, T, M> {}
impl Sealed for Token {}
impl<M> Sealed for TokenAccess<'_, M> {}

macro_rules! specs {
    ($([$($generics:tt)*] $access:ty => $stored:ident<$($of:ident),*>;)*) => {$(
        impl<$($generics)*, M: ValueMode> AccessSpec for $access {
            type Stored = $stored<$($of),*>;

            #[inline]
            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                check(&self.0.cell, runtime)
            }

            #[inline]
            fn record(&self) -> UntypedAccess<'_> {
                UntypedAccess(AccessRecord { datum: &self.0.cell.datum, block: &Block::ONE, mode: M::MODE })
            }

            #[inline]
            fn store(&self, _: Internal) -> Self::Stored {
                $stored::new(&self.0.cell)
            }

            fn kept(&self) -> Kept {
                Kept::new(&self.0.cell, &self.0.handle)
            }
        }

        impl<$($generics)*, M: ValueMode> fmt::Debug for $access {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} ({})", self.0.cell.datum, M::MODE)
            }
        }
    )*};
}

specs! {
    ['v, T: Send + Sync + 'static] ValueAccess<'v, T, M> => OfValue<T, M>;
    ['v] TokenAccess<'v, M> => Unseen<M>;
}

impl<T> Clone for Value<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), handle: self.handle.clone(), value: PhantomData }
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), handle: self.handle.clone() }
    }
}

impl<T, M> Clone for ValueAccess<'_, T, M> {
    fn clone(&self) -> Self {
        Self(self.0, PhantomData)
    }
}

impl<M> Clone for TokenAccess<'_, M> {
    fn clone(&self) -> Self {
        Self(self.0, PhantomData)
    }
}

impl<T> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cell.datum, f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cell.datum, f)
    }
}
