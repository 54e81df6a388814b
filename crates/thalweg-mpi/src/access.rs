//! Accesses of a cluster's tasks, and what each rank does for them.
//!
//! For a task that runs on rank `e` and a tile that rank `o` owns, in the order of submission:
//!
//! | access | before the task | after the task |
//! | --- | --- | --- |
//! | `in`, `inout` | the boxes that `e` lacks are sent by `o` and received by `e` | |
//! | `out`, `inout` | | copies on all ranks but `e` become invalid; if `e` is not `o`, `e` sends the region to `o` |
//! | `reduction` | `e` makes an array of identities | `e` sends the array to `o`, which combines it with the region |
//!
//! Ranks other than `e` and `o` do nothing, except that a write invalidates their copies.

use crate::core::{Core, Op, Submission, Way};
use crate::data::{Directories, Directory, Tile};
use crate::dims::Dims;
use crate::transfer::{Label, receive, send};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use thalweg::error::SubmitError;
use thalweg::memory::{self, Element, Reducer};
use thalweg::ndarray::{Array, ArrayView, ArrayViewMut, Ix1};
use thalweg::region::Block;
use thalweg::task::{AccessSpec, Data, Inout, Input, Output};

/// How a task uses a region, as far as ranks are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Read,
    Write,
    Update,
    Reduce,
}

/// An access without its types.
pub(crate) struct Facts {
    pub(crate) data: u64,
    pub(crate) tile: u32,
    pub(crate) block: Block,
    pub(crate) usage: Use,
    pub(crate) owner: u32,
    /// Whether the region is inside of the tile.
    pub(crate) inside: bool,
    pub(crate) core: *const Core,
}

/// The steps of [the table](self), on this rank. Implemented by accesses only.
pub trait Steps {
    #[doc(hidden)]
    fn visit(&self, see: &mut dyn FnMut(&dyn Access));
}

/// The steps of one access.
#[doc(hidden)]
#[expect(private_interfaces, reason = "only this crate calls and implements these methods")]
pub trait Access {
    fn facts(&self) -> Facts;
    /// Whether this rank owns the tile or has a copy of parts of it.
    fn is_local(&self) -> bool;
    fn before(&self, run: u32, cause: &Submission) -> Result<(), SubmitError>;
    fn after(&self, run: u32, cause: &Submission) -> Result<(), SubmitError>;
    /// Combines this access's contribution, if the access is a reduction: the part of `after` that a plan repeats.
    fn combine(&self, _run: u32, _cause: &Submission) -> Result<(), SubmitError> {
        Ok(())
    }
    /// The tile's data object, with the tile's number.
    fn directory(&self) -> (Rc<dyn Directories>, u32);
}

/// All accesses of a task of a cluster: a single access, a tuple of up to eight, a `Vec`, or a nesting of these.
pub trait Accesses: Steps {
    /// The form in which the local task stores them.
    type Stored: memory::AccessList;
    /// The local arrays, on the rank that runs the task.
    #[doc(hidden)]
    type Held;
    /// The accesses of the local task.
    #[doc(hidden)]
    type Local<'a>: thalweg::task::Accesses<Stored = Self::Stored>;

    #[doc(hidden)]
    fn hold(&self) -> Self::Held;

    #[doc(hidden)]
    fn local<'a>(&self, held: &'a Self::Held) -> Self::Local<'a>;
}

/// Accesses that serve any number of tasks, one after the other, as those of a [recording](crate::Recording) do. Those
/// to [bound](crate::Cluster::bound) data serve one task.
pub trait Repeated: Accesses {}

