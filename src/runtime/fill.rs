//! Arrays that tasks fill part by part, by calling a function with each index.
//!
//! Filling is an ordinary loop over the parts ([`super::for_each`]); this file maps parts to indices. Untouched memory
//! is placed near the unit that touches it first, so the unit that fills a part determines where the part is.

use super::{LoopBody, LoopBuilder, Runtime};
use crate::Context;
use crate::error::SubmitError;
use crate::memory::{AccessList, Element, Shape};
use crate::task::{Data, Each, LoopAccesses, Output, Partition};
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
    /// filled it (for the sizes that [`zeros`](Self::zeros) states). To choose the units or the parts yourself, use
    /// [`fill_with`](Self::fill_with) on an array of zeros.
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
        self.fill_with(data.tiles(size).on_lines(), element).submit()?;
        Ok(data)
    }

    /// Begins the description of a loop whose iterations overwrite the parts of a partition with the values that
    /// `element` returns for each index of the array. It is a [`for_each`](Self::for_each) that already has a body.
    ///
    /// Untouched parts are placed near the units that fill them, so this call can place an array where it is used: with
    /// an iteration space, each part is filled on the unit to which the distribution assigns its index.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").scheduler("static").build()?;
    /// let strips = rt.iteration_space("strips", vec![1.0; 4]);
    /// let field: Data<f32, Ix2> = rt.zeros([100, 50]);
    /// strips.begin();
    /// rt.fill_with(field.rows(25), |(i, j)| i as f32 + 0.5 * j as f32).at(&strips).submit()?;
    /// strips.begin(); // the unit that computes on a strip has it nearby
    /// rt.for_each("halve", field.rows(25).inout()).cpu(|_, mut rows| rows *= 0.5).at(&strips).submit()?;
    /// assert_eq!(rt.take(field)?[[60, 8]], 32.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fill_with<'rt, 'd, T, S, F>(
        &'rt self,
        parts: Partition<'d, T, S>,
        element: F,
    ) -> LoopBuilder<
        'rt,
        Part<'d, T, S>,
        LoopBody<impl for<'c, 'a> Fn(&'c Context, Views<'a, 'd, T, S>) + Send + Sync + 'static, ()>,
    >
    where
        T: Element,
        S: Shape,
        F: Fn(S::Pattern) -> T + Send + Sync + 'static,
    {
        let corners = parts.corners();
        self.for_each("fill", (0.., parts.output())).cpu(move |_: &Context, (number, part): Views<'_, 'd, T, S>| {
            fill(part.into(), corners(number), &element);
        })
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
