//! Accesses to data objects of this rank's runtime that are bound to the cluster, for programs written for one machine.
//!
//! Every rank makes the same data objects in its own runtime, and binds each to an owner. Such a data object is a tile
//! whose local array exists from the start, so the steps of [accesses](crate::access) apply to it as to any tile. A
//! task's accesses name it by its number, which is looked up here.

use crate::access::{Access, Accesses, Facts, Steps, Use};
use crate::core::Submission;
use crate::data::{ClusterData, Directories, Object, Tile};
use crate::dims::Dims;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};
use thalweg::Mode;
use thalweg::error::SubmitError;
use thalweg::ids::DataId;
use thalweg::memory::Element;
use thalweg::region::Block;
use thalweg::task;

/// A bound data object without its types.
pub(crate) trait AnyBound {
    fn facts(self: Rc<Self>, block: Block, usage: Use) -> Facts;
    fn is_local(&self) -> bool;
    fn bring(self: Rc<Self>, block: Block, run: u32, cause: &Submission) -> Result<(), SubmitError>;
    fn written(self: Rc<Self>, block: Block, run: u32, cause: &Submission) -> Result<(), SubmitError>;
    fn directories(self: Rc<Self>) -> Rc<dyn Directories>;
}

impl<T: Element, S: Dims> AnyBound for Object<T, S> {
    fn facts(self: Rc<Self>, block: Block, usage: Use) -> Facts {
        Tile { object: &self, number: 0, block }.facts(usage)
    }

    fn is_local(&self) -> bool {
        self.tiles.first().is_some_and(|_| Object::is_local(self, 0))
    }

    fn bring(self: Rc<Self>, block: Block, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        Tile { object: &self, number: 0, block }.bring(run, cause)
    }

    fn written(self: Rc<Self>, block: Block, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        Tile { object: &self, number: 0, block }.written(run, cause)
    }

    fn directories(self: Rc<Self>) -> Rc<dyn Directories> {
        self
    }
}

/// The bound data objects of a rank, by their number in its runtime.
#[derive(Default)]
pub(crate) struct BoundData(RefCell<FxHashMap<DataId, Weak<dyn AnyBound>>>);

impl BoundData {
    pub(crate) fn insert<T: Element, S: Dims>(&self, local: &task::Data<T, S>, data: &ClusterData<T, S>) {
        let object: Rc<dyn AnyBound> = data.0.clone();
        let mut map = self.0.borrow_mut();
        if map.len() == map.capacity() {
            map.retain(|_, object| object.strong_count() > 0);
        }
        map.insert(local.id(), Rc::downgrade(&object));
    }

    /// Finds the bound data objects of a task's accesses.
    pub(crate) fn find<A: task::Accesses>(&self, accesses: A) -> Result<Bound<A>, String> {
        let (map, mut steps) = (self.0.borrow(), Vec::new());
        let mut problem = None;
        accesses.visit(&mut |access| {
            let usage = match access.mode() {
                Mode::In => Use::Read,
                Mode::Out => Use::Write,
                Mode::Inout => Use::Update,
                mode => {
                    problem = Some(format!(
                        "its access `{mode}` to {} is for one machine only; try `in`, `out` or `inout`",
                        access.data()
                    ));
                    return;
                }
            };
            match map.get(&access.data()).and_then(Weak::upgrade) {
                Some(object) => steps.push(BoundAccess { object, block: access.block(), usage }),
                None => problem = Some(format!("its {} has no owner; try `Cluster::bind`", access.data())),
            }
        });
        problem.map_or_else(|| Ok(Bound { accesses: RefCell::new(Some(accesses)), steps }), Err)
    }
}

struct BoundAccess {
    object: Rc<dyn AnyBound>,
    block: Block,
    usage: Use,
}

impl Access for BoundAccess {
    fn facts(&self) -> Facts {
        self.object.clone().facts(self.block, self.usage)
    }

    fn is_local(&self) -> bool {
        self.object.is_local()
    }

    fn before(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        match self.usage {
            Use::Read | Use::Update => self.object.clone().bring(self.block, run, cause),
            Use::Write | Use::Reduce => Ok(()),
        }
    }

    fn after(&self, run: u32, cause: &Submission) -> Result<(), SubmitError> {
        match self.usage {
            Use::Write | Use::Update => self.object.clone().written(self.block, run, cause),
            Use::Read | Use::Reduce => Ok(()),
        }
    }

    fn directory(&self) -> (Rc<dyn Directories>, u32) {
        (self.object.clone().directories(), 0)
    }
}

/// Accesses to bound data objects, in any form that tasks of one machine use; made by
/// [`Cluster::bound`](crate::Cluster::bound).
pub struct Bound<A> {
    /// Present until the local task takes them.
    accesses: RefCell<Option<A>>,
    steps: Vec<BoundAccess>,
}

impl<A> fmt::Debug for Bound<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bound({} accesses)", self.steps.len())
    }
}

impl<A> Steps for Bound<A> {
    fn visit(&self, see: &mut dyn FnMut(&dyn Access)) {
        self.steps.iter().for_each(|step| see(step));
    }
}

impl<A: task::Accesses> Accesses for Bound<A> {
    type Stored = A::Stored;
    type Held = ();
    type Local<'a> = A;

    fn hold(&self) {}

    fn local(&self, (): &()) -> A {
        self.accesses.borrow_mut().take().expect("a task is submitted once")
    }
}