impl<T: Element, S: Dims> Tile<'_, T, S> {
    #[inline]
    pub(crate) fn facts(&self, usage: Use) -> Facts {
        let (state, core) = (self.state(), self.core());
        let owner = state.directory.owner.get();
        let whole = Block::from_corners([0; 4], state.shape);
        Facts {
            data: self.object.id,
            tile: self.number,
            block: self.block,
            usage,
            owner,
            inside: whole.encloses(&self.block),
            core: Rc::as_ptr(core),
        }
    }

    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.object.is_local(self.number)
    }

    fn label(&self, block: &Block) -> Label {
        (self.object.id, self.number, *block)
    }

    /// Brings the boxes of the region that rank `run` lacks.
    pub(crate) fn bring(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        let (state, core) = (&self.state().directory, self.core());
        let (owner, me) = (state.owner.get(), core.rank);
        if owner == run {
            return Ok(());
        }
        if me == run {
            let missing = state.valid.borrow().missing(&self.block);
            state.valid.borrow_mut().insert(&self.block);
            for block in missing {
                self.transfer(Way::From, block, owner, cause)?;
            }
        } else if me == owner {
            let missing = state.with(run, |valid| {
                let missing = valid.missing(&self.block);
                valid.insert(&self.block);
                missing
            });
            for block in missing {
                self.transfer(Way::To, block, run, cause)?;
            }
        }
        Ok(())
    }

    /// Makes copies on ranks other than `run` invalid, and brings the region to its owner.
    pub(crate) fn written(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        let (state, core) = (&self.state().directory, self.core());
        let (owner, me) = (state.owner.get(), core.rank);
        if me == owner {
            state.others.borrow_mut().iter_mut().for_each(|(_, valid)| valid.remove(&self.block));
            if run != owner {
                state.with(run, |valid| valid.insert(&self.block));
            }
        } else if me == run {
            state.valid.borrow_mut().insert(&self.block);
        } else {
            state.valid.borrow_mut().remove(&self.block);
        }
        if self.block.is_empty() || owner == run {
            return Ok(());
        }
        if me == run {
            self.transfer(Way::To, self.block, owner, cause)?;
        } else if me == owner {
            self.transfer(Way::From, self.block, run, cause)?;
        }
        Ok(())
    }

    /// Sends or receives a box of the tile. While a plan is made, replays repeat the message over a channel.
    fn transfer(&self, way: Way, block: Block, peer: u32, cause: &Submission) -> Result<(), SubmitError> {
        let core = self.core();
        let channel = core.note(|channel| {
            let (object, number) = (self.object.clone(), self.number);
            Op::Message(Box::new(move |cause| {
                Tile { object: &object, number, block }.message(way, peer, Some(channel), cause)
            }))
        });
        Self { block, ..*self }.message(way, peer, channel, cause)
    }

    /// Sends or receives the region.
    fn message(&self, way: Way, peer: u32, channel: Option<u32>, cause: &Submission) -> Result<(), SubmitError> {
        let (core, local, label) = (self.core(), self.local(), self.label(&self.block));
        match way {
            Way::To => send(core, (&local, self.block), (peer, channel), label, cause),
            Way::From => receive(core, (&local, self.block), peer, label, cause),
        }
    }
}

impl Directory {
    /// Calls `f` with the valid boxes of another rank; on the owner.
    fn with<R>(&self, rank: u32, f: impl FnOnce(&mut crate::boxes::Boxes) -> R) -> R {
        let mut others = self.others.borrow_mut();
        let at = others.iter().position(|(other, _)| *other == rank).unwrap_or_else(|| {
            others.push((rank, Default::default()));
            others.len() - 1
        });
        f(&mut others[at].1)
    }
}

macro_rules! accesses {
    ($($(#[$doc:meta])* $name:ident => $local:ident, $make:ident, $usage:ident, $reads:literal, $writes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'d, T, S: Dims = Ix1>(pub(crate) Tile<'d, T, S>);

        #[expect(private_interfaces, reason = "as for the trait")]
        impl<T: Element, S: Dims> Access for $name<'_, T, S> {
            fn facts(&self) -> Facts {
                self.0.facts(Use::$usage)
            }

            #[inline]
            fn is_local(&self) -> bool {
                self.0.is_local()
            }

            fn before(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
                if $reads { self.0.bring(run, cause) } else { Ok(()) }
            }

            fn after(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
                if $writes { self.0.written(run, cause) } else { Ok(()) }
            }

            fn directory(&self) -> (Rc<dyn Directories>, u32) {
                (self.0.object.clone(), self.0.number)
            }
        }

        impl<T: Element, S: Dims> Steps for $name<'_, T, S> {
            #[inline]
            fn visit(&self, see: &mut dyn FnMut(&dyn Access)) {
                see(self);
            }
        }

        impl<T: Element, S: Dims> Repeated for $name<'_, T, S> {}

        impl<T: Element, S: Dims> Accesses for $name<'_, T, S> {
            type Stored = <$local<'static, T, S> as AccessSpec>::Stored;
            type Held = Data<T, S>;
            type Local<'a> = $local<'a, T, S>;

            fn hold(&self) -> Data<T, S> {
                self.0.local()
            }

            fn local<'a>(&self, held: &'a Data<T, S>) -> $local<'a, T, S> {
                held.block(self.0.block).$make()
            }
        }
    )*};
}

accesses! {
    /// A region that the task reads; made by [`Tile::input`].
    Reads => Input, input, Read, true, false;
    /// A region that the task overwrites; made by [`Tile::output`].
    Writes => Output, output, Write, false, true;
    /// A region that the task reads and writes; made by [`Tile::inout`].
    Updates => Inout, inout, Update, true, true;
}

/// A region to which the task contributes; made by [`Tile::reduction`].
pub struct Reduces<'d, T, S: Dims, R> {
    tile: Tile<'d, T, S>,
    reducer: R,
    /// The contribution, on the rank that runs the task.
    contribution: RefCell<Option<Data<T, S>>>,
}

impl<T: Element, S: Dims, R> fmt::Debug for Reduces<'_, T, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reduces({:?})", self.tile)
    }
}

impl<'d, T: Element, S: Dims, R: Reducer<T>> Reduces<'d, T, S, R> {
    pub(crate) fn new(tile: Tile<'d, T, S>, reducer: R) -> Self {
        Self { tile, reducer, contribution: RefCell::default() }
    }

