//! The public entry point: [`Cluster`].

use crate::access::Accesses;
use crate::bound::Bound;
use crate::core::Core;
use crate::data::{ClusterData, Tile};
use crate::dims::Dims;
use crate::error::ClusterError;
#[cfg(feature = "mpi")]
use crate::options::Options;
use crate::owners::TileAt;
use crate::task::TaskBuilder;
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
#[cfg(feature = "mpi")]
use thalweg::Builder;
use thalweg::Runtime;
use thalweg::memory::Element;
use thalweg::ndarray::Array;
use thalweg::task::Data;

/// One rank of a program that runs on many machines; see the [crate](crate).
///
/// Every rank makes the same calls in the same order: of this type, and of the data objects and tasks that it makes.
/// The handles belong to one thread.
///
/// The rank ends when the cluster and its data objects have been dropped: its tasks are finished, and the other ranks
/// are served until all have ended.
pub struct Cluster {
    pub(crate) core: Rc<Core>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster(rank {} of {})", self.core.rank, self.core.size)
    }
}

impl Cluster {
    /// Starts this rank over MPI, with its own runtime. A program that was not started by `mpirun` is the only
    /// rank.
    ///
    /// # Errors
    /// The runtime cannot be built, MPI has been initialized before, or it grants too little to threads.
    #[cfg(feature = "mpi")]
    pub fn init(builder: Builder) -> Result<Self, ClusterError> {
        Options::new().init(builder)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.core.rank as usize
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.core.size as usize
    }

    /// This rank's runtime, for questions. Its tasks are not ordered with those of the cluster.
    pub fn runtime(&self) -> &Runtime {
        self.core.runtime()
    }

    /// Makes a data object of one tile with these elements. Every rank passes as many; those of the owner count.
    ///
    /// # Panics
    /// Panics if there is no such rank.
    #[track_caller]
    pub fn data<T: Element>(&self, owner: usize, elements: Vec<T>) -> ClusterData<T> {
        let data = self.made(&[elements.len()], &[elements.len()], |_| owner);
        if owner == self.rank() && !elements.is_empty() {
            data.all().set_local(Some(self.core.runtime().data(elements)));
        }
        data
    }

    /// Makes a data object of one tile from an array. Every rank passes one of the same shape; that of the owner
    /// counts.
    ///
    /// # Panics
    /// Panics if there is no such rank.
    #[track_caller]
    pub fn array<T: Element, S: Dims>(&self, owner: usize, array: Array<T, S>) -> ClusterData<T, S> {
        let data = self.made(array.shape(), array.shape(), |_| owner);
        if owner == self.rank() && !array.is_empty() {
            data.all().set_local(Some(self.core.runtime().array(array)));
        }
        data
    }

