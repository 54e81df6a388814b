//! Data objects of a cluster, which consist of tiles with owners.
//!
//! Each tile is a separate array. The owner's array is the *home* copy: it holds the latest value of every element once
//! the tasks that write the element have ended. Another rank allocates a copy when it first runs a task on the tile,
//! and tracks which boxes of its copy are valid. The owner tracks the same boxes for every rank. Both derive them from
//! the submitted tasks, so a read needs no request: the owner sends a box exactly when the reader expects it.
//!
//! Handles are not `Send`: all submissions come from one thread, because another order of submissions would be another
//! program.

use crate::access::{Reads, Reduces, Updates, Writes};
use crate::boxes::Boxes;
use crate::core::Core;
use crate::dims::Dims;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use thalweg::memory::{Element, Reducer};
use thalweg::ndarray::Ix1;
use thalweg::region::Block;
use thalweg::task::{Data, Ranges};

/// The owner of a tile and its copies, as far as this rank knows them.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Directory {
    pub(crate) owner: Cell<u32>,
    /// The valid boxes of the copy on this rank, unless it is the owner.
    pub(crate) valid: RefCell<Boxes>,
    /// On the owner: the valid boxes of other ranks.
    pub(crate) others: RefCell<Vec<(u32, Boxes)>>,
}

impl Directory {
    /// Sets the boxes. The owner stays.
    pub(crate) fn set(&self, other: &Self) {
        self.valid.borrow_mut().clone_from(&other.valid.borrow());
        self.others.borrow_mut().clone_from(&other.others.borrow());
    }
}

/// A data object without its types.
pub(crate) trait Directories {
    fn directory(&self, tile: u32) -> &Directory;
}

/// A tile on this rank.
pub(crate) struct TileState<T, S: Dims> {
    pub(crate) directory: Directory,
    pub(crate) shape: [usize; 4],
    /// The home copy on the owner, a copy elsewhere.
    local: RefCell<Option<Data<T, S>>>,
}

pub(crate) struct Object<T, S: Dims> {
    pub(crate) id: u64,
    shape: Vec<usize>,
    pub(crate) tile: Vec<usize>,
    pub(crate) grid: Vec<usize>,
    pub(crate) tiles: Vec<TileState<T, S>>,
    /// Whether the local array belongs to the program, which keeps it.
    pub(crate) is_bound: bool,
    pub(crate) core: Rc<Core>,
}

impl<T, S: Dims> Object<T, S> {
    /// Returns whether this rank owns a tile or has a copy of parts of it.
    #[inline]
    pub(crate) fn is_local(&self, tile: u32) -> bool {
        let directory = &self.tiles[tile as usize].directory;
        directory.owner.get() == self.core.rank || !directory.valid.borrow().is_empty()
    }
}

impl<T, S: Dims> Directories for Object<T, S> {
    fn directory(&self, tile: u32) -> &Directory {
        &self.tiles[tile as usize].directory
    }
}

/// A data object of a cluster: an array in tiles, each owned by one rank.
///
/// Made by [`Cluster::data`](crate::Cluster::data), [`Cluster::array`](crate::Cluster::array) and
/// [`Cluster::distributed`](crate::Cluster::distributed). Clones are handles of the same object.
pub struct ClusterData<T, S: Dims = Ix1>(pub(crate) Rc<Object<T, S>>);

impl<T, S: Dims> Clone for ClusterData<T, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T, S: Dims> fmt::Debug for ClusterData<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterData({} of shape {:?} in tiles of {:?})", self.0.id, self.0.shape, self.0.tile)
    }
}

impl<T: Element, S: Dims> ClusterData<T, S> {
    /// Makes an object whose tiles have these owners, in row-major order.
    pub(crate) fn new(
        core: &Rc<Core>,
        shape: &[usize],
        tile: &[usize],
        mut owner: impl FnMut(&[usize]) -> u32,
    ) -> Self {
        let tile: Vec<usize> = tile.iter().map(|extent| (*extent).max(1)).collect();
        let grid: Vec<usize> = shape.iter().zip(&tile).map(|(len, tile)| len.div_ceil(*tile)).collect();
        let mut index = vec![0; shape.len()];
        let mut tiles = Vec::new();
        for _ in 0..grid.iter().product() {
            let mut extents = [1; 4];
            for (d, at) in index.iter().enumerate() {
                extents[d] = tile[d].min(shape[d] - at * tile[d]);
            }
            tiles.push(TileState {
                directory: Directory { owner: Cell::new(owner(&index)), ..Directory::default() },
                shape: extents,
                local: RefCell::default(),
            });
            for d in (0..index.len()).rev() {
                index[d] += 1;
                if index[d] < grid[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        let id = core.next_object();
        let (shape, is_bound) = (shape.to_vec(), false);
        Self(Rc::new(Object { id, shape, tile, grid, tiles, is_bound, core: core.clone() }))
    }

    /// Makes an object of one tile from a data object of this rank's runtime.
    pub(crate) fn of_local(core: &Rc<Core>, local: &Data<T, S>, owner: u32) -> Self {
        let shape = local.shape();
        let mut data = Self::new(core, &shape, &shape, |_| owner);
        let object = Rc::get_mut(&mut data.0).expect("the object is new");
        object.is_bound = true;
        if let Some(tile) = object.tiles.first() {
            *tile.local.borrow_mut() = Some(local.clone());
        }
        core.bound.insert(local, &data);
        data
    }

    /// The number of elements along each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The number of tiles along each dimension.
    pub fn grid(&self) -> &[usize] {
        &self.0.grid
    }

    /// The number of tiles.
    pub fn num_tiles(&self) -> usize {
        self.0.tiles.len()
    }

    /// Returns the tile with this index along each dimension.
    ///
    /// # Panics
    /// Panics if there is no such tile.
    #[track_caller]
    pub fn tile<const N: usize>(&self, index: [usize; N]) -> Tile<'_, T, S> {
        let grid = &self.0.grid;
        let inside = N == grid.len() && index.iter().zip(grid).all(|(at, extent)| at < extent);
        assert!(inside, "cannot return tile {index:?}: there are {grid:?} tiles");
        self.nth(index.iter().zip(grid).fold(0, |number, (at, extent)| number * extent + at))
    }

    /// Returns the tile with this number in row-major order.
    ///
    /// # Panics
    /// Panics if there is no such tile.
    #[track_caller]
    pub fn nth(&self, number: usize) -> Tile<'_, T, S> {
        let tiles = self.0.tiles.len();
        assert!(number < tiles, "cannot return tile {number}: there are {tiles} tiles");
        let whole = Block::whole(&self.0.tiles[number].shape[..self.0.grid.len()]);
        Tile { object: &self.0, number: number as u32, block: whole }
    }

    /// All tiles, in row-major order.
    pub fn tiles(&self) -> impl ExactSizeIterator<Item = Tile<'_, T, S>> {
        (0..self.num_tiles()).map(|number| self.nth(number))
    }

