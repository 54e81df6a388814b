//! Owner maps, which assign tiles or other items to ranks.

use thalweg::sched::{Assignment, Distribution, Times, Workload};

/// Argument of an owner map: a tile in its grid, and the number of ranks.
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
/// factorizations. If there are fewer than `rows * columns` ranks, grid positions wrap around to the existing ranks.
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

/// Items in the order of decreasing weight, each to the rank with the least so far: for items of very different sizes,
/// as NPB-MZ balances zones. A distribution for [`Balance`](crate::Balance).
///
/// ```
/// use thalweg::sched::{Distribution, Team, Workload};
/// use thalweg_mpi::owners::LargestFirst;
/// let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &[1.0, 3.0, 2.0, 1.0], neighbours: None };
/// assert_eq!(LargestFirst.assign(&workload, None).slots(), [1, 0, 1, 0]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LargestFirst;

impl Distribution for LargestFirst {
    fn name(&self) -> &'static str {
        "largest-first"
    }

    fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
        let (mut order, mut loads) = (Vec::from_iter(0..workload.len()), vec![0.0f64; workload.team.len()]);
        order.sort_by(|a, b| workload.weights[*b].total_cmp(&workload.weights[*a]));
        let mut owners = vec![0; order.len()];
        for item in order {
            let least = (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0);
            (owners[item], loads[least]) = (least, loads[least] + workload.weights[item]);
        }
        Assignment::new(owners)
    }

    fn is_steady(&self) -> bool {
        true
    }
}
