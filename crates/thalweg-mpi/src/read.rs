//! Values on one rank or on all.
//!
//! A read is a submission whose task runs on each reader, so it needs no other kind of message.

use crate::cluster::Cluster;
use crate::data::{ClusterData, Tile};
use crate::dims::Dims;
use crate::error::{ClusterError, Failure};
use crate::shared::lock;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use thalweg::memory::Element;
use thalweg::ndarray::Array;
use thalweg::region::Block;

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
        let place = Location::caller();
        for tile in data.tiles() {
            let value: Option<S::Owned<T>> = self.read_if(tile, None, place)?;
            let value: Array<T, S> = value.expect("every rank gets the value").into();
            let first = data.first_of(tile.number());
            all.slice_each_axis_mut(|axis| {
                let (begin, len) = (first[axis.axis.index()], value.shape()[axis.axis.index()]);
                (begin..begin + len).into()
            })
            .assign(&value);
            self.release(tile)?;
        }
        Ok(all)
    }

    fn read_if<T: Element, S: Dims>(
        &self,
        region: Tile<'_, T, S>,
        only: Option<usize>,
        place: &'static Location<'static>,
    ) -> Result<Option<S::Owned<T>>, ClusterError> {
        let core = &self.core;
        core.check()?;
        let refused = |problem: &str| ClusterError::Refused { task: "read".to_owned(), problem: problem.to_owned() };
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
            .submit()?;
        core.wait_for(&group)?;
        let found = lock(&found).take();
        match found.ok_or_else(|| refused("its task has been cancelled"))? {
            Ok(value) => Ok(Some(value)),
            Err(failure) => match core.check() {
                Ok(()) => Err(ClusterError::Poisoned(Box::new(failure))),
                Err(broken) => Err(broken.into()),
            },
        }
    }
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