    /// Makes a data object of zeros in tiles of this shape. Each tile is owned by the rank that `owner_of` returns,
    /// such as [`owners::block`](crate::owners::block). Memory is used only for tiles that tasks of this rank touch.
    ///
    /// ```
    /// # use thalweg::Runtime;
    /// # use thalweg_mpi::{ClusterData, Network, Options, owners};
    /// # let end = Network::new(1).endpoints().remove(0);
    /// # let cluster = Options::new().over(end, Runtime::builder().compute_units("1:CPU:1"))?;
    /// use thalweg::ndarray::Ix2;
    /// let (rows, columns) = owners::square(cluster.ranks());
    /// let a: ClusterData<f64, Ix2> = cluster.distributed([1000, 1000], [256, 256], owners::block_cyclic(rows, columns));
    /// assert_eq!(a.grid(), [4, 4]);
    /// assert_eq!(a.tile([3, 0]).shape(), [232, 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if `owner_of` returns a rank that does not exist.
    #[track_caller]
    pub fn distributed<T: Element, S: Dims>(
        &self,
        shape: impl thalweg::ndarray::IntoDimension<Dim = S>,
        tile: impl thalweg::ndarray::IntoDimension<Dim = S>,
        owner_of: impl Fn(TileAt<'_>) -> usize,
    ) -> ClusterData<T, S> {
        let (shape, tile) = (shape.into_dimension(), tile.into_dimension());
        self.made(shape.slice(), tile.slice(), owner_of)
    }

    #[track_caller]
    fn made<T: Element, S: Dims>(
        &self,
        shape: &[usize],
        tile: &[usize],
        owner_of: impl Fn(TileAt<'_>) -> usize,
    ) -> ClusterData<T, S> {
        let ranks = self.ranks();
        let grid: Vec<usize> = shape.iter().zip(tile).map(|(len, tile)| len.div_ceil((*tile).max(1))).collect();
        let mut owners = Vec::new();
        let data = ClusterData::new(&self.core, shape, tile, |tile| {
            let owner = owner_of(TileAt { tile, grid: &grid, ranks });
            assert!(owner < ranks, "cannot make data: rank {owner} owns tile {tile:?}, but there are {ranks} ranks");
            owners.push(owner as u32);
            owner as u32
        });
        self.core.submission(Cow::Borrowed("data"), Location::caller(), (shape, tile, size_of::<T>(), owners));
        data
    }

    /// Makes a data object of this rank's runtime one of the cluster, as a single tile. Every rank makes one of the
    /// same shape; the elements of the owner's count. So a program for one machine keeps its data and its tasks'
    /// accesses:
    ///
    /// ```
    /// # use thalweg::Runtime;
    /// # use thalweg_mpi::{ClusterData, Network, Options, owners};
    /// # let end = Network::new(1).endpoints().remove(0);
    /// # let cluster = Options::new().over(end, Runtime::builder().compute_units("1:CPU:1"))?;
    /// let (x, y) = (cluster.runtime().data(vec![1.0, 2.0]), cluster.runtime().data(vec![0.0]));
    /// let (of_x, of_y) = (cluster.bind(&x, 0), cluster.bind(&y, cluster.ranks() - 1));
    /// let accesses = cluster.bound((x.input(), y.output()))?;
    /// cluster.task("sum", accesses).cpu(|_, (x, y)| y[0] = x.iter().sum()).submit()?;
    /// assert_eq!((cluster.read(&of_x)?, cluster.read(&of_y)?), (vec![1.0, 2.0], vec![3.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The data object stays bound as long as the returned handle or a clone of it exists. Tasks of the rank's runtime
    /// must not use it.
    ///
    /// # Panics
    /// Panics if there is no such rank.
    #[track_caller]
    pub fn bind<T: Element, S: Dims>(&self, local: &Data<T, S>, owner: usize) -> ClusterData<T, S> {
        assert!(owner < self.ranks(), "cannot bind data: there is no rank {owner} among {}", self.ranks());
        let data = ClusterData::of_local(&self.core, local, owner as u32);
        self.core.submission(Cow::Borrowed("bind"), Location::caller(), (local.shape(), size_of::<T>(), owner));
        data
    }

    /// Returns accesses to data objects that are [bound](Self::bind), for [`task`](Self::task).
    ///
    /// # Errors
    /// A data object has no owner, or a mode is not `in`, `out` or `inout`.
    pub fn bound<A: thalweg::task::Accesses>(&self, accesses: A) -> Result<Bound<A>, ClusterError> {
        let refused = |problem| ClusterError::Refused { task: "task".to_owned(), problem };
        self.core.bound.find(accesses).map_err(refused)
    }

    /// Describes a task with this name and these accesses.
    pub fn task<A: Accesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> TaskBuilder<'_, A> {
        TaskBuilder::new(&self.core, name.into(), accesses)
    }

    /// Returns whether a task with these accesses concerns this rank: because it owns one of the tiles, or has a copy.
    /// If not, the rank may leave out the task, unless it would run it because of [`on`](TaskBuilder::on). So a rank's
    /// costs hardly grow with the program, but with its part of it.
    ///
    /// The answer `false` counts as the submission of the task, which must then be left out. Programs with calls of
    /// this method are compared by their messages only.
    pub fn is_local(&self, accesses: &impl crate::access::Steps) -> bool {
        self.core.pruned.set(true);
        let mut local = false;
        accesses.visit(&mut |access| local |= access.is_local());
        if !local {
            self.core.skip(1);
        }
        local
    }

    /// Waits for all tasks of all ranks. Every rank returns at about the same time, with the same result.
    ///
    /// # Errors
    /// The failures on all ranks since the last wait, in the order of submission; or why the cluster cannot continue.
    #[track_caller]
    pub fn wait(&self) -> Result<(), ClusterError> {
        self.core.wait(Location::caller())
    }

    /// Makes `owner` the owner of a tile: later tasks that write it run there. Every rank must make this call.
    /// The content is sent to the new owner, unless it has a copy.
    ///
    /// # Errors
    /// There is no such rank, or the cluster cannot continue.
    #[track_caller]
    pub fn migrate<T: Element, S: Dims>(&self, tile: Tile<'_, T, S>, owner: usize) -> Result<(), ClusterError> {
        let core = &self.core;
        core.check()?;
        if owner >= self.ranks() {
            let problem = format!("there is no rank {owner} among {}; try a smaller one", self.ranks());
            return Err(ClusterError::Refused { task: "migrate".to_owned(), problem });
        }
        let (tile, new) = (tile.whole(), owner as u32);
        let label = (tile.object.id, tile.number, new);
        let cause = core.submission(Cow::Borrowed("migrate"), Location::caller(), label);
        let state = &tile.state().directory;
        let old = state.owner.get();
        if old == new {
            return Ok(());
        }
        tile.bring(new, &cause)?;
        state.owner.set(new);
        core.end_plans();
        // Only the old owner knew the copies of all ranks. It keeps its own, the others forget theirs.
        state.others.borrow_mut().clear();
        state.valid.borrow_mut().clear();
        let mut kept = crate::boxes::Boxes::default();
        kept.insert(&tile.block);
        match core.rank {
            rank if rank == old => *state.valid.borrow_mut() = kept,
            rank if rank == new => state.others.borrow_mut().push((old, kept)),
            _ => {}
        }
        Ok(())
    }

    /// Releases the copies of a tile on all ranks but its owner, and their memory. Every rank that has not left out the
    /// tile's tasks must make this call. A later read sends the tile again.
    ///
    /// # Errors
    /// The cluster cannot continue.
    #[track_caller]
    pub fn release<T: Element, S: Dims>(&self, tile: Tile<'_, T, S>) -> Result<(), ClusterError> {
        self.core.check()?;
        self.core.submission(Cow::Borrowed("release"), Location::caller(), (tile.object.id, tile.number));
        self.core.end_plans();
        let state = &tile.state().directory;
        state.others.borrow_mut().clear();
        state.valid.borrow_mut().clear();
        if state.owner.get() != self.core.rank && !tile.object.is_bound {
            tile.set_local(None);
        }
        Ok(())
    }
}

impl<'d, T: Element, S: Dims> From<&'d ClusterData<T, S>> for Tile<'d, T, S> {
    /// The only tile.
    ///
    /// # Panics
    /// Panics if there are several tiles, or none.
    #[track_caller]
    fn from(data: &'d ClusterData<T, S>) -> Self {
        data.all()
    }
}