    /// Adds a contribution to the home copy.
    fn add(&self, contribution: &Data<T, S>) -> Result<(), SubmitError> {
        let (home, reducer) = (self.tile.local(), self.reducer.clone());
        let accesses = (contribution.input(), home.block(self.tile.block).inout());
        let task = self.tile.core().runtime().task("combine", accesses).cpu(move |_, (from, to)| {
            let (from, mut to): (ArrayView<'_, T, S>, ArrayViewMut<'_, T, S>) = (from.into(), to.into());
            to.zip_mut_with(&from, |to, from| reducer.combine(to, *from));
        });
        task.submit().map(drop)
    }
}

#[expect(private_interfaces, reason = "as for the trait")]
impl<T: Element, S: Dims, R: Reducer<T>> Access for Reduces<'_, T, S, R> {
    fn facts(&self) -> Facts {
        self.tile.facts(Use::Reduce)
    }

    fn is_local(&self) -> bool {
        self.tile.is_local()
    }

    fn before(&self, _: u32, _: &Submission) -> Result<(), SubmitError> {
        Ok(())
    }

    fn after(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        let (tile, core) = (&self.tile, self.tile.core());
        let owner = tile.state().directory.owner.get();
        if core.rank == run || core.rank == owner {
            core.note(|_| Op::Combine);
            self.combine(run, cause)?;
        }
        // The owner writes the region, wherever the contribution comes from.
        tile.written(owner, cause)
    }

    fn combine(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        let (tile, core) = (&self.tile, self.tile.core());
        let (owner, me) = (tile.state().directory.owner.get(), core.rank);
        if tile.is_empty() {
            return Ok(());
        }
        let mine = self.contribution.borrow_mut().take();
        let contribution = mine.unwrap_or_else(|| core.runtime().zeros(S::of(&tile.block.extents())));
        let all = Block::from_corners([0; 4], tile.block.extents());
        let label = tile.label(&tile.block);
        match (me == run, me == owner) {
            (true, true) => {}
            (true, _) => send(core, (&contribution, all), (owner, None), label, cause)?,
            _ => receive(core, (&contribution, all), run, label, cause)?,
        }
        if me == owner { self.add(&contribution) } else { Ok(()) }
    }

    fn directory(&self) -> (Rc<dyn Directories>, u32) {
        (self.tile.object.clone(), self.tile.number)
    }
}

impl<T: Element, S: Dims, R: Reducer<T>> Steps for Reduces<'_, T, S, R> {
    #[inline]
    fn visit(&self, see: &mut dyn FnMut(&dyn Access)) {
        see(self);
    }
}

impl<T: Element, S: Dims, R: Reducer<T>> Repeated for Reduces<'_, T, S, R> {}

impl<T: Element, S: Dims, R: Reducer<T>> Accesses for Reduces<'_, T, S, R> {
    type Stored = <Inout<'static, T, S> as AccessSpec>::Stored;
    type Held = Data<T, S>;
    type Local<'a> = Inout<'a, T, S>;

    fn hold(&self) -> Data<T, S> {
        let identities = Array::from_elem(S::of(&self.tile.block.extents()), self.reducer.identity());
        let contribution = self.tile.core().runtime().array(identities);
        *self.contribution.borrow_mut() = Some(contribution.clone());
        contribution
    }

    fn local<'a>(&self, held: &'a Data<T, S>) -> Inout<'a, T, S> {
        held.inout()
    }
}

impl<A: Steps> Steps for Vec<A> {
    fn visit(&self, see: &mut dyn FnMut(&dyn Access)) {
        self.iter().for_each(|access| access.visit(see));
    }
}

impl<A: Repeated> Repeated for Vec<A> {}

impl<A: Accesses> Accesses for Vec<A> {
    type Stored = memory::List<A::Stored>;
    type Held = Vec<A::Held>;
    type Local<'a> = Vec<A::Local<'a>>;

    fn hold(&self) -> Self::Held {
        self.iter().map(A::hold).collect()
    }

    fn local<'a>(&self, held: &'a Self::Held) -> Self::Local<'a> {
        self.iter().zip(held).map(|(access, held)| access.local(held)).collect()
    }
}

macro_rules! tuples {
    ($(($($a:ident $i:tt),*))*) => {$(
        impl<$($a: Steps),*> Steps for ($($a,)*) {
            #[inline]
            fn visit(&self, see: &mut dyn FnMut(&dyn Access)) {
                $(self.$i.visit(see);)*
            }
        }

        impl<$($a: Repeated),*> Repeated for ($($a,)*) {}

        impl<$($a: Accesses),*> Accesses for ($($a,)*) {
            type Stored = ($($a::Stored,)*);
            type Held = ($($a::Held,)*);
            type Local<'a> = ($($a::Local<'a>,)*);

            fn hold(&self) -> Self::Held {
                ($(self.$i.hold(),)*)
            }

            fn local<'a>(&self, held: &'a Self::Held) -> Self::Local<'a> {
                ($(self.$i.local(&held.$i),)*)
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
