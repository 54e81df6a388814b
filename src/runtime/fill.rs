//! Arrays that tasks fill, part by part, with what a function of the index gives.
//!
//! A loop over the parts like any other ([`super::for_each`]); what is here is which element is which. Memory that nobody has
//! touched comes to lie near to the unit that does so first, so whoever fills a part decides where it lies.

use super::{LoopBody, LoopBuilder, Runtime};
use crate::Context;
use crate::error::SubmitError;
use crate::memory::{AccessList, Element, Shape};
use crate::task::{Data, Each, LoopAccesses, Output, Partition};
use ndarray::{ArrayViewMut, Dimension, IntoDimension};
use std::ops::RangeFrom;

/// What a task that fills accesses: the number of its part, and the part.
type Part<'d, T, S> = (RangeFrom<usize>, Each<Output<'d, T, S>>);
/// What its body gets of that.
type Views<'a, 'd, T, S> = <<Part<'d, T, S> as LoopAccesses>::Stored as AccessList>::Views<'a>;

impl Runtime {
    /// Registers an array of one to four dimensions whose elements `element` computes, each from its index, as
    /// [`Array::from_shape_fn`](ndarray::Array::from_shape_fn) does: a number in one dimension, a tuple in several.
    ///
    /// Nobody waits: tasks fill it side by side, one for each unit, and who uses it comes after them. So nothing touches the memory of
    /// a large array before, and each part lies near to the unit that has filled it ([`zeros`](Self::zeros) says from which
    /// size on). Where that is to be a certain unit, or parts are to be others, [`fill_with`](Self::fill_with) an array of zeros.
    ///
    /// If `element` panics, its task has failed, and with it whoever uses that part. In a simulation the tasks take their time,
    /// and the array has no memory, as an array of zeros has none.
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
    /// If a task is refused: the runtime is ending, or has broken down.
    ///
    /// # Panics
    /// If the array would have more elements, or more bytes, than memory has addresses (`isize::MAX`).
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
        // The outermost dimension that is long enough is cut.
        let cut = data.shape().iter().position(|extent| *extent >= units).unwrap_or(0);
        size[cut] = size[cut].div_ceil(units);
        size.slice_mut().iter_mut().for_each(|size| *size = (*size).max(1));
        self.fill_with(data.tiles(size).on_lines(), element).submit()?;
        Ok(data)
    }

    /// Begins the description of a loop whose iterations overwrite the parts of a partition with what `element` gives for each
    /// index of the array: [`for_each`](Self::for_each) with its body already. Parts that nobody has touched come to lie near to
    /// the units that fill them, so this is how an array gets where it is used: the indices of an iteration space are filled
    /// where its distribution sends them.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").scheduler("static").build()?;
    /// let strips = rt.iteration_space("strips", vec![1.0; 4]);
    /// let field: Data<f32, Ix2> = rt.zeros([100, 50]);
    /// strips.begin();
    /// rt.fill_with(field.rows(25), |(i, j)| i as f32 + 0.5 * j as f32).at(&strips).submit()?;
    /// strips.begin(); // what computes on a strip finds it near
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

/// Overwrites a part of an array, which begins at this index.
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
