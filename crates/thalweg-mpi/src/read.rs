//! Values on one rank or on all.
//!
//! A read is a submission whose task runs on each reader, so it needs no other kind of message.

use crate::cluster::Cluster;
use crate::data::{ClusterData, Tile};
use crate::dims::Dims;
use crate::error::{ClusterError, Failure};
use crate::shared::lock;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use thalweg::TaskGroup;
use thalweg::memory::Element;
use thalweg::ndarray::Array;
use thalweg::region::Block;

/// Tiles of a gathered data object that are under way at the same time, which bounds the memory for them.
const GATHERED_AT_ONCE: usize = 16;

impl Cluster {
    /// Returns a region's value on every rank, after the tasks that write it.
    ///
    /// # Errors
    /// The value is missing because a task has failed, the region is not inside of its tile, or the cluster cannot
    /// continue.
    #[track_caller]
    pub fn read<'d, T: Element, S: Dims>(
        &self,
        region: impl Into<Tile<'d, T, S>>,
    ) -> Result<S::Owned<T>, ClusterError> {
        let value = self.read_if(region.into(), None, Location::caller())?;
        Ok(value.expect("every rank gets the value"))
    }

    /// Returns a region's value on one rank, and `None` on the others, which do not wait.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[track_caller]
    pub fn read_on<'d, T: Element, S: Dims>(
        &self,
        rank: usize,
        region: impl Into<Tile<'d, T, S>>,
    ) -> Result<Option<S::Owned<T>>, ClusterError> {
        self.read_if(region.into(), Some(rank), Location::caller())
    }

    /// Returns all tiles of a data object as one array, on every rank. Its copies are released afterwards.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[track_caller]
    pub fn gather<T: Element, S: Dims>(&self, data: &ClusterData<T, S>) -> Result<Array<T, S>, ClusterError> {
        let mut extents = [1; 4];
        extents[..data.shape().len()].copy_from_slice(data.shape());
        let mut all = Array::from_elem(S::of(&extents), T::zeroed());
        let (place, mut begun) = (Location::caller(), VecDeque::new());
        let mut tiles = data.tiles();
        loop {
            while begun.len() < GATHERED_AT_ONCE
                && let Some(tile) = tiles.next()
            {
                begun.push_back((tile.number(), self.begin_read(tile, None, place)?));
                self.release(tile)?;
            }
            let Some((number, reading)) = begun.pop_front() else { return Ok(all) };
            let value = self.end_read(reading.expect("every rank gets the value"))?;
            let (first, value): (_, Array<T, S>) = (data.first_of(number), value.into());
            all.slice_each_axis_mut(|axis| {
                let (begin, len) = (first[axis.axis.index()], value.shape()[axis.axis.index()]);
                (begin..begin + len).into()
            })
            .assign(&value);
        }
    }

    fn read_if<T: Element, S: Dims>(
        &self,
        region: Tile<'_, T, S>,
        only: Option<usize>,
        place: &'static Location<'static>,
    ) -> Result<Option<S::Owned<T>>, ClusterError> {
        self.begin_read(region, only, place)?.map(|reading| self.end_read(reading)).transpose()
    }

    /// Submits the messages and the task of a read; returns `None` on a rank that does not read.
    fn begin_read<T: Element, S: Dims>(
        &self,
        region: Tile<'_, T, S>,
        only: Option<usize>,
        place: &'static Location<'static>,
    ) -> Result<Option<Reading<S::Owned<T>>>, ClusterError> {
        let core = &self.core;
        core.check()?;
        if !Block::from_corners([0; 4], region.state().shape).encloses(&region.block) {
            return Err(refused("the region is not inside of its tile; try a smaller one"));
        }
        if only.is_some_and(|rank| rank >= self.ranks()) {
            return Err(refused("there is no such rank; try a smaller one"));
        }
        let label = (region.object.id, region.number, region.block, only);
        let cause = core.submission(Cow::Borrowed("read"), place, label);
        if only.is_none() {
            core.enter("read", place);
        }
        let readers = only.map_or(0..core.size, |rank| rank as u32..rank as u32 + 1);
        readers.clone().try_for_each(|rank| region.bring(rank, &cause))?;
        if !readers.contains(&core.rank) {
            return Ok(None);
        }
        let (group, found, rank) = (core.runtime().group(), Arc::new(Mutex::new(None)), core.rank);
        let (data, to, shared) = (region.local(), found.clone(), core.shared.clone());
        group
            .task("read", (data.block(region.block).outcome(),))
            .cpu(move |_, (value,)| {
                let value = match value {
                    Ok(view) => Ok(S::to_owned(&view)),
                    Err(failure) => Err(Failure::of(failure, rank, &shared)),
                };
                *lock(&to) = Some(value);
            })
            .submitted_at(place.into())
            .submit()?;
        Ok(Some(Reading { group, found }))
    }

    fn end_read<V>(&self, Reading { group, found }: Reading<V>) -> Result<V, ClusterError> {
        self.core.wait_for(&group)?;
        let found = lock(&found).take();
        match found.ok_or_else(|| refused("its task has been cancelled"))? {
            Ok(value) => Ok(value),
            Err(failure) => match self.core.check() {
                Ok(()) => Err(ClusterError::Poisoned(Box::new(failure))),
                Err(broken) => Err(broken.into()),
            },
        }
    }
}

/// A read whose task may not have run yet.
struct Reading<V> {
    group: TaskGroup,
    found: Arc<Mutex<Option<Result<V, Failure>>>>,
}

fn refused(problem: &str) -> ClusterError {
    ClusterError::Refused { task: "read".to_owned(), problem: problem.to_owned() }
}

impl<T: Element, S: Dims> ClusterData<T, S> {
    /// The index of a tile's first element.
    fn first_of(&self, mut number: usize) -> [usize; 4] {
        let (mut first, grid) = ([0; 4], self.grid());
        for d in (0..grid.len()).rev() {
            first[d] = number % grid[d] * self.0.tile[d];
            number /= grid[d];
        }
        first
    }
}
