//! Arrays that tasks fill part by part, by calling a function with each index.
//!
//! Filling is an ordinary loop over the parts ([`super::for_each`]); this file maps parts to indices. Untouched memory
//! is placed near the unit that touches it first, so the unit that fills a part determines where the part is.

use super::runtime::Runtime;
use crate::Context;
use crate::error::SubmitError;
use crate::memory::{AccessList, Element, Shape};
use crate::task::{Data, Each, LoopAccesses, Output};
use ndarray::{ArrayViewMut, Dimension, IntoDimension};
use std::ops::RangeFrom;

/// The accesses of a task that fills a part: the index of the part, and the part itself.
type Part<'d, T, S> = (RangeFrom<usize>, Each<Output<'d, T, S>>);
/// The views that the body of such a task gets.
type Views<'a, 'd, T, S> = <<Part<'d, T, S> as LoopAccesses>::Stored as AccessList>::Views<'a>;

impl Runtime {
    /// Registers an array of one to four dimensions. `element` computes each element from its index, as in
    /// [`Array::from_shape_fn`](ndarray::Array::from_shape_fn): the index is a number in one dimension, and a tuple in
    /// several.
    ///
    /// The call does not wait: tasks fill the array in parallel, one for each unit, and tasks that use it come after
    /// them. Nothing touches the memory of a large array before these tasks do, so each part is near the unit that has
    /// filled it (for the sizes that [`zeros`](Self::zeros) states). To choose the units or the parts yourself, fill an
    /// array of zeros in a loop ([`for_each`](Self::for_each)).
    ///
    /// If `element` panics, its task fails, and tasks that use that part are skipped. In a simulation, the tasks take
    /// up virtual time, and the array has no memory, like an array of zeros.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let squares = rt.data_with(1000, |i| (i * i) as u64)?;
    /// let table = rt.data_with([3, 4], |(i, j)| 10 * i + j)?;
    /// assert_eq!(rt.read(&squares.slice(998..))?, [998 * 998, 999 * 999]);
    /// assert_eq!(rt.take(table)?[[2, 3]], 23);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a task is refused because the runtime is ending or has broken down.
    ///
    /// # Panics
    /// Panics if the array's number of elements or bytes would exceed `isize::MAX`.
    #[track_caller]
    pub fn data_with<T, I, F>(&self, shape: I, element: F) -> Result<Data<T, I::Dim>, SubmitError>
    where
        T: Element,
        I: IntoDimension,
        I::Dim: Shape,
        F: Fn(<I::Dim as Dimension>::Pattern) -> T + Send + Sync + 'static,
    {
        let data = self.zeros(shape);
        let mut size = I::Dim::zeros(data.shape().len());
        size.slice_mut().copy_from_slice(&data.shape());
        let units = self.machine().num_units();
        // Cut the outermost dimension that is long enough.
        let cut = data.shape().iter().position(|extent| *extent >= units).unwrap_or(0);
        size[cut] = size[cut].div_ceil(units);
        size.slice_mut().iter_mut().for_each(|size| *size = (*size).max(1));
        let parts = data.tiles(size).on_lines();
        let corners = parts.corners();
        let body = move |_: &Context, (number, part): Views<'_, '_, T, I::Dim>| {
            fill(part.into(), corners(number), &element);
        };
        self.for_each("fill", (0.., parts.output())).cpu(body).submit()?;
        Ok(data)
    }
}

/// Overwrites a part of an array that begins at the index `first`.
fn fill<T, S: Shape>(mut part: ArrayViewMut<'_, T, S>, first: S, element: impl Fn(S::Pattern) -> T) {
    let (mut index, mut end) = (first, first);
    end += &part.raw_dim();
    for place in &mut part {
        *place = element(index.into_pattern());
        for d in (0..index.ndim()).rev() {
            index[d] += 1;
            if index[d] < end[d] {
                break;
            }
            index[d] = first[d];
        }
    }
}