    /// `in`: the task reads the only tile.
    ///
    /// # Panics
    /// Panics if there are several tiles; access them by [`tile`](Self::tile).
    #[track_caller]
    pub fn input(&self) -> Reads<'_, T, S> {
        self.all().input()
    }

    /// `out`: the task overwrites the only tile.
    ///
    /// # Panics
    /// As for [`input`](Self::input).
    #[track_caller]
    pub fn output(&self) -> Writes<'_, T, S> {
        self.all().output()
    }

    /// `inout`: the task reads and writes the only tile.
    ///
    /// # Panics
    /// As for [`input`](Self::input).
    #[track_caller]
    pub fn inout(&self) -> Updates<'_, T, S> {
        self.all().inout()
    }

    /// `reduction`: the task contributes to the only tile; see [`Tile::reduction`].
    ///
    /// # Panics
    /// As for [`input`](Self::input).
    #[track_caller]
    pub fn reduction<R: Reducer<T>>(&self, reducer: R) -> Reduces<'_, T, S, R> {
        self.all().reduction(reducer)
    }

    /// The only tile.
    ///
    /// # Panics
    /// Panics if there are several tiles, or none.
    #[track_caller]
    pub fn all(&self) -> Tile<'_, T, S> {
        let tiles = self.num_tiles();
        assert!(tiles == 1, "cannot access the data as a whole: it has {tiles} tiles; try `tile` or `nth`");
        self.nth(0)
    }
}

/// A tile of a data object, or a box inside of one. It can be accessed by tasks, read, and moved to another owner.
pub struct Tile<'d, T, S: Dims = Ix1> {
    pub(crate) object: &'d Rc<Object<T, S>>,
    pub(crate) number: u32,
    /// In the tile.
    pub(crate) block: Block,
}

impl<T, S: Dims> Clone for Tile<'_, T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S: Dims> Copy for Tile<'_, T, S> {}

impl<T, S: Dims> fmt::Debug for Tile<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = self.block.display(self.object.grid.len());
        write!(f, "tile {} of data {}, {block}", self.number, self.object.id)
    }
}

impl<'d, T: Element, S: Dims> Tile<'d, T, S> {
    /// The rank that owns the tile.
    pub fn owner(&self) -> usize {
        self.state().directory.owner.get() as usize
    }

    /// The tile's number in row-major order.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// The number of elements along each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.block.extents()[..self.object.grid.len()].to_vec()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.block.volume()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Returns a box in the tile. Indices begin at the tile's first element. Messages carry only the boxes that tasks
    /// read, such as the border of a neighbour.
    ///
    /// The bounds are checked by the call that accesses the box.
    #[must_use]
    pub fn block(self, ranges: impl Ranges<S>) -> Self {
        let shape = &self.state().shape[..self.object.grid.len()];
        Self { block: ranges.block(shape), ..self }
    }

    /// `in`: the task reads the region.
    pub fn input(self) -> Reads<'d, T, S> {
        Reads(self)
    }

    /// `out`: the task overwrites the region.
    pub fn output(self) -> Writes<'d, T, S> {
        Writes(self)
    }

    /// `inout`: the task reads and writes the region.
    pub fn inout(self) -> Updates<'d, T, S> {
        Updates(self)
    }

    /// `reduction`: the task contributes to the region. It gets an array of identities of the operation, which is
    /// combined with the region afterwards. The owner combines contributions in the order of submission, so the result
    /// has the same bits on any number of ranks.
    pub fn reduction<R: Reducer<T>>(self, reducer: R) -> Reduces<'d, T, S, R> {
        Reduces::new(self, reducer)
    }

    #[inline]
    pub(crate) fn state(&self) -> &'d TileState<T, S> {
        &self.object.tiles[self.number as usize]
    }

    pub(crate) fn core(&self) -> &'d Rc<Core> {
        &self.object.core
    }

    /// Returns this rank's array of the tile. A new array contains zeros.
    pub(crate) fn local(&self) -> Data<T, S> {
        let state = self.state();
        let make = || self.core().runtime().zeros(S::of(&state.shape));
        state.local.borrow_mut().get_or_insert_with(make).clone()
    }

    /// Sets the array of the home copy.
    pub(crate) fn set_local(&self, data: Option<Data<T, S>>) {
        *self.state().local.borrow_mut() = data;
    }

    /// The whole tile.
    pub(crate) fn whole(&self) -> Self {
        Self { block: Block::whole(&self.state().shape[..self.object.grid.len()]), ..*self }
    }
}
