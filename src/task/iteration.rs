//! Iteration spaces: tasks that recur every time step under the same index.

use crate::sched::{Neighbour, Position};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The indices `0..len` of tasks that recur in every instance. For example, an index is a zone of a mesh, and an
/// instance is a time step.
///
/// Work distributions (González Tallada 2024 (slides); González Tallada & Morancho 2024, §4) map the indices to units;
/// [`TaskBuilder::at`](crate::TaskBuilder::at) assigns an index to a task.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").scheduler("static").build()?;
/// let data: Vec<_> = (0..4).map(|_| rt.scalar(0)).collect();
/// let zones = IterationSpace::new("zones", vec![1.0; 4]);
/// for _ in 0..3 {
///     zones.begin(); // a time step
///     for (zone, x) in data.iter().enumerate() {
///         rt.task("step", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).at(&zones, zone).submit()?;
///     }
/// }
/// rt.wait()?;
/// assert_eq!(rt.statistics().tasks, [(UnitId(0), 6), (UnitId(1), 6)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct IterationSpace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: u64,
    name: String,
    weights: Arc<[f64]>,
    neighbours: OnceLock<Arc<[Vec<Neighbour>]>>,
    begun: AtomicU64,
}

/// The ID of the next iteration space.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl IterationSpace {
    /// Creates an iteration space with one index per weight; a weight is the relative work at its index.
    ///
    /// # Panics
    /// Panics if a weight is negative, infinite or NaN.
    #[track_caller]
    pub fn new(name: impl Into<String>, weights: Vec<f64>) -> Self {
        let name = name.into();
        let odd = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0);
        if let Some(index) = odd {
            let weight = weights[index];
            panic!(
                "cannot weigh index {index} of iteration space `{name}` by {weight}: try a finite number, 0 or more"
            );
        }
        Self {
            inner: Arc::new(Inner {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                name,
                weights: weights.into(),
                neighbours: OnceLock::new(),
                begun: AtomicU64::new(0),
            }),
        }
    }

    /// Declares with which indices each index exchanges data, for the schedulers `adjacency` and `certified`; all pairs
    /// exchange the same amount. Each pair need be named only once. If this method and
    /// [`with_exchange`](Self::with_exchange) are both called, or one of them repeatedly, the first call wins.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").scheduler("adjacency").build()?;
    /// // Four zones in a square: each names its east and north neighbour.
    /// let zones = IterationSpace::new("zones", vec![1.0; 4]).with_neighbours(vec![vec![1, 2], vec![3], vec![3], vec![]]);
    /// assert_eq!(zones.neighbours().map(<[_]>::len), Some(4));
    /// # Ok::<(), BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the number of lists is not the number of indices, or a list names an index that does not exist.
    #[must_use]
    #[track_caller]
    pub fn with_neighbours(self, neighbours: Vec<Vec<usize>>) -> Self {
        let alike = |mut list: Vec<usize>| {
            list.sort_unstable();
            list.dedup();
            list.into_iter().map(Neighbour::from).collect()
        };
        self.with_exchange(neighbours.into_iter().map(alike).collect())
    }

    /// Declares with which indices each index exchanges data, and how many bytes per instance. Schedulers give priority
    /// to keeping the pairs whose copies would take longest in one memory. A pair need be named only at one of its
    /// ends; if it is named at both, the larger number counts. An index that is named twice in one list, for example
    /// because of two shared faces, counts as two copies.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::sched::Neighbour;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").scheduler("adjacency").build()?;
    /// // Three zones in a row, each with the bytes of its eastern face.
    /// let east = |index, bytes| vec![Neighbour { index, bytes }];
    /// let zones = IterationSpace::new("zones", vec![1.0; 3]).with_exchange(vec![east(1, 800), east(2, 1200), vec![]]);
    /// assert_eq!(zones.neighbours().map(|lists| lists[1][0].bytes), Some(1200));
    /// # Ok::<(), BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the number of lists is not the number of indices, or a list names an index that does not exist.
    #[must_use]
    #[track_caller]
    pub fn with_exchange(self, neighbours: Vec<Vec<Neighbour>>) -> Self {
        let (name, len) = (self.name(), self.len());
        assert_eq!(neighbours.len(), len, "iteration space `{name}` has {len} indices");
        let outside = neighbours.iter().flatten().map(|neighbour| neighbour.index).find(|index| *index >= len);
        assert!(outside.is_none(), "iteration space `{name}` of {len} has no index {outside:?}");
        let _ = self.inner.neighbours.set(neighbours.into());
        self
    }

    /// Returns, for each index, the indices that it exchanges data with; `None` if they were not declared.
    pub fn neighbours(&self) -> Option<&[Vec<Neighbour>]> {
        self.inner.neighbours.get().map(|neighbours| &**neighbours)
    }

    /// Opens the next instance and returns its number, counted from 0.
    pub fn begin(&self) -> u64 {
        self.inner.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns how many instances have been opened.
    pub fn instances(&self) -> u64 {
        self.inner.begun.load(Ordering::Relaxed)
    }

    /// Returns the space's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the number of indices.
    pub fn len(&self) -> usize {
        self.inner.weights.len()
    }

    /// Returns whether there is no index.
    pub fn is_empty(&self) -> bool {
        self.inner.weights.is_empty()
    }

    /// Returns the relative amount of work at each index, as the user estimates it.
    pub fn weights(&self) -> &[f64] {
        &self.inner.weights
    }

    /// Returns the place of an index in the most recently begun instance.
    pub(crate) fn place(&self, index: usize) -> Position {
        Position {
            space: self.id(),
            index,
            instance: self.instances().saturating_sub(1),
            weights: self.inner.weights.clone(),
            neighbours: self.inner.neighbours.get().cloned(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }
}
