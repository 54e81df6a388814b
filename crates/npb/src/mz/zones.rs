//! The zones of a mesh: their widths and their neighbours.
//!
//! The mesh is divided in x and y, never in z. Widths are equal, or grow geometrically so that the largest is
//! `ratio` times the smallest (NASA report NAS-03-010, section 3). A zone's index is `ix + iy * zones in x`. The
//! mesh is periodic in both directions, so every zone has four neighbours.

/// Grid points of a zone, including its boundary planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of points in x, the direction that is contiguous in memory.
    pub nx: usize,
    /// Number of points in y.
    pub ny: usize,
    /// Number of points in z.
    pub nz: usize,
}

impl Shape {
    /// Returns the shape of an array that holds five components per point.
    pub fn array(self) -> [usize; 4] {
        [5, self.nz, self.ny, self.nx]
    }

    /// Returns the number of points.
    pub fn points(self) -> usize {
        self.nx * self.ny * self.nz
    }

    /// Returns the number of points that are not on the boundary.
    pub(crate) fn interior(self) -> usize {
        (self.nx - 2) * (self.ny - 2) * (self.nz - 2)
    }
}

/// The indices of a zone's neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// Index of the neighbour towards smaller x.
    pub west: usize,
    /// Index of the neighbour towards larger x.
    pub east: usize,
    /// Index of the neighbour towards smaller y.
    pub south: usize,
    /// Index of the neighbour towards larger y.
    pub north: usize,
}

impl Neighbours {
    /// Returns the neighbours of `zone` among `columns` × `rows` zones.
    pub(crate) fn of(zone: usize, [columns, rows]: [usize; 2]) -> Self {
        let (ix, iy) = (zone % columns, zone / columns);
        Self {
            west: (ix + columns - 1) % columns + iy * columns,
            east: (ix + 1) % columns + iy * columns,
            south: ix + (iy + rows - 1) % rows * columns,
            north: ix + (iy + 1) % rows * columns,
        }
    }
}

/// Returns the widths of `zones` zones that together have `points` points, where the largest is `ratio` times the
/// smallest.
pub fn widths(points: usize, zones: usize, ratio: f64) -> Vec<usize> {
    let ends: Vec<usize> = if (ratio - 1.0).abs() <= 1e-10 {
        (1..=zones).map(|m| m * points / zones).collect()
    } else {
        let growth = (ratio.ln() / (zones as f64 - 1.0)).exp();
        let smallest = points as f64 * (growth - 1.0) / (growth.powi(zones as i32) - 1.0);
        // The benchmark adds 0.45 before truncating, where ordinary rounding would add one half.
        let end = |m: usize| smallest * (growth.powi(m as i32) - 1.0) / (growth - 1.0) + 0.45;
        (1..=zones).map(|m| end(m) as usize).collect()
    };
    let begins = std::iter::once(0).chain(ends.iter().copied());
    begins.zip(&ends).map(|(begin, end)| end - begin).collect()
}
