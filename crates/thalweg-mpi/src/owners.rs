//! Owner maps: which rank owns a tile.

/// A tile whose owner is asked for.
#[derive(Debug, Clone, Copy)]
pub struct TileAt<'a> {
    /// The tile's index along each dimension.
    pub tile: &'a [usize],
    /// The number of tiles along each dimension.
    pub grid: &'a [usize],
    /// The number of ranks.
    pub ranks: usize,
}

impl TileAt<'_> {
    /// The tile's number in row-major order.
    pub fn number(&self) -> usize {
        self.tile.iter().zip(self.grid).fold(0, |number, (tile, extent)| number * extent + tile)
    }
}

/// Consecutive tiles in row-major order to each rank, as evenly as possible: for loops over neighbours.
///
/// ```
/// use thalweg_mpi::owners::{TileAt, block};
/// let owner = |tile| block(TileAt { tile: &[tile], grid: &[5], ranks: 2 });
/// assert_eq!([0, 1, 2, 3, 4].map(owner), [0, 0, 0, 1, 1]);
/// ```
pub fn block(at: TileAt<'_>) -> usize {
    let tiles: usize = at.grid.iter().product();
    at.number() * at.ranks / tiles.max(1)
}

/// Tiles in row-major order, one to each rank in turn: for balance if costs grow with the index.
///
/// ```
/// use thalweg_mpi::owners::{TileAt, cyclic};
/// let owner = |tile| cyclic(TileAt { tile: &[tile], grid: &[5], ranks: 2 });
/// assert_eq!([0, 1, 2, 3, 4].map(owner), [0, 1, 0, 1, 0]);
/// ```
pub fn cyclic(at: TileAt<'_>) -> usize {
    at.number() % at.ranks
}

/// Tiles of a matrix to a grid of `rows` by `columns` ranks, repeated in both dimensions, as ScaLAPACK does: for
/// factorizations. With fewer ranks, the ranks that exist take the others' tiles in turn.
///
/// ```
/// use thalweg_mpi::owners::{TileAt, block_cyclic};
/// let owner = |tile| block_cyclic(2, 2)(TileAt { tile, grid: &[4, 4], ranks: 4 });
/// assert_eq!([owner(&[0, 0]), owner(&[0, 1]), owner(&[1, 0]), owner(&[3, 3])], [0, 1, 2, 3]);
/// ```
pub fn block_cyclic(rows: usize, columns: usize) -> impl Fn(TileAt<'_>) -> usize {
    move |at| {
        let column = at.tile.get(1).copied().unwrap_or(0);
        ((at.tile[0] % rows.max(1)) * columns.max(1) + column % columns.max(1)) % at.ranks
    }
}

/// The most nearly square grid of this many ranks, as rows and columns, for [`block_cyclic`].
///
/// ```
/// assert_eq!(thalweg_mpi::owners::square(12), (3, 4));
/// assert_eq!(thalweg_mpi::owners::square(7), (1, 7));
/// ```
pub fn square(ranks: usize) -> (usize, usize) {
    let rows = (1..=ranks).take_while(|rows| rows * rows <= ranks).filter(|rows| ranks.is_multiple_of(*rows)).last();
    (rows.unwrap_or(1), ranks / rows.unwrap_or(1))
}
